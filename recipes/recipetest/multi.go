package recipetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

type lockers = map[string]recipes.Locker[*recipes.Hold]

func multi(t testing.TB, locks lockers) *recipes.Multi {
	t.Helper()
	m, err := recipes.NewMulti(locks)
	require.NoError(t, err)
	return m
}

// testMulti takes locks of several clients and kinds as one.
func testMulti(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m := multi(t, lockers{"one": mutex(t, a, "one"), "two": mutex(t, b, "two"), "pool": semaphore(t, a, "pool", 2).Locker(2)})
	type key struct{}
	hold, err := m.Lock(context.WithValue(ctx, key{}, "value"))
	require.NoError(t, err)
	require.Equal(t, "value", hold.Context().Value(key{}))
	tokens := hold.Tokens()
	require.Len(t, tokens, 3)
	require.Equal(t, w.queue(t, a, "one")[0].Token, tokens["one"])
	require.Equal(t, a.Owner(), hold.Owner())
	require.NotZero(t, hold.Deadline())
	for _, name := range []string{"one", "pool", "two"} {
		require.Equal(t, name, hold.Holds()[name].Name())
		require.Equal(t, tokens[name], hold.Holds()[name].Token())
	}
	for _, l := range []recipes.Locker[*recipes.Hold]{mutex(t, b, "one"), mutex(t, a, "two"), semaphore(t, b, "pool", 2)} {
		_, err := l.TryLock(ctx)
		require.ErrorIs(t, err, recipes.ErrHeld)
	}
	_, err = m.Lock(hold.Context())
	require.ErrorIs(t, err, recipes.ErrDeadlock, "in a context of its own hold")
	require.NoError(t, hold.Unlock(ctx))
	require.NoError(t, hold.Unlock(ctx), "again")
	require.NotErrorIs(t, context.Cause(hold.Context()), recipes.ErrLost)

	again, err := m.TryLock(ctx)
	require.NoError(t, err)
	for name, token := range again.Tokens() {
		require.Greater(t, token, tokens[name])
	}
	require.NoError(t, again.Unlock(ctx))
	for _, name := range []string{"one", "two", "pool"} {
		w.queued(t, a, name, 0)
	}
}

// testMultiAllOrNothing has one of the locks be held: the others are not kept.
func testMultiAllOrNothing(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{})
	m := multi(t, lockers{"1": mutex(t, b, "first"), "2": mutex(t, b, "second"), "3": mutex(t, b, "third")})
	taken := lock(t, mutex(t, a, "second"))
	_, err := m.TryLock(ctx)
	var held *recipes.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "second", held.Name)
	require.Equal(t, "a", held.Holder.Label)
	w.queued(t, a, "first", 0)

	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := m.Lock(waiting)
		done <- err
	}()
	w.queued(t, a, "second", 2)
	w.queued(t, a, "first", 1)
	w.queued(t, a, "third", 0)
	w.entered(t, b)
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, recipes.ErrHeld)
	w.queued(t, a, "first", 0)
	w.queued(t, a, "second", 1)
	unlock(t, taken)

	same := multi(t, lockers{"x": mutex(t, b, "same"), "y": mutex(t, b, "same")})
	_, err = same.Lock(ctx)
	require.ErrorIs(t, err, recipes.ErrDeadlock, "the same lock twice")
	w.queued(t, a, "same", 0)
	for _, locks := range []lockers{nil, {"": mutex(t, a, "x")}, {"a\n": mutex(t, a, "x")}, {"a": nil}} {
		_, err := recipes.NewMulti(locks)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
}

// testMultiLost ends one session of several: while all are held, and while one is
// waited for.
func testMultiLost(t *testing.T, w *world) {
	ctx := context.Background()
	a, b, c := w.client(t, Options{}), w.client(t, Options{}), w.client(t, Options{})
	m := multi(t, lockers{"1": mutex(t, a, "first"), "2": mutex(t, b, "second")})
	hold, err := m.Lock(ctx)
	require.NoError(t, err)
	w.server.Expire(t, b.SessionID())
	await(t, hold.Context().Done(), "the hold to be lost with one of its locks")
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(hold.Context()), &lost)
	require.Equal(t, "second", lost.Name)
	require.Len(t, w.queue(t, c, "first"), 1, "the other stays until the work has ended")
	require.ErrorIs(t, hold.Unlock(ctx), recipes.ErrLost)
	w.queued(t, c, "first", 0)

	other := lock(t, mutex(t, c, "second"))
	done := make(chan error, 1)
	go func() {
		_, err := m.Lock(ctx)
		done <- err
	}()
	w.queued(t, c, "second", 2)
	w.server.Expire(t, a.SessionID())
	require.ErrorIs(t, <-done, recipes.ErrLost, "what was taken is lost while the next is waited for")
	w.queued(t, c, "second", 1)
	unlock(t, other)
}

// testMultiOrder has many take the same locks, named to their makers in different
// orders.
func testMultiOrder(t *testing.T, w *world) {
	var inside [3]atomic.Int32
	var wg sync.WaitGroup
	for i := range 3 {
		c := w.client(t, Options{})
		locks := lockers{}
		for j := range 2 { // two of the three
			name := fmt.Sprint("order-", (i+j)%3)
			locks[name] = mutex(t, c, name)
		}
		m := multi(t, locks)
		for range 2 {
			wg.Go(func() {
				for range 4 {
					hold, err := m.Lock(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					for j := range 2 {
						if n := inside[(i+j)%3].Add(1); n != 1 {
							t.Errorf("%d holders at once", n)
						}
					}
					for j := range 2 {
						inside[(i+j)%3].Add(-1)
					}
					if err := hold.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
}
