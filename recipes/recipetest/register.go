package recipetest

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

func register[T any](t testing.TB, c *recipes.Client, name string) *recipes.Register[T] {
	t.Helper()
	r, err := recipes.NewRegister[T](c, name)
	require.NoError(t, err)
	return r
}

func testRegister(t *testing.T, w *world) {
	type config struct {
		Rate  int
		Hosts []string
	}
	ctx := context.Background()
	a, b := register[config](t, w.client(t, Options{Label: "a"}), "config"), register[config](t, w.client(t, Options{}), "config")

	none, err := a.Get(ctx)
	require.NoError(t, err)
	require.Zero(t, none)
	first, err := a.CompareAndSwap(ctx, 0, config{Rate: 1})
	require.NoError(t, err)
	require.NotZero(t, first.Version)
	_, err = b.CompareAndSwap(ctx, 0, config{Rate: 2})
	require.ErrorIs(t, err, recipes.ErrConflict)
	seen, err := b.Get(ctx)
	require.NoError(t, err)
	require.Equal(t, first, seen)
	require.Equal(t, "a", seen.By.Label)

	second, err := b.CompareAndSwap(ctx, first.Version, config{Rate: 2, Hosts: []string{"x"}})
	require.NoError(t, err)
	require.Greater(t, second.Version, first.Version)
	_, err = a.CompareAndSwap(ctx, first.Version, config{Rate: 3})
	require.ErrorIs(t, err, recipes.ErrConflict)

	require.ErrorIs(t, a.Delete(ctx, first.Version), recipes.ErrConflict)
	require.NoError(t, a.Delete(ctx, second.Version))
	require.NoError(t, a.Delete(ctx, 0))
	none, err = b.Get(ctx)
	require.NoError(t, err)
	require.Zero(t, none)
	again, err := b.CompareAndSwap(ctx, 0, config{Rate: 2})
	require.NoError(t, err)
	require.Greater(t, again.Version, second.Version, "versions grow over a removal")
	_, err = a.CompareAndSwap(ctx, second.Version, config{})
	require.ErrorIs(t, err, recipes.ErrConflict)
}

// testRegisterReplace writes without reading in between.
func testRegisterReplace(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := register[int](t, w.client(t, Options{}), "level"), register[int](t, w.client(t, Options{}), "level")
	none, err := a.Snapshot(ctx)
	require.NoError(t, err)
	require.Zero(t, none.Version)
	require.NoError(t, a.Remove(ctx, none))
	first, err := a.Replace(ctx, none, 1)
	require.NoError(t, err)
	require.Equal(t, 1, first.Value)
	second, err := a.Replace(ctx, first, 2)
	require.NoError(t, err)
	require.Greater(t, second.Version, first.Version)
	require.Equal(t, first.Stored.IsZero(), second.Stored.IsZero())
	require.False(t, second.Stored.Before(first.Stored), "the service's time goes on")

	seen, err := b.Snapshot(ctx)
	require.NoError(t, err)
	require.Equal(t, second.Versioned, seen.Versioned)
	require.True(t, second.Stored.Equal(seen.Stored))
	third, err := b.Replace(ctx, seen, 3)
	require.NoError(t, err)
	for _, old := range []recipes.Snapshot[int]{none, first, second} {
		instead, err := a.Replace(ctx, old, 4)
		require.ErrorIs(t, err, recipes.ErrConflict)
		require.True(t, instead.Known())
		require.Equal(t, third.Versioned, instead.Versioned, "who comes too late is told what is there")
		require.True(t, third.Stored.Equal(instead.Stored))
	}
	require.ErrorIs(t, a.Remove(ctx, second), recipes.ErrConflict)
	require.NoError(t, a.Remove(ctx, third))
	instead, err := b.Replace(ctx, third, 5)
	require.ErrorIs(t, err, recipes.ErrConflict)
	require.True(t, instead.Known())
	require.Zero(t, instead.Version)
	again, err := b.Replace(ctx, none, 6)
	require.NoError(t, err)
	require.Greater(t, again.Version, third.Version, "versions grow over a removal")
}

