package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scaled runs a contender on a service, a smaller one than those of the scenarios.
func scaled(t *testing.T, start func(ctx context.Context, w *workspace, nodes int) (service, error),
	open func(ctx context.Context, at site) (runner, error)) (spans []time.Duration, figures map[string]float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w, err := newWorkspace(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, w.close()) }()
	s, err := start(ctx, w, 1)
	var lacking missing
	if errors.As(err, &lacking) && os.Getenv("CI") == "" {
		t.Skip(lacking)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	r, err := open(ctx, site{service: s, workspace: w, name: "scaled", clients: 1})
	require.NoError(t, err)
	require.NoError(t, r.(surveyor).survey(ctx, 50*time.Millisecond))
	spans, err = r.measure(ctx, 50*time.Millisecond)
	require.NoError(t, err)
	figures = map[string]float64{}
	for _, c := range r.(surveyor).figures() {
		figures[c.What] = c.Each
	}
	require.NoError(t, r.close())
	return spans, figures
}

func TestCrowdOnEtcd(t *testing.T) {
	t.Parallel()
	spans, figures := scaled(t, startEtcd, crowdOf(20, overFew, etcdEvents(), enterEtcd))
	require.NotEmpty(t, spans)
	require.InDelta(t, 1, figures[eventsEach], 0, "one is woken")
	require.Positive(t, figures[msToEnter])
	require.Positive(t, figures[kibPerWaiter])
}

func TestCrowdOnZooKeeper(t *testing.T) {
	t.Parallel()
	spans, figures := scaled(t, startZK, crowdOf(20, eachItsOwn, zkEvents(), nil))
	require.NotEmpty(t, spans)
	require.InDelta(t, 1, figures[eventsEach], 0, "one is woken")
	require.NotContains(t, figures, msToEnter)
}

func TestHolderOnEtcd(t *testing.T) {
	t.Parallel()
	counter := etcdSessions
	counter.during = holderTTL / 2
	moments, figures := scaled(t, startEtcd, holderOf(200, dialEtcdClient, &counter))
	require.GreaterOrEqual(t, len(moments), leastTurns)
	require.InDelta(t, 1, figures[holdsSessions], 0)
	require.InDelta(t, 2, figures[renewalsMany], 1)
	require.InDelta(t, 2, figures[renewalsFew], 1)
	require.Contains(t, figures, bytesPerLock)
}

func TestHolderOnZooKeeper(t *testing.T) {
	t.Parallel()
	counter := zkSessions
	counter.during = holderTTL / 2
	_, figures := scaled(t, startZK, holderOf(200, dialZKClient, &counter))
	require.InDelta(t, 1, figures[holdsSessions], 0)
	require.Positive(t, figures[renewalsMany])
	require.InDelta(t, figures[renewalsFew], figures[renewalsMany], 2)
}

func TestWatchedOnEtcd(t *testing.T) {
	t.Parallel()
	spans, figures := scaled(t, startEtcd, watchedOf(60, dialEtcdClient, etcdURL, etcdWatchers))
	require.NotEmpty(t, spans)
	require.InDelta(t, 1, figures[consoleWatches], 0)
	require.Zero(t, figures[unseenChanges])
}

func TestWatchedOnZooKeeper(t *testing.T) {
	t.Parallel()
	spans, figures := scaled(t, startZK, watchedOf(60, dialZKClient, zkURL, zkWatches))
	require.NotEmpty(t, spans)
	require.Zero(t, figures[unseenChanges])
}

func TestShown(t *testing.T) {
	t.Parallel()
	now := time.Now()
	held, free := &watchedLock{shows: "77"}, &watchedLock{}
	require.False(t, held.shown(seenRow{}), "nothing has come")
	require.True(t, held.shown(seenRow{"<code>77</code>", now}))
	require.False(t, held.shown(seenRow{"<code>78</code>", now}))
	require.False(t, held.shown(seenRow{"", now}))
	require.True(t, free.shown(seenRow{"", now}))
	require.False(t, free.shown(seenRow{"<code>77</code>", now}))
	require.False(t, free.shown(seenRow{}))
}
