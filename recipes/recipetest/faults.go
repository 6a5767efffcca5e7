package recipetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

const rounds = 10 // of a fault that can hit at slightly different moments

func testLostReplyToLock(t *testing.T, w *world) {
	link := w.server.Link(t)
	c, observer := w.client(t, Options{Link: link}), w.client(t, Options{})
	m := mutex(t, c, "lost-reply")
	unlock(t, lock(t, m))
	var last uint64
	for range rounds {
		link.LoseReply()
		hold := lock(t, m)
		require.Len(t, w.queue(t, observer, "lost-reply"), 1, "one entry, however often the request was sent")
		require.Greater(t, hold.Token(), last)
		last = hold.Token()
		unlock(t, hold)
		require.Empty(t, w.queue(t, observer, "lost-reply"))
	}
}

func testLostReplyToUnlock(t *testing.T, w *world) {
	link := w.server.Link(t)
	c, observer := w.client(t, Options{Link: link}), w.client(t, Options{})
	m := mutex(t, c, "lost-reply")
	for range rounds {
		hold := lock(t, m)
		link.LoseReply()
		unlock(t, hold)
		require.Empty(t, w.queue(t, observer, "lost-reply"))
	}
}

func testLostReplyThenCancel(t *testing.T, w *world) {
	link := w.server.Link(t)
	c, observer := w.client(t, Options{Link: link}), w.client(t, Options{})
	m := mutex(t, c, "lost-reply")
	unlock(t, lock(t, m))
	for i := range rounds {
		link.LoseReply()
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*10*time.Millisecond)
		hold, err := m.Lock(ctx)
		cancel()
		if err == nil {
			unlock(t, hold)
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		w.queued(t, observer, "lost-reply", 0)
	}
	unlock(t, lock(t, m))
}

// testCancelOnStalledLink gives up a wait while nothing gets through: the call
// returns at once, and its entry goes when the link works again.
func testCancelOnStalledLink(t *testing.T, w *world) {
	link := w.server.Link(t)
	a, b := w.client(t, Options{}), w.client(t, Options{Link: link})
	hold := lock(t, mutex(t, a, "stalled"))
	unlock(t, lock(t, mutex(t, b, "other"))) // b has a session

	ctx, cancel := context.WithCancel(context.Background())
	waiter := lockAside(ctx, mutex(t, b, "stalled"))
	w.queued(t, a, "stalled", 2)
	w.entered(t, b)
	link.StallBoth()
	early := lockAside(ctx, mutex(t, b, "stalled")) // its request to enter is stuck
	cancel()
	require.ErrorIs(t, waiter.wait(t).err, context.Canceled)
	require.ErrorIs(t, early.wait(t).err, context.Canceled)
	require.ErrorIs(t, early.err, recipes.ErrUnavailable)
	link.Resume()
	w.queued(t, a, "stalled", 1)
	unlock(t, hold)
	unlock(t, lock(t, mutex(t, b, "stalled")))
	w.queued(t, a, "stalled", 0)
}

func testCutWhileWaiting(t *testing.T, w *world) {
	link := w.server.Link(t)
	a, b := w.client(t, Options{}), w.client(t, Options{Link: link})
	for range 3 {
		hold := lock(t, mutex(t, a, "cut"))
		waiter := lockAside(context.Background(), mutex(t, b, "cut"))
		w.queued(t, a, "cut", 2)
		link.Cut()
		unlock(t, hold)
		require.NoError(t, waiter.wait(t).err)
		unlock(t, waiter.hold)
	}
}

func testRestartWhileWaiting(t *testing.T, w *world) {
	a, b := w.client(t, Options{TTL: restartTTL}), w.client(t, Options{TTL: restartTTL})
	hold := lock(t, mutex(t, a, "restart"))
	waiter := lockAside(context.Background(), mutex(t, b, "restart"))
	w.queued(t, a, "restart", 2)
	w.server.Restart(t)
	require.NoError(t, hold.Context().Err(), "the holder rides out the restart")
	require.True(t, waiter.waiting(), "so does the waiter")
	unlock(t, hold)
	require.NoError(t, waiter.wait(t).err)
	require.Greater(t, waiter.hold.Token(), hold.Token())
	unlock(t, waiter.hold)
}

// testParentReaped removes what the service keeps for an empty queue, between
// and during calls.
func testParentReaped(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	stop := make(chan struct{})
	var reaping sync.WaitGroup
	reaping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				w.server.Reap(t, w.root, "reaped")
			}
		}
	})
	var working sync.WaitGroup
	for _, c := range []*recipes.Client{a, b} {
		m := mutex(t, c, "reaped")
		working.Go(func() {
			for range 25 {
				hold, err := m.Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if err := hold.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	close(stop)
	reaping.Wait()
}

func testForeignSiblings(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	unlock(t, lock(t, mutex(t, a, "foreign")))
	w.server.Foreign(t, w.root, "foreign")
	hold := lock(t, mutex(t, a, "foreign"))
	waiter := lockAside(context.Background(), mutex(t, b, "foreign"))
	w.queued(t, a, "foreign", 2)
	w.server.Foreign(t, w.root, "foreign")
	unlock(t, hold)
	require.NoError(t, waiter.wait(t).err)
	unlock(t, waiter.hold)
	hold, err := mutex(t, a, "foreign").TryLock(context.Background())
	require.NoError(t, err)
	unlock(t, hold)
}

func testRemovedByHand(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "removed"))
	next := lockAside(context.Background(), mutex(t, b, "removed"))
	w.queued(t, a, "removed", 2)
	w.server.Remove(t, w.root, "removed")
	require.NoError(t, next.wait(t).err)
	err := hold.Unlock(context.Background())
	require.ErrorIs(t, err, recipes.ErrLost)
	var lost *recipes.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, recipes.LostBroken, lost.Reason)
	require.Len(t, w.queue(t, b, "removed"), 1)

	waiter := lockAside(context.Background(), mutex(t, a, "removed"))
	w.queued(t, b, "removed", 2)
	w.entered(t, a)
	w.server.Remove(t, w.root, "removed") // b's
	w.server.Remove(t, w.root, "removed") // a's, which may have the lock by now
	waiter.wait(t)
	if waiter.err == nil {
		require.ErrorIs(t, waiter.hold.Unlock(context.Background()), recipes.ErrLost)
	} else {
		require.ErrorIs(t, waiter.err, recipes.ErrLost)
	}
	require.Empty(t, w.queue(t, b, "removed"))
	require.ErrorIs(t, next.hold.Unlock(context.Background()), recipes.ErrLost)
}

// testNothingLeft looks below the root after clients have gone in every way.
func testNothingLeft(t *testing.T, w *world) {
	link := w.server.Link(t)
	clients := []*recipes.Client{
		w.server.Open(t, Options{Root: w.root, TTL: calmTTL}),
		w.server.Open(t, Options{Root: w.root, TTL: calmTTL, Link: link}),
	}
	for i, c := range clients {
		for j := range 5 {
			lock(t, mutex(t, c, fmt.Sprintf("left/%d/%d", i, j)))
		}
		lockAside(context.Background(), mutex(t, c, "left/0/0"))
		unlock(t, lock(t, mutex(t, c, "left/released")))
	}
	require.NotEmpty(t, w.server.Left(t, w.root))
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	eventually(t, "everything to be gone", func() bool { return len(w.server.Left(t, w.root)) == 0 })
}