func testRegisterUpdate(t *testing.T, w *world) {
	const writers, each = 5, 8
	ctx := context.Background()
	var wg sync.WaitGroup
	for range writers {
		c, err := recipes.NewCounter(w.client(t, Options{}), "hits")
		require.NoError(t, err)
		wg.Go(func() {
			for range each {
				if _, err := c.Add(ctx, 2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	c, err := recipes.NewCounter(w.client(t, Options{}), "hits")
	require.NoError(t, err)
	n, err := c.Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2*writers*each, n, "no update is lost")

	_, err = c.Add(ctx, math.MaxInt64)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = c.Add(ctx, math.MinInt64)
	require.NoError(t, err)
	_, err = c.Add(ctx, -3*writers*each)
	require.ErrorIs(t, err, recipes.ErrInvalid)

	failure := errors.New("no")
	r := register[int](t, w.client(t, Options{}), "hits") // a register and a counter are different things
	_, err = r.Update(ctx, func(int) (int, error) { return 7, failure })
	require.ErrorIs(t, err, failure)
	none, err := r.Get(ctx)
	require.NoError(t, err)
	require.Zero(t, none.Version)
}

func testRegisterInvalid(t *testing.T, w *world) {
	ctx := context.Background()
	c := w.client(t, Options{})
	_, err := recipes.NewRegister[int](c, "")
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = register[any](t, c, "value").CompareAndSwap(ctx, 0, func() {})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	text := register[string](t, c, "value")
	_, err = text.CompareAndSwap(ctx, 0, strings.Repeat("x", 300<<10))
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = text.CompareAndSwap(ctx, 0, strings.Repeat("x", 200<<10))
	require.NoError(t, err)
	_, err = register[int](t, c, "value").Get(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict, "what is stored is not an int")
	for _, space := range []string{"", "a/b", "A", "..", strings.Repeat("x", 65)} {
		_, err = recipes.NewRegisterIn[int](c, space, "value")
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	_, err = recipes.NewRegisterIn[int](c, "other-1", "")
	require.ErrorIs(t, err, recipes.ErrInvalid)
	other, err := recipes.NewRegisterIn[int](c, "other-1", "value")
	require.NoError(t, err)
	none, err := other.Get(ctx)
	require.NoError(t, err, "another space")
	require.Zero(t, none)
}

// testRegisterLostReply loses the replies to writes: each is done once.
func testRegisterLostReply(t *testing.T, w *world) {
	ctx := context.Background()
	link := w.server.Link(t)
	c, err := recipes.NewCounter(w.client(t, Options{Link: link}), "lost-reply")
	require.NoError(t, err)
	for i := range rounds {
		link.LoseReply()
		n, err := c.Add(ctx, 1)
		require.NoError(t, err)
		require.EqualValues(t, i+1, n)
	}
}

// testRegisterWatchWhileReplaced watches a register that is written all the time: it always
// has a value.
func testRegisterWatchWhileReplaced(t *testing.T, w *world) {
	const writes = 200
	ctx := context.Background()
	a := register[int](t, w.client(t, Options{}), "replaced")
	write := func(i int) {
		_, err := a.Update(ctx, func(int) (int, error) { return i, nil })
		require.NoError(t, err)
	}
	write(0)
	begun, done := make(chan struct{}), make(chan struct{})
	b := register[int](t, w.client(t, Options{}), "replaced")
	go func() {
		defer close(done)
		last := -1
		for v, err := range b.Watch(ctx) {
			if err != nil || v.Version == 0 || v.Value < last {
				t.Errorf("after %d: version %d, value %d: %v", last, v.Version, v.Value, err)
				return
			}
			if last < 0 {
				close(begun)
			}
			if last = v.Value; last == writes {
				return
			}
		}
	}()
	await(t, begun, "the watch to begin")
	for i := range writes {
		write(i + 1)
	}
	await(t, done, "the last value to show")
}

// testRegisterWatch watches registers, also one in a space that other objects have parts in.
func testRegisterWatch(t *testing.T, w *world) {
	in := func(space string) *recipes.Register[int] {
		r, err := recipes.NewRegisterIn[int](w.client(t, Options{}), space, "watched")
		require.NoError(t, err)
		return r
	}
	for _, space := range []string{driver.SpaceRegister, driver.SpaceJob} {
		watchRegister(t, in(space), in(space))
	}
}

func watchRegister(t *testing.T, a, b *recipes.Register[int]) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan recipes.Versioned[int], 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for v, err := range b.Watch(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			seen <- v
		}
	}()
	require.Zero(t, (<-seen).Version, "there is no value yet")
	for i := range 5 {
		v, err := a.Update(ctx, func(int) (int, error) { return i, nil })
		require.NoError(t, err)
		require.Equal(t, v, <-seen)
	}
	now, err := a.Get(ctx)
	require.NoError(t, err)
	require.NoError(t, a.Delete(ctx, now.Version))
	require.Zero(t, (<-seen).Version)
	cancel()
	await(t, done, "the watch to end")
}
