package election_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// onLeases is a candidate on a store of leases.
func onLeases(t *testing.T, server *memory.LeaseServer, link *memory.Link) *election.Election {
	t.Helper()
	c, err := memory.OpenLeases(server, &memory.LeaseOptions{
		Link: link, Lease: recipes.LeaseOptions{TTL: time.Second, Poll: 10 * time.Millisecond},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	e, err := election.NewOnLeases(c, "leader", nil)
	require.NoError(t, err)
	return e
}

func TestOnLeases(t *testing.T) {
	server, link := &memory.LeaseServer{}, &memory.Link{}
	a, b, observer := onLeases(t, server, link), onLeases(t, server, nil), onLeases(t, server, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := observer.Leader(ctx)
	require.ErrorIs(t, err, election.ErrNoLeader)

	views := make(chan election.View, 100)
	var observing sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	observing.Go(func() {
		for v, err := range observer.Observe(watching) {
			if err != nil {
				t.Error(err)
			}
			views <- v
		}
	})
	defer observing.Wait()
	defer stop()
	sees := func(s election.State, value string) {
		t.Helper()
		for {
			select {
			case v := <-views:
				if v.State == s && v.Leader.Value == value {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%v with value %q is not seen", s, value)
			}
		}
	}
	sees(election.Vacant, "")

	first, err := a.Campaign(ctx, "one")
	require.NoError(t, err)
	sees(election.Led, "one")
	require.NoError(t, first.Proclaim(ctx, "two"))
	sees(election.Led, "two")
	leader, err := observer.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, first.Term(), leader.Term)

	// The leader is cut off: it knows, before the other is elected.
	next := make(chan *election.Lead, 1)
	var campaign sync.WaitGroup
	campaign.Go(func() {
		lead, err := b.Campaign(ctx, "three")
		if err != nil {
			t.Error(err)
		}
		if first.Context().Err() == nil {
			t.Error("two leaders")
		}
		next <- lead
	})
	link.StallRequests()
	second := <-next
	campaign.Wait()
	link.Resume()
	require.ErrorIs(t, context.Cause(first.Context()), recipes.ErrLost)
	require.Greater(t, second.Term(), first.Term())
	sees(election.Led, "three")
	require.ErrorIs(t, first.Resign(ctx), recipes.ErrLost)
	require.NoError(t, second.Resign(ctx))
	sees(election.Vacant, "")
}

func TestOnLeasesInvalid(t *testing.T) {
	c, err := memory.OpenLeases(&memory.LeaseServer{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	_, err = election.NewOnLeases(c, "", nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = election.NewOnLeases(c, "a", &election.Options{Priority: 1})
	require.True(t, errors.Is(err, recipes.ErrInvalid))
}
