package electiontest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// An observer follows an election in the background.
type observer struct {
	mu    sync.Mutex
	views []election.View
	err   error
	done  chan struct{}
}

func observe(t testing.TB, e *election.Election) *observer {
	o := &observer{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		suite.Await(t, o.done, "the observer to end with its context")
		require.NoError(t, o.err)
	})
	go func() {
		defer close(o.done)
		for view, err := range e.Observe(ctx) {
			o.add(view, err)
		}
	}()
	return o
}

func (o *observer) add(view election.View, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.views, o.err = append(o.views, view), err
}

// all returns what was observed so far.
func (o *observer) all() []election.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.views[:len(o.views):len(o.views)]
}

// last is what was observed last.
func (o *observer) last() election.View {
	views := o.all()
	if len(views) == 0 {
		return election.View{}
	}
	return views[len(views)-1]
}

// tell describes views, such as "vacant, led by a: x".
func tell(views ...election.View) string {
	text := ""
	for _, v := range views {
		if text != "" {
			text += ", "
		}
		text += v.State.String()
		if v.State == election.Led {
			text += " by " + v.Leader.Owner.Label + ": " + v.Leader.Value
		}
	}
	return text
}

// shows waits until that is what was observed last.
func (o *observer) shows(t testing.TB, want string) {
	t.Helper()
	suite.Eventually(t, "the observer to show "+want, func() bool { return tell(o.last()) == want })
}

func testObserve(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	cb, b := candidate(t, w, "b")
	_, e := candidate(t, w, "")
	o := observe(t, e)
	o.shows(t, "vacant")
	first := elect(t, a, "1")
	o.shows(t, "led by a: 1")
	require.Equal(t, first.Term(), o.last().Leader.Term)
	next := campaignAside(suite.Within(t), b, "3")
	suite.Queued(t, ca, name, 2)
	require.NoError(t, first.Proclaim(suite.Within(t), "2"))
	o.shows(t, "led by a: 2")
	_, another := candidate(t, w, "")
	late := observe(t, another)
	late.shows(t, "led by a: 2")
	resign(t, first)
	require.NoError(t, next.wait(t).err)
	o.shows(t, "led by b: 3")
	late.shows(t, "led by b: 3") // or it might be told of what comes next instead
	require.Equal(t, next.lead.Term(), o.last().Leader.Term)
	require.Equal(t, next.lead.SessionID(), o.last().Leader.Session)
	w.Server.Expire(t, cb.SessionID())
	o.shows(t, "vacant")
	late.shows(t, "vacant")
	require.Equal(t, "vacant, led by a: 1, led by a: 2, vacant, led by b: 3, vacant", tell(o.all()...))
	require.Equal(t, "led by a: 2, vacant, led by b: 3, vacant", tell(late.all()...))
}

// testObserveUngranted has entries that are first in line and lead nothing.
func testObserveUngranted(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	cb, b := candidate(t, w, "b")
	o := observe(t, b)
	o.shows(t, "vacant")
	m, err := ca.Mutex(name, nil)
	require.NoError(t, err)
	hold, err := m.Lock(suite.Within(t))
	require.NoError(t, err)
	require.NoError(t, hold.Publish(suite.Within(t), map[string]any{"lead": map[string]string{"term": "1", "value": "no"}}))
	link := w.Server.Link(t)
	stalled := elections(t, w.Client(t, recipetest.Options{Link: link, Label: "stalled"}), nil)
	campaign := campaignAside(suite.Within(t), stalled, "stalled")
	suite.Queued(t, cb, name, 2)
	link.StallBoth() // its entry will be first, and it can't learn of that
	require.NoError(t, hold.Unlock(suite.Within(t)))
	suite.Queued(t, cb, name, 1)
	_, err = a.Leader(suite.Within(t))
	require.ErrorIs(t, err, election.ErrNoLeader)
	require.Equal(t, "vacant", tell(o.all()...))
	link.Resume()
	require.NoError(t, campaign.wait(t).err)
	o.shows(t, "led by stalled: stalled")
	require.Equal(t, "vacant, led by stalled: stalled", tell(o.all()...))
	resign(t, campaign.lead)
	o.shows(t, "vacant")
}

// testObserveThroughCut changes leaders while observers can't hear of it: what they
// show once the service is reached is what is.
func testObserveThroughCut(t *testing.T, w *suite.World) {
	link := w.Server.Link(t)
	_, a := candidate(t, w, "a")
	_, b := candidate(t, w, "b")
	o := observe(t, elections(t, w.Client(t, recipetest.Options{Link: link}), nil))
	last := ""
	for i, e := range []*election.Election{a, b, a} {
		lead := elect(t, e, fmt.Sprint(i))
		leader, err := e.Leader(suite.Within(t))
		require.NoError(t, err)
		last = tell(election.View{State: election.Led, Leader: leader})
		o.shows(t, last)
		link.StallReplies()
		require.NoError(t, lead.Proclaim(suite.Within(t), "unheard of"))
		resign(t, lead)
		between := elect(t, e, "between")
		link.Cut()
		resign(t, between)
		link.Resume()
		if i == 2 {
			break
		}
		o.shows(t, "vacant")
	}
	o.shows(t, "vacant")
	var term uint64
	for i, view := range o.all() {
		if view.State != election.Led {
			continue
		}
		require.GreaterOrEqual(t, view.Leader.Term, term, "a leader of the past in %s", tell(o.all()...))
		if view.Leader.Term > term && i > 0 {
			require.NotEqual(t, election.Led, o.all()[i-1].State, "two leaders in a row in %s", tell(o.all()...))
		}
		term = view.Leader.Term
	}
}

// testObserveManyChanges has leaders come and go faster than observers look: terms
// never go back, there is no leader between two, and the final state is shown.
func testObserveManyChanges(t *testing.T, w *suite.World) {
	const candidates, turns = 3, 8
	_, e := candidate(t, w, "")
	o := observe(t, e)
	granted := map[uint64]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range candidates {
		_, e := candidate(t, w, "")
		wg.Go(func() {
			for range turns {
				lead, err := e.Campaign(context.Background(), "")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				granted[lead.Term()] = true
				mu.Unlock()
				if err := lead.Proclaim(context.Background(), "again"); err != nil {
					t.Error(err)
				}
				if err := lead.Resign(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	last := elect(t, e, "last")
	granted[last.Term()] = true
	o.shows(t, "led by : last")
	views := o.all()
	var term uint64
	for i, view := range views {
		if view.State != election.Led {
			continue
		}
		require.True(t, granted[view.Leader.Term], "term %d was never granted", view.Leader.Term)
		if view.Leader.Term != term {
			require.Greater(t, view.Leader.Term, term)
			require.True(t, i == 0 || views[i-1].State == election.Vacant)
		}
		term = view.Leader.Term
	}
	resign(t, last)
	o.shows(t, "vacant")
	lock, err := w.Client(t, recipetest.Options{}).Lock(suite.Within(t), name)
	require.NoError(t, err)
	require.Empty(t, lock.Entries, "nothing is left")
}
