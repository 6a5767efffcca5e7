package recipetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func latch(t testing.TB, c *recipes.Client, name string, count int) *recipes.Latch {
	t.Helper()
	l, err := c.Latch(name, count)
	require.NoError(t, err)
	return l
}

// waitAside runs a call that waits while the test goes on.
func waitAside(wait func() error) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = wait()
	}()
	return a
}

func testLatch(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := latch(t, w.client(t, Options{}), "latch", 2), latch(t, w.client(t, Options{}), "latch", 2)
	early := waitAside(func() error { return b.Wait(ctx) })
	left, err := a.Left(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, left)
	require.NoError(t, a.Remove(ctx), "there is none yet")
	left, err = a.CountDown(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, left)
	require.ErrorIs(t, a.Remove(ctx), recipes.ErrConflict)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Wait(short), context.DeadlineExceeded)
	require.True(t, early.waiting())
	left, err = b.CountDown(ctx)
	require.NoError(t, err)
	require.Zero(t, left)
	require.NoError(t, early.wait(t).err)
	require.NoError(t, a.Wait(ctx), "it stays open")
	left, err = a.CountDown(ctx)
	require.NoError(t, err)
	require.Zero(t, left, "and is not counted any further")

	other := latch(t, w.client(t, Options{}), "latch", 3)
	_, err = other.CountDown(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict)
	_, err = other.Left(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict)
	require.ErrorIs(t, other.Wait(ctx), recipes.ErrConflict)

	require.NoError(t, b.Remove(ctx))
	left, err = other.CountDown(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, left, "the name is free for another use")
	_, err = w.client(t, Options{}).Latch("", 1)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = w.client(t, Options{}).Latch("latch", 0)
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

// testLatchCount counts down from many sides, some over a link that loses replies:
// each counts once.
func testLatchCount(t *testing.T, w *world) {
	const counters, each = 3, 3
	ctx := context.Background()
	link := w.server.Link(t)
	lossy := latch(t, w.client(t, Options{Link: link}), "count", counters*each+1)
	waiter := waitAside(func() error { return lossy.Wait(ctx) })
	link.LoseReply()
	_, err := lossy.CountDown(ctx)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range counters {
		l := latch(t, w.client(t, Options{}), "count", counters*each+1)
		wg.Go(func() {
			for range each {
				if _, err := l.CountDown(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	left, err := lossy.Left(ctx)
	require.NoError(t, err)
	require.Zero(t, left)
	require.NoError(t, waiter.wait(t).err)
}

func testBarrier(t *testing.T, w *world) {
	ctx := context.Background()
	a, err := w.client(t, Options{}).Barrier("barrier")
	require.NoError(t, err)
	b, err := w.client(t, Options{}).Barrier("barrier")
	require.NoError(t, err)
	require.NoError(t, b.Wait(ctx), "it is not set")
	require.NoError(t, a.Lift(ctx))
	require.NoError(t, a.Set(ctx))
	require.NoError(t, b.Set(ctx), "it is set already")
	set, err := b.IsSet(ctx)
	require.NoError(t, err)
	require.True(t, set)
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	late := waitAside(func() error { return a.Wait(ctx) })
	require.ErrorIs(t, b.Wait(short), context.DeadlineExceeded)
	require.True(t, late.waiting()) // and has seen it set by now, or will see it lifted
	require.NoError(t, b.Lift(ctx))
	require.NoError(t, late.wait(t).err)
	set, err = a.IsSet(ctx)
	require.NoError(t, err)
	require.False(t, set)

	for range 5 { // those who saw it set pass, however short it is lifted
		require.NoError(t, a.Set(ctx))
		seen := make(chan struct{})
		waiter := waitAside(func() error { close(seen); return b.Wait(ctx) })
		<-seen
		require.NoError(t, a.Lift(ctx))
		require.NoError(t, a.Set(ctx))
		require.NoError(t, a.Lift(ctx))
		require.NoError(t, waiter.wait(t).err)
	}
	_, err = w.client(t, Options{}).Barrier("a\x00")
	require.ErrorIs(t, err, recipes.ErrInvalid)
}
