package jobtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// testCost counts what a fleet costs between ticks, which is keep-alives, and at a
// tick, which does not depend on how many processes there are.
func testCost(t *testing.T, w *suite.World, limits Limits) {
	const processes, ticks = 6, 20
	f := newFleet(t, w)
	var first *process
	for i := range processes {
		label := fmt.Sprint(i)
		p := f.startWith(w.Client(t, recipetest.Options{Label: label, TTL: 3 * suite.ShortTTL}), label, 0, job.Options{}, nil)
		p.waits(i + 1)
		if i == 0 {
			first = p.holds(1)
		}
	}
	quiet(t, w)
	before := w.Server.Cost(t)
	suite.Eventually(t, "ten renewals", func() bool { return w.Server.Cost(t).Sub(before).Renewals >= 10 })
	cost := w.Server.Cost(t).Sub(before)
	cost.Renewals = 0
	require.Equal(t, recipetest.Cost{}, cost, "between ticks there are keep-alives only")

	before = w.Server.Cost(t)
	for n := range ticks {
		f.minutes(1)
		first.saw(job.Ended, n+1)
	}
	cost = w.Server.Cost(t).Sub(before)
	t.Logf("%d ticks of %d processes: %+v", ticks, processes, cost)
	require.Equal(t, 2*ticks, cost.Commits, "commits")
	require.LessOrEqual(t, cost.Reads, limits.TickReads*ticks, "reads")
	require.Zero(t, cost.Watches+cost.Events, "watches and events")
	f.ran(ticks)
}

// quiet waits until what clients do by themselves once has been done.
func quiet(t *testing.T, w *suite.World) {
	t.Helper()
	last := w.Server.Cost(t)
	renewals := last.Renewals
	suite.Eventually(t, "renewals with nothing else", func() bool {
		now := w.Server.Cost(t)
		other := now.Sub(last)
		other.Renewals = 0
		if other != (recipetest.Cost{}) {
			last, renewals = now, now.Renewals
		}
		return now.Renewals >= renewals+10
	})
}
