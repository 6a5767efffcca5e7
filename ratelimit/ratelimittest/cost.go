package ratelimittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// testCostLeased counts what processes commit that spend all they get: that depends on how
// many they are and how long they do it, not on the rate.
func testCostLeased(t *testing.T, w *suite.World) {
	const processes = 4
	c := newCrowd(t, w)
	o := &ratelimit.Options{
		Config:  ratelimit.Config{Rate: ratelimit.PerSecond(1_000_000), Burst: 1_500_000, Slack: 1_500_000, Period: 500 * time.Millisecond},
		Timeout: suite.Patience,
	}
	var limiters []*ratelimit.Limiter
	for range processes {
		limiters = append(limiters, c.join(o))
	}
	all(limiters, func(_ int, l *ratelimit.Limiter) { c.spend(l, 10_000) }) // beginnings cost more
	begun, spent, before := time.Now(), c.total(), w.Server.Cost(t)
	until := begun.Add(3 * time.Second)
	all(limiters, func(_ int, l *ratelimit.Limiter) {
		for time.Now().Before(until) {
			c.spend(l, 5_000)
			time.Sleep(time.Millisecond) // the work that is limited
		}
	})
	cost := w.Server.Cost(t).Sub(before)
	periods := float64(time.Since(begun)) / float64(o.Config.Period)
	t.Logf("%d tokens in %.1f periods of %d processes: %+v", c.total()-spent, periods, processes, cost)
	require.LessOrEqual(t, float64(cost.Commits), 2*processes*(periods+1), "commits")
	require.Zero(t, cost.Watches+cost.Events, "watches and events")
}

// testCostExact counts what a decision costs that the store makes: a commit if it admits,
// and a read if it refuses.
func testCostExact(t *testing.T, w *suite.World) {
	const burst = 20
	c := newCrowd(t, w)
	o := options(hourly, burst)
	o.Config.Mode = ratelimit.Exact
	l := c.join(o)
	client := w.Client(t, recipetest.Options{})
	c.spend(l, 5)
	before := w.Server.Cost(t)
	n := c.spend(l, 10)
	cost := w.Server.Cost(t).Sub(before)
	require.EqualValues(t, 10, n)
	require.Equal(t, 10, cost.Commits)
	c.drain(l, burst-15)
	before = w.Server.Cost(t)
	for range 10 {
		c.refuses(l)
	}
	require.Zero(t, w.Server.Cost(t).Sub(before).Commits, "a refusal writes nothing")
	require.EqualValues(t, burst, c.look(client).Admitted)
}
