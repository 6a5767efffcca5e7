package leasetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
)

// testRenewalKeeps holds a lock for longer than its TTL.
func testRenewalKeeps(t *testing.T, w *world) {
	h := lock(t, w.mutex(t, w.client(t, Options{TTL: shortTTL}), "kept"))
	waiter := lockAside(suite.Within(t), w.mutex(t, w.client(t, Options{TTL: shortTTL, Poll: 50 * time.Millisecond}), "kept"))
	select {
	case <-h.Context().Done():
		t.Fatal(context.Cause(h.Context()))
	case <-waiter.done:
		t.Fatal("two holders")
	case <-time.After(2 * shortTTL):
	}
	unlock(t, h)
	require.NoError(t, waiter.wait(t).err)
	unlock(t, waiter.hold)
}

// testBroken breaks a hold, and has another take the lock: the renewal is refused.
func testBroken(t *testing.T, w *world) {
	c, other := w.client(t, Options{TTL: shortTTL}), w.client(t, Options{})
	h := lock(t, w.mutex(t, c, "broken"))
	entry := w.object(t, other, "broken").Entries[0]
	require.NoError(t, other.Break(suite.Within(t), w.prefix+"broken", entry))
	next := lock(t, w.mutex(t, other, "broken"))
	suite.Await(t, h.Context().Done(), "the former holder to hear of it")
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(h.Context()), &lost)
	require.Equal(t, recipes.LostUnknown, lost.Reason)
	require.ErrorIs(t, h.Unlock(suite.Within(t)), recipes.ErrLost)
	require.NoError(t, next.Context().Err())
	require.Equal(t, next.SessionID(), w.object(t, other, "broken").Entries[0].ID)
	unlock(t, next)
}

// testBreakTouchesNoOther breaks a lock as it was seen a holder ago.
func testBreakTouchesNoOther(t *testing.T, w *world) {
	c := w.client(t, Options{})
	m := w.mutex(t, c, "stale")
	h := lock(t, m)
	entry := w.object(t, c, "stale").Entries[0]
	unlock(t, h)
	require.ErrorIs(t, c.Break(suite.Within(t), w.prefix+"stale", entry), recipes.ErrConflict)
	h = lock(t, m)
	require.ErrorIs(t, c.Break(suite.Within(t), w.prefix+"stale", entry), recipes.ErrConflict)
	require.Len(t, w.object(t, c, "stale").Entries, 1)
	unlock(t, h)
}

// testLossComesFirst cuts a holder off: it knows that it lost the lock before another
// gets it.
func testLossComesFirst(t *testing.T, w *world) {
	for name, stall := range map[string]func(Link){
		"requests": Link.StallRequests, "replies": Link.StallReplies, "both": Link.StallBoth,
	} {
		t.Run(name, func(t *testing.T) {
			link := w.link(t)
			h := lock(t, w.mutex(t, w.client(t, Options{TTL: shortTTL, Link: link}), name))
			other := w.client(t, Options{TTL: shortTTL, Poll: 20 * time.Millisecond})
			lost := make(chan time.Time, 1)
			context.AfterFunc(h.Context(), func() { lost <- time.Now() })
			waiter := lockAside(suite.Within(t), w.mutex(t, other, name))
			stall(link)
			require.NoError(t, waiter.wait(t).err)
			select {
			case at := <-lost:
				require.True(t, at.Before(waiter.at), "lost at %v, granted at %v", at, waiter.at)
			default:
				t.Fatal("the former holder does not know")
			}
			require.ErrorIs(t, context.Cause(h.Context()), recipes.ErrLost)
			unlock(t, waiter.hold)
			link.Resume()
		})
	}
}

// testShortStall stalls a holder for less than its TTL.
func testShortStall(t *testing.T, w *world) {
	link := w.link(t)
	h := lock(t, w.mutex(t, w.client(t, Options{TTL: calmTTL, Link: link}), "stalled"))
	before := h.Deadline()
	link.StallBoth()
	select {
	case <-h.Context().Done():
		t.Fatal(context.Cause(h.Context()))
	case <-time.After(300 * time.Millisecond): // of a stall
	}
	link.Resume()
	suite.Eventually(t, "a renewal", func() bool { return h.Deadline().After(before) })
	unlock(t, h)
}

// testLostReplyToLock loses the reply to the request that takes the lock.
func testLostReplyToLock(t *testing.T, w *world) {
	link := w.link(t)
	c := w.client(t, Options{Link: link})
	m := w.mutex(t, c, "lost")
	unlock(t, lock(t, m)) // connects
	link.LoseReply()
	h := lock(t, m)
	require.Len(t, w.object(t, w.client(t, Options{}), "lost").Entries, 1)
	unlock(t, h)
	w.free(t, w.client(t, Options{}), "lost")
}

// testLostReplyThenCancel gives up while the reply to the request that takes the lock
// does not come: the lock does not stay taken.
func testLostReplyThenCancel(t *testing.T, w *world) {
	link := w.link(t)
	m := w.mutex(t, w.client(t, Options{Link: link}), "ghost")
	unlock(t, lock(t, m))
	link.StallReplies()
	ctx, cancel := context.WithCancel(context.Background())
	waiter := lockAside(ctx, m)
	other := w.client(t, Options{})
	suite.Eventually(t, "the request to be carried out", func() bool { return !w.object(t, other, "ghost").Gone() })
	cancel()
	require.ErrorIs(t, waiter.wait(t).err, context.Canceled)
	link.Resume()
	w.free(t, other, "ghost")
}

