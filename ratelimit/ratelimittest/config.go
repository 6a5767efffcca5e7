package ratelimittest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func set(t testing.TB, client *recipes.Client, name string, config ratelimit.Config) {
	t.Helper()
	_, err := ratelimit.Set(suite.Within(t), client, name, config)
	require.NoError(t, err)
}

// testRateChanges changes the limit while it is used, up and down: processes follow, and
// what they had of the old one is not spent.
func testRateChanges(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	client := w.Client(t, recipetest.Options{})
	a, b := c.join(options(ratelimit.PerSecond(100_000), 100_000)), c.join(options(ratelimit.PerSecond(100_000), 100_000))
	both := []*ratelimit.Limiter{a, b}
	use := func(d time.Duration) {
		until := time.Now().Add(d)
		all(both, func(_ int, l *ratelimit.Limiter) {
			for time.Now().Before(until) {
				c.spend(l, 100)
				time.Sleep(time.Millisecond) // the work that is limited
			}
		})
	}
	use(300 * time.Millisecond)
	set(t, client, name, ratelimit.Config{Rate: ratelimit.PerSecond(10), Burst: 10})
	suite.Eventually(t, "the new limit to be known to both", func() bool {
		use(50 * time.Millisecond)
		return c.allow(a, 1).Limit == 10 && c.allow(b, 1).Limit == 10
	})
	use(500 * time.Millisecond) // the one that was first to know gives back
	before, begun := c.total(), time.Now()
	use(time.Second)
	require.LessOrEqual(t, float64(c.total()-before), 20+10*time.Since(begun).Seconds())

	set(t, client, name, ratelimit.Config{Rate: ratelimit.PerSecond(50_000), Burst: 50_000})
	changed := time.Now()
	before = c.total()
	suite.Eventually(t, "the new rate to be used", func() bool {
		use(50 * time.Millisecond)
		return c.total()-before > 1000
	})
	t.Logf("a higher rate is used after %v", time.Since(changed))
	for _, l := range both {
		suite.Eventually(t, "the new limit to be known", func() bool { return c.allow(l, 1).Limit == 50_000 })
	}
}

// testModeChanges goes over from leases to exact decisions and back.
func testModeChanges(t *testing.T, w *suite.World) {
	const burst = 200
	c := newCrowd(t, w)
	client := w.Client(t, recipetest.Options{})
	a, b := c.join(options(hourly, burst)), c.join(options(hourly, burst))
	c.spend(a, 10)
	c.spend(b, 10)
	set(t, client, name, ratelimit.Config{Rate: hourly, Burst: burst, Mode: ratelimit.Exact})
	suite.Eventually(t, "leases to be given back", func() bool {
		c.spend(a, 1)
		c.spend(b, 1)
		return c.look(client).Out() == 0
	})
	before := c.look(client).Admitted
	n := c.spend(a, 5)
	require.Equal(t, before+n, c.look(client).Admitted)
	set(t, client, name, ratelimit.Config{Rate: hourly, Burst: burst, Policy: ratelimit.Bucket})
	suite.Eventually(t, "leases again", func() bool {
		c.spend(a, 1)
		return c.look(client).Out() > 0 || c.total() >= burst
	})
	c.close(a)
	c.drain(b, burst-c.total())
	c.refuses(b)
}

// testStoredConfigCounts has a process want something else than is stored: it follows what
// is stored, and is told.
func testStoredConfigCounts(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	a := c.join(options(hourly, 5))
	require.True(t, c.allow(a, 1).OK)
	o := options(ratelimit.PerSecond(1000), 1000)
	var mu sync.Mutex
	var told []ratelimit.Config
	o.OnChange = func(key string, config ratelimit.Config) {
		mu.Lock()
		defer mu.Unlock()
		if key != "" {
			t.Errorf("key %q", key)
		}
		told = append(told, config)
	}
	b := c.join(o)
	d := c.allow(b, 1)
	require.EqualValues(t, 5, d.Limit)
	require.Equal(t, hourly, d.Rate)
	set(t, w.Client(t, recipetest.Options{}), name, ratelimit.Config{Rate: hourly, Burst: 7})
	suite.Eventually(t, "the change to be told", func() bool {
		c.allow(b, 1)
		mu.Lock()
		defer mu.Unlock()
		return len(told) == 2
	})
	mu.Lock()
	defer mu.Unlock()
	require.EqualValues(t, 5, told[0].Burst)
	require.EqualValues(t, 7, told[1].Burst)
}

