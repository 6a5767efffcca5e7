package recipetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func (w *world) guarder(t testing.TB) Guarder {
	t.Helper()
	g, ok := w.server.(Guarder)
	if !ok {
		t.Skip("the engine has nothing that a hold could guard")
	}
	return g
}

// testGuard ends holds in every way. A guarded write is refused from then on,
// before anyone else has the lock too, and not because of what a holder may do.
func testGuard(t *testing.T, w *world) {
	ctx := context.Background()
	g := w.guarder(t)
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m, err := a.RWMutex("guard", nil)
	require.NoError(t, err)
	hold := wlock(t, m)
	require.True(t, g.GuardedWrite(t, "held", hold))
	require.NoError(t, hold.Publish(ctx, "shown"))
	require.True(t, g.GuardedWrite(t, "published", hold))
	require.NoError(t, m.Downgrade(ctx, hold))
	require.True(t, g.GuardedWrite(t, "downgraded", hold))

	unlock(t, hold)
	require.False(t, g.GuardedWrite(t, "released", hold))
	again := lock(t, mutex(t, a, "guard"))
	require.True(t, g.GuardedWrite(t, "held again", again))
	require.False(t, g.GuardedWrite(t, "the first hold, in the same session", hold))

	waiter := lockAside(ctx, mutex(t, b, "guard"))
	w.queued(t, a, "guard", 2)
	require.True(t, g.GuardedWrite(t, "with one who waits", again))
	w.server.Expire(t, again.SessionID())
	eventually(t, "the entry to be gone", func() bool { return !g.GuardedWrite(t, "expired", again) })
	require.NoError(t, waiter.wait(t).err)
	require.True(t, g.GuardedWrite(t, "of the next holder", waiter.hold))
	require.False(t, g.GuardedWrite(t, "of the one before", again))

	require.NoError(t, a.Break(ctx, "guard", w.entry(t, a, "guard", 0), "test"))
	require.False(t, g.GuardedWrite(t, "broken", waiter.hold))
}

// testGuardSeveral guards a write with all locks of a Multi.
func testGuardSeveral(t *testing.T, w *world) {
	g := w.guarder(t)
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m := multi(t, lockers{"1": mutex(t, a, "one"), "2": mutex(t, b, "two")})
	all, err := m.Lock(context.Background())
	require.NoError(t, err)
	holds := all.Holds()
	require.Len(t, holds, 2)
	require.Equal(t, all.Tokens(), map[string]uint64{"1": holds["1"].Token(), "2": holds["2"].Token()})
	guarded := func(value string) bool { return g.GuardedWrite(t, value, holds["1"], holds["2"]) }
	require.True(t, guarded("both held"))
	unlock(t, holds["2"])
	await(t, all.Context().Done(), "the context of all to end")
	require.False(t, guarded("one released"))
	require.NoError(t, all.Unlock(context.Background()), "each was released once")
	require.False(t, guarded("both released"))
}

// testGuardRetained has goroutines of one Mutex hold it one after the other, which
// can be with one entry. A hold that has a guard keeps its entry to itself, and one
// whose entry is another's has no guard.
func testGuardRetained(t *testing.T, w *world) {
	g := w.guarder(t)
	m, err := w.client(t, Options{}).Mutex("guard", &recipes.MutexOptions{Retain: time.Minute})
	require.NoError(t, err)
	first := lock(t, m)
	unlock(t, first) // and retain
	_, err = first.Pin()
	require.ErrorIs(t, err, recipes.ErrLost)

	second := lock(t, m)
	require.Greater(t, second.Token(), first.Token())
	require.True(t, g.GuardedWrite(t, "of the second", second))
	waiter := lockAside(context.Background(), m)
	unlock(t, second)
	require.False(t, g.GuardedWrite(t, "released, not retained", second))
	require.NoError(t, waiter.wait(t).err)
	third := waiter.hold
	require.Greater(t, third.Token(), second.Token())
	require.False(t, g.GuardedWrite(t, "of the second, while the third holds", second))
	require.True(t, g.GuardedWrite(t, "of the third", third))
	unlock(t, third)
	require.False(t, g.GuardedWrite(t, "of the third, released", third))
}

// testGuardTurns has two processes take turns, for which engines have short cuts.
func testGuardTurns(t *testing.T, w *world) {
	g := w.guarder(t)
	clients := []*recipes.Client{w.client(t, Options{}), w.client(t, Options{})}
	hold := lock(t, mutex(t, clients[0], "turns"))
	for i := range 8 {
		next := lockAside(context.Background(), mutex(t, clients[(i+1)%2], "turns"))
		w.queued(t, clients[0], "turns", 2)
		require.True(t, g.GuardedWrite(t, "before", hold))
		unlock(t, hold)
		require.NoError(t, next.wait(t).err)
		require.False(t, g.GuardedWrite(t, "of the one before", hold))
		hold = next.hold
	}
	unlock(t, hold)
}

// testCostOfGuard counts what a guard adds to a write: nothing.
func testCostOfGuard(t *testing.T, w *world) {
	g := w.guarder(t)
	hold := lock(t, mutex(t, w.client(t, Options{TTL: costTTL}), "guard"))
	require.True(t, g.GuardedWrite(t, "first", hold)) // makes what stays
	w.settle(t)
	cost := func(written bool) Cost {
		before := w.server.Cost(t)
		require.Equal(t, written, g.GuardedWrite(t, "counted", hold))
		cost := w.server.Cost(t).Sub(before)
		t.Logf("a guarded write, written=%v: %+v", written, cost)
		require.Zero(t, cost.Reads+cost.Watches+cost.Events)
		return cost
	}
	require.Equal(t, 1, cost(true).Commits)
	unlock(t, hold)
	w.settle(t)
	require.LessOrEqual(t, cost(false).Commits, 1)
}
