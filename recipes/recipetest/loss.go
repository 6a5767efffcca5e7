package recipetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func testExpireWhileHolding(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m := mutex(t, a, "expire")
	hold := lock(t, m)
	old := a.SessionID()
	next := lockAside(context.Background(), mutex(t, b, "expire"))
	w.queued(t, b, "expire", 2)
	w.server.Expire(t, old)

	await(t, hold.Context().Done(), "the holder to learn that its session is over")
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(hold.Context()), &lost)
	require.Equal(t, recipes.LostSession, lost.Reason)
	require.Equal(t, "expire", lost.Name)
	require.NoError(t, next.wait(t).err)
	require.Greater(t, next.hold.Token(), hold.Token())
	unlock(t, next.hold)

	again := lock(t, m) // the client goes on with a new session
	require.NotEqual(t, old, again.SessionID())
	require.Greater(t, again.Token(), next.hold.Token())
	unlock(t, again)
}

func testExpireWhileWaiting(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "expire"))
	waiter := lockAside(context.Background(), mutex(t, b, "expire"))
	w.queued(t, a, "expire", 2)
	w.entered(t, b)
	w.server.Expire(t, b.SessionID())
	waiter.wait(t) // while the holder still holds
	require.ErrorIs(t, waiter.err, recipes.ErrLost)
	require.Nil(t, waiter.hold)
	w.queued(t, a, "expire", 1)
	unlock(t, hold)
}

// testExpireBeforeGrant ends the waiter's session while the waiter can't hear of
// it, and then lets the entry ahead go.
func testExpireBeforeGrant(t *testing.T, w *world) {
	link := w.server.Link(t)
	a, b := w.client(t, Options{}), w.client(t, Options{Link: link})
	hold := lock(t, mutex(t, a, "expire"))
	waiter := lockAside(context.Background(), mutex(t, b, "expire"))
	w.queued(t, a, "expire", 2)
	w.entered(t, b)
	id := b.SessionID()
	link.StallBoth()
	w.server.Expire(t, id)
	w.queued(t, a, "expire", 1)
	unlock(t, hold)
	link.Resume()
	waiter.wait(t)
	require.ErrorIs(t, waiter.err, recipes.ErrLost)
	require.Nil(t, waiter.hold)
	unlock(t, lock(t, mutex(t, b, "expire")))
}

func testUnlockAfterLoss(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "lost"))
	next := lockAside(context.Background(), mutex(t, b, "lost"))
	w.queued(t, b, "lost", 2)
	w.server.Expire(t, a.SessionID())
	require.NoError(t, next.wait(t).err)
	for range 2 {
		require.ErrorIs(t, hold.Unlock(context.Background()), recipes.ErrLost)
	}
	require.NoError(t, next.hold.Context().Err())
	require.Len(t, w.queue(t, b, "lost"), 1, "the next holder's entry was not touched")

	err := mutex(t, b, "do").Do(context.Background(), func(ctx context.Context, hold *recipes.Hold) error {
		w.server.Expire(t, hold.SessionID())
		await(t, ctx.Done(), "the work's context to end")
		return nil
	})
	require.ErrorIs(t, err, recipes.ErrLost, "Do reports the loss although the work did not")
}

func testRenewalKeeps(t *testing.T, w *world) {
	c := w.client(t, Options{TTL: shortTTL})
	hold := lock(t, mutex(t, c, "renew"))
	start := time.Now()
	eventually(t, "two TTLs to pass", func() bool { return time.Since(start) > 2*shortTTL })
	require.NoError(t, hold.Context().Err())
	unlock(t, hold)
}

// testShortStall stalls the link for less than the session lasts: nothing is lost.
func testShortStall(t *testing.T, w *world) {
	link := w.server.Link(t)
	c := w.client(t, Options{TTL: 3 * shortTTL, Link: link})
	hold := lock(t, mutex(t, c, "stall"))
	first := hold.Deadline()
	link.StallBoth()
	start := time.Now()
	eventually(t, "half a second to pass", func() bool { return time.Since(start) > 500*time.Millisecond })
	link.Resume()
	eventually(t, "a renewal after the stall", func() bool { return hold.Deadline().After(first) })
	require.NoError(t, hold.Context().Err())
	unlock(t, hold)
}

// testLossComesFirst stalls the holder's link, in 50 runs for each way of
// stalling: the holder's context ends before the next contender gets the lock.
func testLossComesFirst(t *testing.T, w *world) {
	stalls := []struct {
		name  string
		stall func(Link)
	}{
		{"both ways", Link.StallBoth},
		{"requests only", Link.StallRequests},
		{"replies only", Link.StallReplies},
	}
	for _, s := range stalls {
		const runs = 50
		margins := make([]time.Duration, runs)
		var wg sync.WaitGroup
		contender := w.client(t, Options{})
		for i := range runs {
			link := w.server.Link(t)
			holder := w.client(t, Options{TTL: shortTTL, Link: link})
			name := s.name + string(rune('A'+i))
			hold := lockShort(t, mutex(t, holder, name))
			next := lockAside(context.Background(), mutex(t, contender, name))
			w.queuedOrLost(t, contender, name, hold)
			wg.Go(func() {
				s.stall(link)
				<-hold.Context().Done()
				lost := time.Now()
				<-next.done
				if next.err != nil {
					t.Errorf("%s: run %d: %v", s.name, i, next.err)
					return
				}
				margins[i] = next.at.Sub(lost)
				if margins[i] <= 0 {
					t.Errorf("%s: run %d: the next holder was granted the lock %v before the holder lost it", s.name, i, -margins[i])
				}
				if next.hold.Token() <= hold.Token() {
					t.Errorf("%s: run %d: token %d after %d", s.name, i, next.hold.Token(), hold.Token())
				}
				link.Resume()
				_ = next.hold.Unlock(context.Background()) // reported by the client's Close
			})
		}
		wg.Wait()
		slices.Sort(margins)
		t.Logf("stalled %s, %d runs, TTL %v: the holder knew %v to %v before the next grant, median %v",
			s.name, runs, shortTTL, margins[0].Round(time.Millisecond), margins[runs-1].Round(time.Millisecond), margins[runs/2].Round(time.Millisecond))
	}
}

// lockShort locks with a session so short that it can be lost on a busy machine
// before it is of use.
func lockShort(t testing.TB, m *recipes.Mutex) *recipes.Hold {
	t.Helper()
	for {
		hold, err := m.Lock(context.Background())
		if !errors.Is(err, recipes.ErrLost) {
			require.NoError(t, err)
			return hold
		}
	}
}

// queuedOrLost waits for a second entry behind the hold's, or for its end.
func (w *world) queuedOrLost(t testing.TB, c *recipes.Client, name string, hold *recipes.Hold) {
	t.Helper()
	eventually(t, "a second entry", func() bool {
		return hold.Context().Err() != nil || len(w.queue(t, c, name)) == 2
	})
}