// testLostReplyThenClose closes the client while the reply to the request that takes the lock
// does not come, after the wait for it was given up, and while it goes on: the lock does
// not stay taken.
func testLostReplyThenClose(t *testing.T, w *world) {
	for name, givesUp := range map[string]bool{"given up": true, "waiting": false} {
		link := w.link(t)
		c := w.client(t, Options{TTL: time.Hour, Link: link})
		m := w.mutex(t, c, name)
		unlock(t, lock(t, m))
		link.StallReplies()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		waiter := lockAside(ctx, m)
		other := w.client(t, Options{})
		suite.Eventually(t, "the request to be carried out", func() bool { return !w.object(t, other, name).Gone() })
		next := lockAside(context.Background(), m)
		if givesUp {
			cancel()
			require.ErrorIs(t, waiter.wait(t).err, context.Canceled)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = c.Close() // what the store did not confirm
		}()
		require.ErrorIs(t, next.wait(t).err, recipes.ErrClosed)
		link.Resume()
		suite.Await(t, closed, "Close to return")
		w.free(t, other, name)
	}
}

// testInLineWhileAway has several goroutines want a lock while the store does not answer:
// none of them is told that another holds it. If another does, all are told.
func testInLineWhileAway(t *testing.T, w *world) {
	link := w.link(t)
	m := w.mutex(t, w.client(t, Options{Link: link}), "line")
	unlock(t, lock(t, m))
	link.StallBoth()
	all := func(m Mutex, patience time.Duration) (errs []error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		first, second := lockAside(ctx, m), lockAside(ctx, m)
		return []error{first.wait(t).err, second.wait(t).err}
	}
	for _, err := range all(m, 300*time.Millisecond) {
		require.ErrorIs(t, err, recipes.ErrUnavailable)
		require.NotErrorIs(t, err, recipes.ErrHeld)
	}
	link.Resume()
	h := lock(t, w.mutex(t, w.client(t, Options{Label: "the other"}), "line"))
	waiting := w.mutex(t, w.client(t, Options{}), "line")
	suite.Eventually(t, "both to be told who holds it, once what was under way is over", func() bool {
		return !slices.ContainsFunc(all(waiting, 300*time.Millisecond), func(err error) bool {
			var held *recipes.HeldError
			return !errors.As(err, &held) || held.Holder.Label != "the other"
		})
	})
	unlock(t, h)
}

// testLostReplyToUnlock loses the reply to the request that releases the lock.
func testLostReplyToUnlock(t *testing.T, w *world) {
	link := w.link(t)
	c := w.client(t, Options{Link: link})
	h := lock(t, w.mutex(t, c, "release"))
	link.LoseReply()
	unlock(t, h)
	require.True(t, w.object(t, w.client(t, Options{}), "release").Gone())
}

// testLostReplyToRenewal loses the reply to a renewal: the next one settles it.
func testLostReplyToRenewal(t *testing.T, w *world) {
	link := w.link(t)
	c := w.client(t, Options{TTL: shortTTL, Link: link})
	h := lock(t, w.mutex(t, c, "renewal"))
	for range 2 {
		before := h.Deadline()
		link.LoseReply()
		suite.Eventually(t, "a renewal", func() bool { return h.Deadline().After(before) || h.Context().Err() != nil })
		require.NoError(t, context.Cause(h.Context()))
	}
	unlock(t, h)
}

// testUnlockAfterLoss unlocks a hold that has expired, when another has the lock.
func testUnlockAfterLoss(t *testing.T, w *world) {
	link := w.link(t)
	h := lock(t, w.mutex(t, w.client(t, Options{TTL: shortTTL, Link: link}), "late"))
	link.StallRequests()
	other := w.client(t, Options{Poll: 20 * time.Millisecond})
	next := lock(t, w.mutex(t, other, "late"))
	require.ErrorIs(t, context.Cause(h.Context()), recipes.ErrLost)
	link.Resume() // what has waited of the former holder arrives now
	err := h.Unlock(suite.Within(t))
	require.ErrorIs(t, err, recipes.ErrLost)
	var lost *recipes.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, recipes.LostExpired, lost.Reason)
	require.NoError(t, next.Context().Err())
	require.Equal(t, next.SessionID(), w.object(t, other, "late").Entries[0].ID)
	unlock(t, next)
}

// testRestart restarts the store while one holds and one waits. What they have is in
// the store or expires.
func testRestart(t *testing.T, w *world) {
	c := w.client(t, Options{TTL: shortTTL})
	h := lock(t, w.mutex(t, c, "restart"))
	waiter := lockAside(suite.Within(t), w.mutex(t, w.client(t, Options{TTL: shortTTL}), "restart"))
	if !w.server.Restart(t) {
		t.Log("the store has no server")
	}
	if err := h.Unlock(suite.Within(t)); err != nil { // it took longer than the TTL
		require.ErrorIs(t, err, recipes.ErrLost)
	}
	require.NoError(t, waiter.wait(t).err)
	unlock(t, waiter.hold)
}
