package ratelimittest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// testEveryWindow has processes spend what they get, and looks at every window of it.
func testEveryWindow(t *testing.T, w *suite.World) {
	const burst = 1500
	rate := ratelimit.PerSecond(3000)
	c := newCrowd(t, w)
	var limiters []*ratelimit.Limiter
	for range 4 {
		limiters = append(limiters, c.join(options(rate, burst)))
	}
	until := time.Now().Add(3 * time.Second)
	all(limiters, func(i int, l *ratelimit.Limiter) {
		for round := 0; time.Now().Before(until); round++ {
			c.spend(l, 40)
			pause := time.Millisecond
			if i == 0 && round%50 == 0 { // one of them hoards now and then
				pause = 300 * time.Millisecond
			}
			time.Sleep(pause) // the work that is limited
		}
	})
	t.Logf("spent %d of %d", c.total(), burst+3*rate.Tokens)
	require.LessOrEqual(t, c.overshoot(burst, rate), 0.0)
	require.Greater(t, c.total(), int64(2*burst), "what comes is used too")
}

// testHoardThenBurst has one process keep tokens while the bucket fills again: it does not
// get fuller than it is big.
func testHoardThenBurst(t *testing.T, w *suite.World) {
	const burst = 400
	rate := ratelimit.PerSecond(400)
	c := newCrowd(t, w)
	a, b := c.join(options(rate, burst)), c.join(options(rate, burst))
	for range 5 {
		c.spend(a, 1) // takes a part, and hoards it
		c.spend(b, 1)
		time.Sleep(700 * time.Millisecond) // the bucket would fill
		all([]*ratelimit.Limiter{a, b}, func(_ int, l *ratelimit.Limiter) { c.spend(l, 2*burst) })
	}
	require.LessOrEqual(t, c.overshoot(burst, rate), 0.0)
	require.Greater(t, c.total(), int64(burst))
}

// testCrashLosesTokens has processes go without giving back: what they had is never spent
// by another, and does not fill the bucket for ever.
func testCrashLosesTokens(t *testing.T, w *suite.World) {
	const burst = 100
	rate := ratelimit.PerSecond(100)
	c := newCrowd(t, w)
	o := options(rate, burst)
	o.Timeout = 300 * time.Millisecond // so that the close of who is cut off ends soon
	a, link := c.linked(o)
	n := c.spend(a, 10)
	require.EqualValues(t, 10, n)
	link.StallBoth()
	b := c.join(options(rate, burst))
	suite.Eventually(t, "the bucket to be full again", func() bool {
		d := c.allow(b, burst)
		return d.OK
	})
	require.LessOrEqual(t, c.overshoot(burst, rate), 0.0)
}

// testCutOff has a process spend what it has while it is cut off, until that is void.
func testCutOff(t *testing.T, w *suite.World) {
	const burst = 300
	rate := ratelimit.PerSecond(300)
	c := newCrowd(t, w)
	o := options(rate, burst)
	o.Timeout = 100 * time.Millisecond
	a, link := c.linked(o)
	b := c.join(options(rate, burst))
	until := time.Now().Add(4 * time.Second)
	all([]*ratelimit.Limiter{a, b}, func(i int, l *ratelimit.Limiter) {
		for round := 0; time.Now().Before(until); round++ {
			if i == 0 && round == 20 {
				link.StallBoth()
			}
			c.spend(l, 5)
			time.Sleep(10 * time.Millisecond) // the work that is limited
		}
	})
	link.Resume()
	require.LessOrEqual(t, c.overshoot(burst, rate), 0.0)
	require.Greater(t, c.total(), int64(burst))
}

func testCloseGivesBack(t *testing.T, w *suite.World) {
	const burst = 90
	c := newCrowd(t, w)
	a, b := c.join(options(hourly, burst)), c.join(options(hourly, burst))
	n := c.spend(a, 7)
	require.EqualValues(t, 7, n)
	c.close(a)
	c.drain(b, burst-7)
	c.refuses(b)
	s := c.look(w.Client(t, recipetest.Options{}))
	require.Zero(t, s.Level)
	require.EqualValues(t, burst, c.total())
	c.close(b)
	s = c.look(w.Client(t, recipetest.Options{}))
	require.Empty(t, s.Processes)
	require.EqualValues(t, burst, s.Admitted)
}

