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

// testColdStart has processes that are there for one decision only: that tokens come
// while nobody is there is seen all the same.
func testColdStart(t *testing.T, w *suite.World) {
	client := w.Client(t, recipetest.Options{})
	_, err := ratelimit.Set(context.Background(), client, name, ratelimit.Config{Rate: ratelimit.PerSecond(4), Burst: 1})
	require.NoError(t, err)
	taken := 0
	begun := time.Now()
	suite.Eventually(t, "tokens that come while nobody is there", func() bool {
		d, err := ratelimit.Take(suite.Within(t), client, name, 1, nil)
		require.NoError(t, err)
		if d.OK {
			taken++
		}
		return taken == 4
	})
	require.LessOrEqual(t, float64(taken), 1+4*time.Since(begun).Seconds())

	set(t, client, name, ratelimit.Config{Rate: ratelimit.PerSecond(100), Burst: 50})
	c := newCrowd(t, w)
	first := c.join(&ratelimit.Options{Timeout: suite.Patience})
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		c.spend(first, 100) // so that it is empty
	}
	c.close(first)
	time.Sleep(700 * time.Millisecond) // nobody is there
	second := c.join(&ratelimit.Options{Timeout: suite.Patience})
	require.True(t, c.allow(second, 20).OK, "the time in which nobody was there counts")
	require.LessOrEqual(t, c.overshoot(50, ratelimit.PerSecond(100)), 0.0)
	c.close(second)
	set(t, client, name, ratelimit.Config{Rate: ratelimit.PerSecond(4), Burst: 1})
	for range 2 {
		if _, err := ratelimit.Take(suite.Within(t), client, name, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	d, err := ratelimit.Take(suite.Within(t), client, name, 1, &ratelimit.Options{Strict: true})
	require.NoError(t, err)
	require.False(t, d.OK, "it has seen next to no time pass")
}

// testShiftedClock has processes start whose wall clocks are wrong: each start adds at most
// what fills the bucket once, and on a service that tells the time nothing.
func testShiftedClock(t *testing.T, w *suite.World) {
	const burst = 20
	c := newCrowd(t, w)
	honest := c.join(options(hourly, burst))
	c.drain(honest, burst)
	c.refuses(honest)
	starts := int64(0)
	for _, shift := range []time.Duration{-time.Hour, time.Hour, -1000 * time.Hour, 10_000 * time.Hour, 1 << 62} {
		o := options(hourly, burst)
		o.Clock = func() time.Time { return time.Now().Add(shift) }
		l := c.join(o)
		starts++
		for range 5 {
			c.spend(l, 10*burst)
			c.spend(honest, 10*burst)
		}
		c.close(l)
		require.LessOrEqual(t, c.total(), burst*(1+starts))
	}
	for _, shift := range []time.Duration{0, 10_000 * time.Hour} {
		o := options(hourly, burst)
		o.Clock = func() time.Time { return time.Now().Add(shift) }
		o.Strict = true
		before := c.total()
		l := c.join(o)
		n := c.spend(l, burst)
		require.LessOrEqual(t, n, max(burst*(1+starts)-before, 0))
	}
}

// degrade stalls the link of a process that has spent what it has, and returns when it
// knows. No decision waits for longer than one request to the store may take, and no more
// than those that were waiting when the store was missed wait at all.
func degrade(t *testing.T, c *crowd, l *ratelimit.Limiter, link recipetest.Link) {
	t.Helper()
	suite.Eventually(t, "a first decision", func() bool { return c.allow(l, 1).OK })
	link.StallBoth()
	suite.Eventually(t, "the outage to be noticed", func() bool { return c.allow(l, 1).Degraded })
	waited := 0
	for range 200 {
		begun := time.Now()
		d := c.allow(l, 1)
		require.True(t, d.Degraded)
		if time.Since(begun) > 50*time.Millisecond {
			waited++
		}
	}
	require.Less(t, waited, 20, "decisions don't wait for a store that is away")
}

// recover ends an outage.
func recovers(t *testing.T, c *crowd, l *ratelimit.Limiter, link recipetest.Link) {
	t.Helper()
	link.Resume()
	suite.Eventually(t, "the store to be used again", func() bool {
		d := c.allow(l, 1)
		return d.OK && !d.Degraded
	})
}

func outage(policy ratelimit.Unavailable) *ratelimit.Options {
	o := options(ratelimit.PerSecond(200), 20)
	o.OnUnavailable, o.Timeout = policy, 200*time.Millisecond
	return o
}

func testOutageClosed(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	l, link := c.linked(outage(ratelimit.Closed))
	degrade(t, c, l, link)
	for range 50 {
		d := c.allow(l, 1)
		require.False(t, d.OK)
		require.Positive(t, d.RetryAfter)
	}
	recovers(t, c, l, link)
	require.LessOrEqual(t, c.overshoot(20, ratelimit.PerSecond(200)), 0.0)
}

func testOutageOpen(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	l, link := c.linked(outage(ratelimit.Open))
	degrade(t, c, l, link)
	for range 50 {
		require.True(t, c.allow(l, 1).OK)
	}
	recovers(t, c, l, link)
	client := w.Client(t, recipetest.Options{})
	suite.Eventually(t, "what was admitted to be told", func() bool {
		c.allow(l, 1)
		return c.look(client).Admitted >= 250
	})
}

func testOutageDecay(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	l, link := c.linked(outage(ratelimit.Decay))
	degrade(t, c, l, link)
	begun, before := time.Now(), c.total()
	admitted := 0
	suite.Eventually(t, "decisions at the last known rate", func() bool {
		d := c.allow(l, 1)
		require.True(t, d.Degraded)
		if d.OK {
			admitted++
		}
		return admitted == 50
	})
	require.LessOrEqual(t, float64(c.total()-before), 201+200*time.Since(begun).Seconds())
	recovers(t, c, l, link)

	never, link := c.linked(outage(ratelimit.Decay))
	link.StallBoth()
	suite.Eventually(t, "the outage to be noticed", func() bool {
		d := c.allow(never, 1)
		require.False(t, d.OK, "a process that was never there knows no rate")
		return d.Degraded
	})
	link.Resume()
}

// testLostReplies loses the replies to what processes write: no token is spent twice, and
// what was written is found again.
func testLostReplies(t *testing.T, w *suite.World) {
	const burst = 300
	for _, mode := range []ratelimit.Mode{ratelimit.Leased, ratelimit.Exact} {
		t.Run(string(mode), func(t *testing.T) {
			w := *w
			w.Root += string(mode)
			c := newCrowd(t, &w)
			o := options(hourly, burst)
			o.Config.Mode = mode
			l, link := c.linked(o)
			other := c.join(o)
			for i := range 12 {
				link.LoseReply()
				if i%3 == 2 {
					link.Cut()
				}
				_, err := l.WaitN(suite.Within(t), "", 10)
				require.NoError(t, err)
				c.note(time.Since(c.begun), 10)
				c.spend(l, 5)
				c.spend(other, 5)
			}
			c.close(l)
			c.spend(other, burst)
			c.spend(other, burst)
			require.LessOrEqual(t, c.total(), int64(burst))
			if mode == ratelimit.Leased {
				c.drain(other, burst-c.total())
			}
		})
	}
}

// testRestart has the service restart while processes use it.
func testRestart(t *testing.T, w *suite.World) {
	const burst = 400
	rate := ratelimit.PerSecond(400)
	c := newCrowd(t, w)
	a, b := c.join(options(rate, burst)), c.join(options(rate, burst))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		all([]*ratelimit.Limiter{a, b}, func(_ int, l *ratelimit.Limiter) {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					c.spend(l, 10)
				}
			}
		})
	}()
	suite.Eventually(t, "some use", func() bool { return c.total() > burst })
	w.Server.Restart(t)
	before := c.total()
	suite.Eventually(t, "use after the restart", func() bool { return c.total() > before+burst })
	close(stop)
	suite.Await(t, done, "the processes to end")
	require.LessOrEqual(t, c.overshoot(burst, rate), 0.0)
}
