package recipetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func semaphore(t testing.TB, c *recipes.Client, name string, limit int) *recipes.Semaphore {
	t.Helper()
	s, err := c.Semaphore(name, limit, nil)
	require.NoError(t, err)
	return s
}

func acquire(t testing.TB, s *recipes.Semaphore, permits int) *recipes.Hold {
	t.Helper()
	a := aside(context.Background(), s.Locker(permits)).wait(t)
	require.NoError(t, a.err)
	return a.hold
}

// granted waits for an attempt to succeed.
func (a *attempt) granted(t testing.TB) *recipes.Hold {
	t.Helper()
	a.wait(t)
	require.NoError(t, a.err)
	return a.hold
}

// testSemaphoreLimitHolds counts the permits held, over several clients and
// weights: never more than the limit.
func testSemaphoreLimitHolds(t *testing.T, w *world) {
	const limit, clients, each = 3, 3, 4
	var held, most atomic.Int32
	var wg sync.WaitGroup
	for range clients {
		s := semaphore(t, w.client(t, Options{}), "limit", limit)
		for permits := 1; permits <= limit; permits++ {
			wg.Go(func() {
				for range each {
					hold, err := s.Acquire(context.Background(), permits)
					if err != nil {
						t.Error(err)
						return
					}
					n := held.Add(int32(permits))
					if n > limit {
						t.Errorf("%d permits are held", n)
					}
					if n > most.Load() {
						most.Store(n)
					}
					held.Add(-int32(permits))
					if err := hold.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	require.NotZero(t, most.Load())
	w.queued(t, w.client(t, Options{}), "limit", 0)
}

// testSemaphoreOrder has a big request wait, and smaller ones behind it that would
// fit: they wait too, and are admitted in order.
func testSemaphoreOrder(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	sa, sb := semaphore(t, a, "order", 3), semaphore(t, b, "order", 3)
	two := acquire(t, sa, 2)
	big := aside(ctx, sb.Locker(3))
	w.queued(t, a, "order", 2)
	small1 := aside(ctx, sa)
	w.queued(t, a, "order", 3)
	small2 := aside(ctx, sb.Locker(2))
	w.queued(t, a, "order", 4)
	_, err := sa.TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld, "one permit is free, and not for the latest")
	var by *recipes.HeldError
	require.ErrorAs(t, err, &by)
	require.Equal(t, "b", by.Holder.Label)

	view, err := a.Lock(ctx, "order")
	require.NoError(t, err)
	require.Len(t, view.Holders(), 1)
	require.Len(t, view.Waiters(), 3)
	require.Equal(t, recipes.KindSemaphore, view.Entries[1].Kind)
	require.Equal(t, 3, view.Entries[1].Permits)

	unlock(t, two)
	hold := big.granted(t)
	require.Greater(t, hold.Token(), two.Token())
	require.True(t, small1.waiting() && small2.waiting())
	unlock(t, hold)
	h1, h2 := small1.granted(t), small2.granted(t) // together
	require.Greater(t, h2.Token(), h1.Token())
	view, err = a.Lock(ctx, "order")
	require.NoError(t, err)
	require.Len(t, view.Holders(), 2)
	require.Empty(t, view.Waiters())
	v := w.view(t, w.client(t, Options{}), "order")
	v.shows(t, "order", "a:b")
	unlock(t, h1)
	unlock(t, h2)
	v.shows(t, "order", "")
	one, err := sb.TryAcquire(ctx, 3)
	require.NoError(t, err)
	unlock(t, one)
}

// testSemaphoreCancelFirst has the first waiter give up: the next takes its place.
func testSemaphoreCancelFirst(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	sa, sb := semaphore(t, a, "cancel", 2), semaphore(t, b, "cancel", 2)
	hold := acquire(t, sa, 1)
	ctx, cancel := context.WithCancel(context.Background())
	big := aside(ctx, sb.Locker(2))
	w.queued(t, a, "cancel", 2)
	w.entered(t, b)
	next := aside(context.Background(), sa)
	w.queued(t, a, "cancel", 3)
	last := aside(context.Background(), sb)
	w.queued(t, a, "cancel", 4)
	cancel()
	require.ErrorIs(t, big.wait(t).err, context.Canceled)
	require.ErrorIs(t, big.err, recipes.ErrHeld)
	h := next.granted(t)
	require.True(t, last.waiting())
	unlock(t, hold)
	unlock(t, last.granted(t))
	unlock(t, h)
	w.queued(t, a, "cancel", 0)
}

// testSemaphoreExpire ends the sessions of a waiter and of a holder.
func testSemaphoreExpire(t *testing.T, w *world) {
	ctx := context.Background()
	a, b, c := w.client(t, Options{}), w.client(t, Options{}), w.client(t, Options{})
	sa, sb, sc := semaphore(t, a, "expire", 2), semaphore(t, b, "expire", 2), semaphore(t, c, "expire", 2)
	dies, stays := acquire(t, sa, 1), acquire(t, sc, 1)
	first := aside(ctx, sb.Locker(2))
	w.queued(t, c, "expire", 3)
	w.entered(t, b)
	next := aside(ctx, sc)
	w.queued(t, c, "expire", 4)
	w.server.Expire(t, b.SessionID())
	require.ErrorIs(t, first.wait(t).err, recipes.ErrLost)
	w.queued(t, c, "expire", 3)
	require.True(t, next.waiting())
	w.server.Expire(t, a.SessionID())
	await(t, dies.Context().Done(), "the holder to learn of its loss")
	h := next.granted(t)
	require.ErrorIs(t, dies.Unlock(ctx), recipes.ErrLost)
	unlock(t, h)
	unlock(t, stays)
	unlock(t, acquire(t, sb, 2))
}

func testSemaphoreSetLimit(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	_, err := semaphore(t, a, "set", 0).Lock(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict, "there is none yet")
	sa := semaphore(t, a, "set", 2)
	two := acquire(t, sa, 2)
	_, err = semaphore(t, b, "set", 3).Lock(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict)
	_, err = semaphore(t, b, "set", 3).Limit(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict)
	sb := semaphore(t, b, "set", 0)
	limit, err := sb.Limit(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, limit)

	var waiters []*attempt
	for i := range 4 {
		waiters = append(waiters, aside(ctx, sb))
		w.queued(t, a, "set", i+2)
	}
	require.NoError(t, sa.SetLimit(ctx, 4))
	h0, h1 := waiters[0].granted(t), waiters[1].granted(t)
	eventually(t, "three holders to be shown", func() bool {
		view, err := a.Lock(ctx, "set")
		require.NoError(t, err)
		return len(view.Holders()) == 3 && len(view.Waiters()) == 2
	})

	require.NoError(t, sb.SetLimit(ctx, 1))
	limit, err = sa.Limit(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, limit)
	unlock(t, two)
	unlock(t, h0)
	require.True(t, waiters[2].waiting(), "one permit is held, and there is one")
	require.NoError(t, h1.Context().Err(), "holders keep what they have")
	unlock(t, h1)
	h2 := waiters[2].granted(t)
	require.True(t, waiters[3].waiting())
	require.NoError(t, sa.SetLimit(ctx, 3))
	h3 := waiters[3].granted(t)
	big := aside(ctx, sa.Locker(3))
	w.queued(t, a, "set", 3)
	require.NoError(t, sb.SetLimit(ctx, 2))
	require.ErrorIs(t, big.wait(t).err, recipes.ErrInvalid, "it could wait for ever")
	w.queued(t, a, "set", 2)
	unlock(t, h2)
	unlock(t, h3)
}

// testSemaphoreAndMutex has them exclude each other by one name.
func testSemaphoreAndMutex(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	s, m := semaphore(t, a, "both", 2), mutex(t, b, "both")
	one := acquire(t, s, 1)
	other := acquire(t, s, 1)
	alone := lockAside(ctx, m)
	w.queued(t, a, "both", 3)
	late := aside(ctx, s)
	w.queued(t, a, "both", 4)
	unlock(t, one)
	require.True(t, alone.waiting() && late.waiting())
	unlock(t, other)
	hold := alone.granted(t)
	require.True(t, late.waiting())
	_, err := s.TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	unlock(t, hold)
	unlock(t, late.granted(t))
}

func testSemaphoreLostReply(t *testing.T, w *world) {
	link := w.server.Link(t)
	c, observer := w.client(t, Options{Link: link}), w.client(t, Options{})
	s := semaphore(t, c, "lost-reply", 2)
	for range 2 {
		link.LoseReply()
		hold := acquire(t, s, 2)
		require.Len(t, w.queue(t, observer, "lost-reply"), 1)
		next := aside(context.Background(), s)
		w.queued(t, observer, "lost-reply", 2)
		link.LoseReply()
		unlock(t, hold)
		unlock(t, next.granted(t))
	}
	require.Empty(t, w.queue(t, observer, "lost-reply"))
}

func testSemaphoreInvalid(t *testing.T, w *world) {
	ctx := context.Background()
	c := w.client(t, Options{})
	for _, limit := range []int{-1, 1 << 31} {
		_, err := c.Semaphore("invalid", limit, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	_, err := c.Semaphore("", 1, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = c.Semaphore("invalid", 1, &recipes.MutexOptions{Path: "/elsewhere"})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	s := semaphore(t, c, "invalid", 2)
	for _, permits := range []int{-1, 0, 3} {
		_, err = s.Acquire(ctx, permits)
		require.ErrorIs(t, err, recipes.ErrInvalid)
		_, err = s.TryAcquire(ctx, permits)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	require.ErrorIs(t, s.SetLimit(ctx, 0), recipes.ErrInvalid)
	require.Empty(t, w.queue(t, c, "invalid"))
	hold := acquire(t, s, 1)
	_, err = s.Lock(hold.Context())
	require.ErrorIs(t, err, recipes.ErrDeadlock)
	unlock(t, hold)
}

// testCostOfSemaphore counts what an acquire costs, and that a release wakes one
// waiter and one more for each that it admits.
func testCostOfSemaphore(t *testing.T, w *world) {
	const limit, waiting, cycles = 4, 20, 10
	a, b := w.client(t, Options{TTL: costTTL}), w.client(t, Options{TTL: costTTL})
	sa, sb := semaphore(t, a, "cost", limit), semaphore(t, b, "cost", limit)
	unlock(t, acquire(t, sa, 1))
	w.settle(t)
	before := w.server.Cost(t)
	for range cycles {
		unlock(t, acquire(t, sa, 2))
	}
	cost := w.server.Cost(t).Sub(before)
	t.Logf("%d uncontended cycles: %+v", cycles, cost)
	require.Equal(t, 2*cycles, cost.Commits, "commits")
	require.Zero(t, cost.Events, "events")

	first := aside(context.Background(), sa.Locker(limit)).wait(t)
	ctx, cancel := context.WithCancel(context.Background())
	waiters := []*attempt{first}
	for i := range waiting {
		waiters = append(waiters, aside(ctx, sb.Locker(1+i%2)))
		w.queued(t, a, "cost", i+2)
	}
	w.settle(t)
	next := waiters[1:]
	for i, admits := range []int{3, 0, 2} { // permits: 4, then 1, 2, 1, 2, 1, …
		before = w.server.Cost(t)
		unlock(t, waiters[i].granted(t))
		for range admits {
			next[0].granted(t)
			next = next[1:]
		}
		w.settle(t)
		cost = w.server.Cost(t).Sub(before)
		t.Logf("a release that admits %d of those who wait: %+v", admits, cost)
		require.Equal(t, 1+admits, cost.Commits, "commits")
		require.Equal(t, 1+admits, cost.Events, "wake-ups")
	}
	cancel()
	for _, a := range waiters {
		if a.wait(t); a.err == nil {
			unlock(t, a.hold)
		}
	}
	require.False(t, slices.ContainsFunc(waiters, (*attempt).waiting))
	w.queued(t, a, "cost", 0)
}