func testIdleGivesBack(t *testing.T, w *suite.World) {
	const burst = 90
	c := newCrowd(t, w)
	a := c.join(options(hourly, burst))
	c.spend(a, 1)
	client := w.Client(t, recipetest.Options{})
	suite.Eventually(t, "what is unspent to be back", func() bool {
		s := c.look(client)
		return len(s.Processes) == 0 && s.Level == burst-1
	})
	n := c.spend(a, 1)
	require.EqualValues(t, 1, n, "and it can be had again")
}

// testAllTokensAreUsed has processes share a bucket that is not refilled: each token is
// spent, once.
func testAllTokensAreUsed(t *testing.T, w *suite.World) {
	const burst = 500
	c := newCrowd(t, w)
	var limiters []*ratelimit.Limiter
	for range 4 {
		limiters = append(limiters, c.join(options(hourly, burst)))
	}
	all(limiters, func(_ int, l *ratelimit.Limiter) { c.spend(l, burst) })
	for _, l := range limiters[1:] {
		c.close(l)
	}
	c.drain(limiters[0], burst-c.total())
	c.refuses(limiters[0])
	require.EqualValues(t, burst, c.total())
}

// testExactCount has processes decide by the store: no more, no less.
func testExactCount(t *testing.T, w *suite.World) {
	const burst = 60
	c := newCrowd(t, w)
	o := options(hourly, burst)
	o.Config.Mode = ratelimit.Exact
	var limiters []*ratelimit.Limiter
	for range 4 {
		limiters = append(limiters, c.join(o), c.with(w.Client(t, recipetest.Options{}), o))
	}
	all(limiters, func(_ int, l *ratelimit.Limiter) { c.spend(l, burst) })
	require.EqualValues(t, burst, c.total())
	s := c.look(w.Client(t, recipetest.Options{}))
	require.EqualValues(t, burst, s.Admitted)
	require.Zero(t, s.Out())
}

func testWindow(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	o := &ratelimit.Options{
		Config:  ratelimit.Config{Rate: ratelimit.Rate{Tokens: 17, Per: time.Hour}, Policy: ratelimit.Window},
		Timeout: suite.Patience,
	}
	a, b := c.join(o), c.join(o)
	all([]*ratelimit.Limiter{a, b}, func(_ int, l *ratelimit.Limiter) { c.spend(l, 30) })
	c.close(a)
	c.drain(b, 17-c.total())
	d := c.allow(b, 1)
	require.False(t, d.OK)
	require.EqualValues(t, 17, d.Limit)

	short := c.join(&ratelimit.Options{Timeout: suite.Patience})
	_, err := ratelimit.Set(context.Background(), w.Client(t, recipetest.Options{}), name,
		ratelimit.Config{Rate: ratelimit.Rate{Tokens: 17, Per: time.Second}, Policy: ratelimit.Window})
	require.NoError(t, err)
	c.ledger = nil
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		c.spend(short, 20)
	}
	for i, first := range c.ledger {
		sum := int64(0)
		for _, s := range c.ledger[i:] {
			if s.to-first.from < time.Second {
				sum += s.n
			}
		}
		require.LessOrEqual(t, sum, int64(17), "in any second")
	}
	require.Greater(t, c.total(), int64(17), "what leaves the window comes again")
}

// testQuietIsNotStarved has a process that needs little beside others that take all they
// get: it gets what it needs.
func testQuietIsNotStarved(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	rate := ratelimit.PerSecond(300)
	ctx, stop := context.WithCancel(context.Background())
	var greedy []*ratelimit.Limiter
	for range 3 {
		greedy = append(greedy, c.join(options(rate, 300)))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all(greedy, func(_ int, l *ratelimit.Limiter) {
			for ctx.Err() == nil {
				c.spend(l, 1000)
				time.Sleep(time.Millisecond) // the work that is limited
			}
		})
	}()
	defer func() {
		stop()
		suite.Await(t, done, "the others to end")
	}()
	suite.Eventually(t, "the bucket to be empty", func() bool { return c.total() > 300 })
	quiet := c.join(options(rate, 300))
	for range 5 {
		_, err := quiet.Wait(suite.Within(t), "")
		require.NoError(t, err)
	}
}