// testKeys has keys with budgets of their own, and configurations that follow.
func testKeys(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	client := w.Client(t, recipetest.Options{})
	l := c.join(options(hourly, 3))
	ctx := suite.Within(t)
	keys := []string{"ann", "bob/x", "ünï", "\x00\x1f", strings.Repeat("long", 200), "\xff"}
	for _, key := range keys {
		for i := range 4 {
			d, err := l.Allow(ctx, key)
			require.NoError(t, err)
			require.Equal(t, i < 3, d.OK, "%q %d", key, i)
		}
	}
	s, err := ratelimit.Look(ctx, client, ratelimit.KeyName(name, "ann"))
	require.NoError(t, err)
	require.True(t, s.Set)
	require.Equal(t, "api/ann", ratelimit.KeyName(name, "ann"))
	set(t, client, name, ratelimit.Config{Rate: ratelimit.PerSecond(1000), Burst: 50})
	suite.Eventually(t, "a key to follow its limiter", func() bool {
		d, err := l.AllowN(ctx, "ann", 5)
		require.NoError(t, err)
		return d.OK && d.Limit == 50
	})
}

// testKeysAreForgotten has more keys than are remembered: those that are forgotten give
// back what they have, and nothing is left of who is whole again.
func testKeysAreForgotten(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	client := w.Client(t, recipetest.Options{})
	o := options(ratelimit.PerSecond(1000), 30)
	o.MaxKeys = 4
	l := c.join(o)
	ctx := suite.Within(t)
	for i := range 12 {
		d, err := l.Allow(ctx, fmt.Sprint(i))
		require.NoError(t, err)
		require.True(t, d.OK)
	}
	suite.Eventually(t, "tokens of forgotten keys to be back", func() bool {
		for i := range 8 {
			s, err := ratelimit.Look(ctx, client, fmt.Sprint(name, "/", i))
			require.NoError(t, err)
			if s.Out() > 0 {
				return false
			}
		}
		return true
	})
	suite.Eventually(t, "a whole key to be removed", func() bool {
		s, err := ratelimit.Look(ctx, client, name+"/11")
		require.NoError(t, err)
		return !s.Set
	})
	d, err := l.Allow(ctx, "11")
	require.NoError(t, err)
	require.True(t, d.OK, "and it can be used again")
}

// testKeysInUseStay has calls wait for a key's tokens, and others use more keys than are
// remembered.
func testKeysInUseStay(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	o := options(ratelimit.PerSecond(20), 10)
	o.MaxKeys = 2
	l := c.join(o)
	ctx := suite.Within(t)
	_, err := l.WaitN(ctx, "ann", 10)
	require.NoError(t, err)
	r, err := l.ReserveN(ctx, "ann", 10)
	require.NoError(t, err)
	for i, waits := 0, true; waits; i++ {
		d, err := l.Allow(ctx, fmt.Sprint(i))
		require.NoError(t, err)
		require.True(t, d.OK)
		select {
		case <-r.Ready():
			waits = false
		default:
		}
	}
	_, err = l.Allow(ctx, "bob")
	require.NoError(t, err)
	d, err := r.Wait(ctx)
	require.NoError(t, err)
	require.True(t, d.OK)
}

// testKeySetByHand has a key that does not follow its limiter.
func testKeySetByHand(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	client := w.Client(t, recipetest.Options{})
	set(t, client, name, ratelimit.Config{Rate: hourly, Burst: 2})
	set(t, client, name+"/vip", ratelimit.Config{Rate: hourly, Burst: 40})
	l := c.join(&ratelimit.Options{Timeout: suite.Patience})
	ctx := suite.Within(t)
	for key, want := range map[string]int64{"vip": 40, "ann": 2} {
		d, err := l.Allow(ctx, key)
		require.NoError(t, err)
		require.Equal(t, want, d.Limit)
	}
	require.NoError(t, ratelimit.Remove(ctx, client, name+"/vip"))
	suite.Eventually(t, "the key to follow again", func() bool {
		d, err := l.Allow(ctx, "vip")
		require.NoError(t, err)
		return d.Limit == 2
	})
}

