package recipetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// passes is how often a hold may be passed on inside a process: see recipes.Mutex.
const passes = 4095

// testRelay has many goroutines use one Mutex: they hold it one at a time, in order,
// with tokens that grow.
func testRelay(t *testing.T, w *world) {
	const goroutines, each = 64, 20
	m := mutex(t, w.client(t, Options{}), "relay")
	var inside atomic.Int32
	var last uint64 // guarded by the lock
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				err := m.Do(within(t), func(_ context.Context, h *recipes.Hold) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					if h.Token() <= last {
						t.Errorf("token %d after %d", h.Token(), last)
					}
					last = h.Token()
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, w.queue(t, w.client(t, Options{}), "relay"))
	outside := lock(t, mutex(t, w.client(t, Options{}), "relay"))
	require.Greater(t, outside.Token(), last)
	unlock(t, outside)
}

// testRelayOrder has a goroutine line up behind another of the same Mutex, and give
// up, or wait.
func testRelayOrder(t *testing.T, w *world) {
	c := w.client(t, Options{Label: "inside"})
	m := mutex(t, c, "line")
	hold := lock(t, m)
	ctx, cancel := context.WithCancel(context.Background())
	gaveUp := lockAside(ctx, m)
	short, end := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer end()
	_, err := m.Lock(short)
	require.ErrorIs(t, err, recipes.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var held *recipes.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "inside", held.Holder.Label)
	waiter := lockAside(context.Background(), m)
	cancel()
	require.ErrorIs(t, gaveUp.wait(t).err, context.Canceled)
	require.Len(t, w.queue(t, c, "line"), 1, "who lines up inside is not in the queue")
	unlock(t, hold)
	require.NoError(t, waiter.wait(t).err)
	next := waiter.hold
	require.Greater(t, next.Token(), hold.Token())
	require.NoError(t, next.Context().Err())
	require.ErrorIs(t, hold.Context().Err(), context.Canceled)
	unlock(t, next)
	unlock(t, hold) // again
	require.Empty(t, w.queue(t, c, "line"))
}

