package recipetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func once(t testing.TB, c *recipes.Client, keep int) *recipes.Once[string] {
	t.Helper()
	o, err := recipes.NewOnce[string](c, "payments", &recipes.OnceOptions{Keep: keep})
	require.NoError(t, err)
	return o
}

func returns(text string) func(context.Context, *recipes.Hold) (string, error) {
	return func(context.Context, *recipes.Hold) (string, error) { return text, nil }
}

// testOnce has many callers ask for the same key at the same time.
func testOnce(t *testing.T, w *world) {
	ctx := context.Background()
	var runs atomic.Int32
	var wg sync.WaitGroup
	for i := range 3 {
		o := once(t, w.client(t, Options{}), 0)
		for j := range 3 {
			wg.Go(func() {
				result, err := o.Do(ctx, "a/b", func(context.Context, *recipes.Hold) (string, error) {
					runs.Add(1)
					return "the one", nil
				})
				if err != nil || result != "the one" {
					t.Errorf("caller %d/%d: %q, %v", i, j, result, err)
				}
			})
		}
	}
	wg.Wait()
	require.EqualValues(t, 1, runs.Load())

	o := once(t, w.client(t, Options{}), 0)
	failure := errors.New("declined")
	_, err := o.Do(ctx, "fails", func(context.Context, *recipes.Hold) (string, error) { return "x", failure })
	require.ErrorIs(t, err, failure)
	result, err := o.Do(ctx, "fails", returns("later"))
	require.NoError(t, err)
	require.Equal(t, "later", result, "a failure is not recorded")

	_, err = o.Do(ctx, "big", returns(strings.Repeat("x", 70<<10)))
	require.ErrorIs(t, err, recipes.ErrInvalid)
	for _, key := range []string{"", "a\n", strings.Repeat("k", 510)} {
		_, err = o.Do(ctx, key, returns("x"))
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	numbers, err := recipes.NewOnce[int](w.client(t, Options{}), "payments", nil)
	require.NoError(t, err)
	_, err = numbers.Do(ctx, "a/b", nil)
	require.ErrorIs(t, err, recipes.ErrConflict)
	_, err = recipes.NewOnce[int](w.client(t, Options{}), "payments", &recipes.OnceOptions{Keep: -1})
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

// testOnceRetention keeps two results, and as many big ones as have room.
func testOnceRetention(t *testing.T, w *world) {
	ctx := context.Background()
	o := once(t, w.client(t, Options{}), 2)
	for _, key := range []string{"1", "2", "3", "2", "3"} {
		result, err := o.Do(ctx, key, returns("first "+key))
		require.NoError(t, err)
		require.Equal(t, "first "+key, result)
	}
	for _, tc := range []struct{ key, want string }{{"3", "first 3"}, {"2", "first 2"}, {"1", "again"}, {"3", "first 3"}, {"2", "again"}} {
		result, err := o.Do(ctx, tc.key, returns("again"))
		require.NoError(t, err)
		require.Equal(t, tc.want, result, "key %s", tc.key)
	}
	many := once(t, w.client(t, Options{}), 10)
	for i := range 5 {
		_, err := many.Do(ctx, fmt.Sprint("big-", i), returns(strings.Repeat("x", 60<<10)))
		require.NoError(t, err)
	}
}

// testOnceLoss ends the session of a caller while it runs the operation: the next
// one runs it, and both get the same result.
func testOnceLoss(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	oa, ob := once(t, a, 0), once(t, b, 0)
	result, err := oa.Do(ctx, "key", func(work context.Context, hold *recipes.Hold) (string, error) {
		w.server.Expire(t, hold.SessionID())
		await(t, work.Done(), "the caller to learn of its loss")
		other, err := ob.Do(ctx, "key", func(_ context.Context, next *recipes.Hold) (string, error) {
			require.Greater(t, next.Token(), hold.Token())
			return "second", nil
		})
		require.NoError(t, err)
		require.Equal(t, "second", other)
		return "first", nil
	})
	require.NoError(t, err)
	require.Equal(t, "second", result, "what is recorded counts")

	failure := errors.New("stopped")
	_, err = oa.Do(ctx, "other", func(work context.Context, hold *recipes.Hold) (string, error) {
		w.server.Expire(t, hold.SessionID())
		await(t, work.Done(), "the caller to learn of its loss")
		return "", failure
	})
	require.ErrorIs(t, err, failure)
	require.ErrorIs(t, err, recipes.ErrLost)
}