func testTake(t *testing.T, w *suite.World) {
	client := w.Client(t, recipetest.Options{})
	ctx := suite.Within(t)
	_, err := ratelimit.Take(ctx, client, name, 1, nil)
	require.ErrorIs(t, err, ratelimit.ErrUnset)
	set(t, client, name, ratelimit.Config{Rate: hourly, Burst: 10})
	c := newCrowd(t, w)
	l := c.join(options(hourly, 10))
	c.spend(l, 1) // has some out, which are not to be had
	c.close(l)
	taken := int64(1)
	for _, n := range []int64{4, 3, 2} {
		d, err := ratelimit.Take(ctx, client, name, n, nil)
		require.NoError(t, err)
		require.True(t, d.OK)
		taken += n
		require.EqualValues(t, 10-taken, d.Remaining)
	}
	d, err := ratelimit.Take(ctx, client, name, 1, nil)
	require.NoError(t, err)
	require.False(t, d.OK)
	require.Positive(t, d.RetryAfter)
	d, err = ratelimit.Take(ctx, client, name, 11, nil)
	require.NoError(t, err)
	require.Equal(t, ratelimit.Never, d.RetryAfter)
	_, err = ratelimit.Take(ctx, client, name, 0, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

func testLook(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	client := w.Client(t, recipetest.Options{})
	ctx := suite.Within(t)
	s, err := ratelimit.Look(ctx, client, name)
	require.NoError(t, err)
	require.False(t, s.Set)
	l := c.with(w.Client(t, recipetest.Options{Label: "first"}), options(ratelimit.PerSecond(100), 100))
	suite.Eventually(t, "a process with tokens", func() bool {
		c.spend(l, 1)
		s = c.look(client)
		return len(s.Processes) == 1 && s.Out() > 0
	})
	require.Contains(t, s.Processes[0].Who, "first")
	require.EqualValues(t, 100, s.Config.Burst)
	objects, err := client.Objects(ctx, recipes.Filter{Kinds: []recipes.Kind{recipes.KindLimiter}})
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, recipes.KindLimiter, objects[0].Kind)
	require.Equal(t, name, objects[0].Name)
	seen, err := ratelimit.StateOf(objects[0])
	require.NoError(t, err)
	require.Equal(t, s.Config, seen.Config)
	require.Regexp(t, `^100/s burst 100, \d+ there`, ratelimit.Summary(objects[0]))
	require.NoError(t, ratelimit.Remove(ctx, client, name))
	require.NoError(t, ratelimit.Remove(ctx, client, name))
}

func testConcurrency(t *testing.T, w *suite.World) {
	ctx := suite.Within(t)
	a, err := ratelimit.NewConcurrency(w.Client(t, recipetest.Options{}), name, 2)
	require.NoError(t, err)
	b, err := ratelimit.NewConcurrency(w.Client(t, recipetest.Options{}), name, 2)
	require.NoError(t, err)
	first, err := a.Acquire(ctx, "ann")
	require.NoError(t, err)
	second, d, err := b.TryAcquire(ctx, "ann")
	require.NoError(t, err)
	require.True(t, d.OK)
	_, d, err = b.TryAcquire(ctx, "ann")
	require.NoError(t, err)
	require.False(t, d.OK)
	other, d, err := b.TryAcquire(ctx, "bob")
	require.NoError(t, err)
	require.True(t, d.OK, "a key has permits of its own")
	require.NoError(t, first.Unlock(ctx))
	third, err := b.Acquire(ctx, "ann")
	require.NoError(t, err)
	for _, hold := range []*recipes.Hold{second, other, third} {
		require.NoError(t, hold.Unlock(ctx))
	}
	_, err = ratelimit.NewConcurrency(w.Client(t, recipetest.Options{}), name, -1)
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

func testUnset(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	client := w.Client(t, recipetest.Options{})
	l := c.join(&ratelimit.Options{Timeout: suite.Patience, OnUnavailable: ratelimit.Open})
	ctx := suite.Within(t)
	for _, key := range []string{"", "ann"} {
		for range 3 {
			_, err := l.Allow(ctx, key)
			require.ErrorIs(t, err, ratelimit.ErrUnset)
			_, err = l.Wait(ctx, key)
			require.ErrorIs(t, err, ratelimit.ErrUnset)
		}
	}
	set(t, client, name, ratelimit.Config{Rate: hourly, Burst: 2})
	for _, key := range []string{"", "ann"} {
		suite.Eventually(t, "a limit that was set since", func() bool {
			d, err := l.Allow(ctx, key)
			return err == nil && d.OK
		})
	}
}

// testForeign has a register in the place of a limiter's that is not one. That is an error for
// as long as it is so, and not an outage.
func testForeign(t *testing.T, w *suite.World) {
	client := w.Client(t, recipetest.Options{})
	for i, value := range []any{"text", map[string]any{"rate": map[string]any{"tokens": 0, "per": 0}}} {
		other := fmt.Sprint("foreign-", i)
		r, err := recipes.NewRegisterIn[any](client, "rate", other)
		require.NoError(t, err)
		_, err = r.CompareAndSwap(suite.Within(t), 0, value)
		require.NoError(t, err)
		o := options(hourly, 5)
		o.OnUnavailable = ratelimit.Open
		l, err := ratelimit.New(client, other, o)
		require.NoError(t, err)
		for range 3 {
			for _, key := range []string{"", "ann"} {
				_, err = l.Allow(suite.Within(t), key)
				require.ErrorIs(t, err, recipes.ErrConflict)
				_, err = l.Wait(suite.Within(t), key)
				require.ErrorIs(t, err, recipes.ErrConflict)
			}
		}
		require.NoError(t, l.Close(suite.Within(t)))
	}
	l := newCrowd(t, w).join(options(hourly, 5))
	_, err := l.WaitN(suite.Within(t), "", 5)
	require.NoError(t, err)
	waiter, err := l.Reserve(suite.Within(t), "")
	require.NoError(t, err)
	r, err := recipes.NewRegisterIn[any](client, "rate", name)
	require.NoError(t, err)
	_, err = r.Update(suite.Within(t), func(any) (any, error) { return "text", nil })
	require.NoError(t, err)
	_, err = waiter.Wait(suite.Within(t))
	require.ErrorIs(t, err, recipes.ErrConflict)
	_, err = l.Allow(suite.Within(t), "")
	require.ErrorIs(t, err, recipes.ErrConflict)
	require.ErrorIs(t, ratelimit.Remove(suite.Within(t), client, name), recipes.ErrConflict)
	snap, err := r.Snapshot(suite.Within(t))
	require.NoError(t, err)
	require.NoError(t, r.Remove(suite.Within(t), snap))
	suite.Eventually(t, "the limiter to be made anew", func() bool {
		d, err := l.Allow(suite.Within(t), "")
		return err == nil && d.OK
	})
}

func testInvalid(t *testing.T, w *suite.World) {
	client := w.Client(t, recipetest.Options{})
	ctx := context.Background()
	for field, o := range map[string]*ratelimit.Options{
		"Config.Rate":           {Config: ratelimit.Config{Burst: 1}},
		"Config.Burst":          {Config: ratelimit.Config{Rate: hourly, Burst: -1}},
		"Options.Timeout":       {Timeout: -1},
		"Options.MaxKeys":       {MaxKeys: -1},
		"Options.OnUnavailable": {OnUnavailable: 9},
	} {
		_, err := ratelimit.New(client, name, o)
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
	}
	_, err := ratelimit.New(client, "", nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = ratelimit.Set(ctx, client, name, ratelimit.Config{})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	l := newCrowd(t, w).join(options(hourly, 5))
	for _, n := range []int64{0, -1} {
		_, err = l.AllowN(ctx, "", n)
		require.ErrorIs(t, err, recipes.ErrInvalid)
		_, err = l.WaitN(ctx, "", n)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	_, err = l.WaitN(suite.Within(t), "", 6)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	d, err := l.AllowN(suite.Within(t), "", 6)
	require.NoError(t, err)
	require.Equal(t, ratelimit.Never, d.RetryAfter)
}

func testClosed(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	l := c.join(options(hourly, 5))
	c.drain(l, 5)
	done := make(chan error, 1)
	r, err := l.ReserveN(suite.Within(t), "", 2)
	require.NoError(t, err)
	go func() {
		_, err := r.Wait(suite.Within(t))
		done <- err
	}()
	c.close(l)
	c.close(l)
	require.ErrorIs(t, <-done, recipes.ErrClosed)
	for _, key := range []string{"", "ann"} {
		_, err = l.Allow(suite.Within(t), key)
		require.ErrorIs(t, err, recipes.ErrClosed)
		_, err = l.Wait(suite.Within(t), key)
		require.ErrorIs(t, err, recipes.ErrClosed)
	}
}