// testRelayHeir has a goroutine give up its wait in the queue while another of the
// same Mutex lines up behind it: that one gets the place.
func testRelayHeir(t *testing.T, w *world) {
	a, b, c := w.client(t, Options{}), w.client(t, Options{}), w.client(t, Options{})
	first := lock(t, mutex(t, a, "heir"))
	m := mutex(t, b, "heir")
	ctx, cancel := context.WithCancel(context.Background())
	gaveUp := lockAside(ctx, m)
	w.queued(t, a, "heir", 2)
	place := w.queue(t, a, "heir")[1].ID
	order := make(chan string, 2)
	var wg sync.WaitGroup
	wait := func(who string, m *recipes.Mutex) {
		wg.Go(func() {
			h, err := m.Lock(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			order <- who
			if err := h.Unlock(within(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wait("heir", m)
	wait("other", mutex(t, c, "heir"))
	w.queued(t, a, "heir", 3)
	cancel()
	require.ErrorIs(t, gaveUp.wait(t).err, context.Canceled)
	// The place is the heir's, if it lined up in time, or nobody's.
	queue := w.queue(t, a, "heir")
	unlock(t, first)
	wg.Wait()
	if len(queue) > 1 && queue[1].ID == place {
		require.Equal(t, "heir", <-order)
	}
}

// waitedOn is a context that tells when someone waits for its end.
type waitedOn struct {
	context.Context
	once  sync.Once
	begun chan struct{}
}

// Done implements context.Context.
func (c *waitedOn) Done() <-chan struct{} {
	c.once.Do(func() { close(c.begun) })
	return c.Context.Done()
}

// testRelayBrokenHeir breaks a place in the queue that one goroutine left to the next:
// that one is told, and a third of the same Mutex takes a place of its own.
func testRelayBrokenHeir(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	first := lock(t, mutex(t, a, "broken"))
	m := mutex(t, b, "broken")
	ctx, cancel := context.WithCancel(context.Background())
	gaveUp := lockAside(ctx, m)
	w.queued(t, a, "broken", 2)
	place := w.queue(t, a, "broken")[1]
	var heirs []*attempt
	for range 2 {
		waits := &waitedOn{Context: context.Background(), begun: make(chan struct{})}
		heirs = append(heirs, lockAside(waits, m))
		await(t, waits.begun, "a goroutine to line up")
	}
	cancel()
	require.ErrorIs(t, gaveUp.wait(t).err, context.Canceled)
	require.NoError(t, a.Break(within(t), "broken", place, "test"))
	eventually(t, "one to be told", func() bool { return !heirs[0].waiting() || !heirs[1].waiting() })
	if !heirs[1].waiting() {
		slices.Reverse(heirs)
	}
	require.ErrorIs(t, heirs[0].err, recipes.ErrLost)
	w.queued(t, a, "broken", 2)
	unlock(t, first)
	require.NoError(t, heirs[1].wait(t).err)
	unlock(t, heirs[1].hold)
}

// testRelayLoss loses the session of a process in which others line up: they get
// the lock by a place of their own.
func testRelayLoss(t *testing.T, w *world) {
	c := w.client(t, Options{TTL: shortTTL})
	m := mutex(t, c, "loss")
	hold := lock(t, m)
	waiter := lockAside(context.Background(), m)
	w.server.Expire(t, hold.SessionID())
	require.NoError(t, waiter.wait(t).err)
	next := waiter.hold
	require.ErrorIs(t, context.Cause(hold.Context()), recipes.ErrLost)
	require.Greater(t, next.Token(), hold.Token())
	require.NotEqual(t, hold.SessionID(), next.SessionID())
	require.ErrorIs(t, hold.Unlock(within(t)), recipes.ErrLost)
	require.NoError(t, next.Context().Err(), "the late Unlock changes nothing")
	unlock(t, next)
}

// testRelayOutsider has a goroutine of another process want a lock that eight of one
// process pass on among themselves: it gets it after a bounded number of passes.
func testRelayOutsider(t *testing.T, w *world) {
	inside, outside := w.client(t, Options{}), w.client(t, Options{})
	m := mutex(t, inside, "turns")
	ctx, cancel := context.WithCancel(context.Background())
	var grants atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				h, err := m.Lock(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				grants.Add(1)
				if err := h.Unlock(within(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	eventually(t, "some turns", func() bool { return grants.Load() > 100 })
	other := mutex(t, outside, "turns")
	for range 5 {
		waiter := lockAside(context.Background(), other)
		eventually(t, "the outsider in the queue", func() bool { // or it has been there already
			for _, e := range w.queue(t, outside, "turns") {
				if e.Session == outside.SessionID() {
					return true
				}
			}
			return !waiter.waiting()
		})
		before := grants.Load()
		require.NoError(t, waiter.wait(t).err)
		require.LessOrEqual(t, grants.Load()-before, int64(passes+1))
		unlock(t, waiter.hold)
	}
	cancel()
	wg.Wait()
}

// within is a context for what must happen.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// retained is a Mutex of the client that retains the lock.
func retained(t *testing.T, c *recipes.Client, name string, d time.Duration) *recipes.Mutex {
	t.Helper()
	m, err := c.Mutex(name, &recipes.MutexOptions{Retain: d})
	require.NoError(t, err)
	return m
}

// testCostOfRetain locks a lock again that is retained: that costs nothing, until
// another wants it.
func testCostOfRetain(t *testing.T, w *world) {
	const cycles = 200
	a, b := w.client(t, Options{TTL: costTTL}), w.client(t, Options{TTL: costTTL})
	m := retained(t, a, "kept", time.Hour)
	unlock(t, lock(t, m))
	w.settle(t)
	before := w.server.Cost(t)
	var last uint64
	for range cycles {
		h := lock(t, m)
		require.Greater(t, h.Token(), last)
		last = h.Token()
		unlock(t, h)
	}
	cost := w.server.Cost(t).Sub(before)
	t.Logf("%d cycles: %+v", cycles, cost)
	require.Zero(t, cost.Commits+cost.Reads+cost.Events, "commits, reads and events")
	require.Len(t, w.queue(t, b, "kept"), 1, "it looks held")

	other := lock(t, mutex(t, b, "kept"))
	require.Greater(t, other.Token(), last)
	require.Len(t, w.queue(t, b, "kept"), 1, "the place is given up")
	unlock(t, other)
	again := lock(t, m)
	require.Greater(t, again.Token(), other.Token())
	unlock(t, again)
}

// testRetainTokens locks a retained lock more often than a token can grow without
// a write.
func testRetainTokens(t *testing.T, w *world) {
	m := retained(t, w.client(t, Options{}), "tokens", time.Hour)
	var last uint64
	for range 2*passes + 100 {
		h := lock(t, m)
		require.Greater(t, h.Token(), last)
		last = h.Token()
		unlock(t, h)
	}
	h := lock(t, mutex(t, w.client(t, Options{}), "tokens"))
	require.Greater(t, h.Token(), last)
	unlock(t, h)
}

// testRetainEnds gives up a retained lock that nobody holds for each of the reasons
// there are.
func testRetainEnds(t *testing.T, w *world) {
	c, operator := w.client(t, Options{TTL: shortTTL}), w.client(t, Options{})
	gone := func(name string) {
		t.Helper()
		w.queued(t, operator, name, 0)
	}
	unlock(t, lock(t, retained(t, c, "time", 50*time.Millisecond)))
	gone("time")

	m := retained(t, c, "asked", time.Hour)
	unlock(t, lock(t, m))
	require.NoError(t, operator.Ask(within(t), "asked", "test"))
	gone("asked")
	h := lock(t, m)
	asked := make(chan error, 1)
	go func() { asked <- operator.Ask(within(t), "asked", "test") }()
	<-h.Asked()
	unlock(t, h)
	require.NoError(t, <-asked)
	gone("asked")

	m = retained(t, c, "broken", time.Hour)
	unlock(t, lock(t, m))
	require.NoError(t, operator.Break(within(t), "broken", w.queue(t, operator, "broken")[0], "test"))
	gone("broken")
	unlock(t, lock(t, m))

	m = retained(t, c, "removed", time.Hour)
	h = lock(t, m)
	unlock(t, h)
	w.server.Remove(t, w.root, "removed")
	other := mutex(t, operator, "removed")
	unlock(t, lock(t, other))
	eventually(t, "the removal to be known", func() bool {
		next := lock(t, m)
		if err := next.Unlock(within(t)); err != nil {
			require.ErrorIs(t, err, recipes.ErrLost)
		}
		return next.Token() > h.Token()+passes
	})

	m = retained(t, c, "broken", time.Hour)
	h = lock(t, m)
	unlock(t, h)
	w.server.Expire(t, h.SessionID())
	eventually(t, "the loss to be known", func() bool { return c.SessionID() != h.SessionID() })
	again := lock(t, m)
	require.Greater(t, again.Token(), h.Token())
	unlock(t, again)
	require.NoError(t, c.Close())
	gone("broken")
	_, err := m.Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrClosed)

	_, err = operator.Mutex("x", &recipes.MutexOptions{Retain: -1})
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

// testCostOfTurns has two clients take turns.
func testCostOfTurns(t *testing.T, w *world) {
	const turns = 100
	clients := []*recipes.Client{w.client(t, Options{TTL: costTTL}), w.client(t, Options{TTL: costTTL})}
	var grants atomic.Int64
	take := func(n int64) {
		var wg sync.WaitGroup
		for _, c := range clients {
			m := mutex(t, c, "turns")
			wg.Go(func() {
				for grants.Load() < n {
					h, err := m.Lock(within(t))
					if err != nil {
						t.Error(err)
						return
					}
					grants.Add(1)
					if err := h.Unlock(within(t)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	for _, c := range clients { // so that each has a session, however fast the other is
		require.NoError(t, lock(t, mutex(t, c, "turns")).Unlock(within(t)))
	}
	take(20)
	w.settle(t)
	before := w.server.Cost(t)
	grants.Store(0)
	take(turns)
	cost := w.server.Cost(t).Sub(before)
	n := int(grants.Load())
	t.Logf("%d turns of two clients: %+v", n, cost)
	require.Equal(t, 2*n, cost.Commits, "commits")
	require.LessOrEqual(t, cost.Reads, w.limits.TurnReads*n, "reads")
	require.LessOrEqual(t, cost.Events, 3*n, "events")
}
