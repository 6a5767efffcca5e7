package recipetest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// costTTL is short enough for a few renewals to be waited for, and long enough for
// a busy machine not to lose the session.
const costTTL = 3 * shortTTL

func testCostOfCycle(t *testing.T, w *world) {
	const cycles = 30
	m := mutex(t, w.client(t, Options{TTL: costTTL}), "cost")
	unlock(t, lock(t, m)) // opens the session, makes what stays
	w.settle(t)
	before := w.server.Cost(t)
	for range cycles {
		unlock(t, lock(t, m))
	}
	cost := w.server.Cost(t).Sub(before)
	t.Logf("%d uncontended cycles: %+v", cycles, cost)
	require.Equal(t, w.limits.CycleCommits*cycles, cost.Commits, "commits")
	require.LessOrEqual(t, cost.Reads, w.limits.CycleReads*cycles, "reads")
	require.Zero(t, cost.Watches+cost.Events, "watches and events")
}

// settle waits until what clients do by themselves once has been done.
func (w *world) settle(t *testing.T) {
	t.Helper()
	last := w.server.Cost(t)
	renewals := last.Renewals
	eventually(t, "two renewals with nothing else", func() bool {
		now := w.server.Cost(t)
		quiet := now.Sub(last)
		quiet.Renewals = 0
		if quiet != (Cost{}) {
			last, renewals = now, now.Renewals
		}
		return now.Renewals >= renewals+2
	})
}

func testCostOfWakeUp(t *testing.T, w *world) {
	const waiters = 100
	first := w.client(t, Options{TTL: costTTL})
	clients := []*recipes.Client{first, w.client(t, Options{TTL: costTTL}), w.client(t, Options{TTL: costTTL})}
	hold := lock(t, mutex(t, first, "wake"))
	ctx, cancel := context.WithCancel(context.Background())
	granted := make(chan *recipes.Hold, waiters)
	ended := make(chan struct{}, waiters)
	for i := range waiters {
		m := mutex(t, clients[i%len(clients)], "wake")
		go func() {
			defer func() { ended <- struct{}{} }()
			if h, err := m.Lock(ctx); err == nil {
				granted <- h
			}
		}()
	}
	w.queued(t, first, "wake", waiters+1)
	w.settle(t)
	var reads []int
	for range 5 {
		before := w.server.Cost(t)
		unlock(t, hold)
		hold = <-granted
		w.settle(t)
		cost := w.server.Cost(t).Sub(before)
		t.Logf("a release with waiters behind: %+v", cost)
		require.Equal(t, 1, cost.Commits, "commits")
		require.Equal(t, 1, cost.Events, "wake-ups")
		reads = append(reads, cost.Reads)
		require.Zero(t, cost.Watches, "watches")
	}
	// A server may tell of a removal a moment before it shows it. Who reads in that
	// moment reads again.
	slices.Sort(reads)
	require.LessOrEqual(t, reads[len(reads)/2], w.limits.WakeReads, "reads, most of the times")
	require.LessOrEqual(t, reads[len(reads)-1], w.limits.WakeReads+1, "reads")
	cancel()
	for range waiters {
		<-ended
	}
	unlock(t, hold)
	for {
		select {
		case h := <-granted: // as the contexts ended
			unlock(t, h)
		default:
			w.queued(t, first, "wake", 0)
			return
		}
	}
}

func testCostOfIdling(t *testing.T, w *world) {
	a, b := w.client(t, Options{TTL: costTTL}), w.client(t, Options{TTL: costTTL})
	hold := lock(t, mutex(t, a, "idle"))
	waiter := lockAside(context.Background(), mutex(t, b, "idle"))
	w.queued(t, a, "idle", 2)
	w.settle(t)
	before := w.server.Cost(t)
	eventually(t, "ten renewals", func() bool { return w.server.Cost(t).Sub(before).Renewals >= 10 })
	cost := w.server.Cost(t).Sub(before)
	cost.Renewals = 0
	require.Equal(t, Cost{}, cost, "holding and waiting send keep-alives only")
	unlock(t, hold)
	require.NoError(t, waiter.wait(t).err)
	unlock(t, waiter.hold)
}
