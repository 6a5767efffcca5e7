package election

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockctl/lockctl/recipes"
)

// A State says what a View shows.
type State int

// The states of an election, as an observer sees it.
const (
	// Led: Leader leads.
	Led State = iota + 1
	// Vacant: nobody leads. Candidates may be waiting.
	Vacant
	// Unknown: the service can't be reached, so who leads is not known. The observer
	// goes on trying.
	Unknown
)

// String implements fmt.Stringer.
func (s State) String() string {
	switch s {
	case Led:
		return "led"
	case Vacant:
		return "vacant"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// A View is an election as an observer sees it.
type View struct {
	State  State
	Leader Leader // when Led
	Err    error  // when Unknown: what happened
}

// Observe yields the election as it is, then each change: a new leader, a new value
// of the same leader, no leader, or that it is not known. Between two leaders it
// yields Vacant, if only for a moment. A consumer that is slower than the changes
// gets the latest state and not every one in between.
//
// The sequence ends when the context does, without an error, when the consumer
// breaks off, or with an error when trying again cannot help: ErrDenied or
// ErrClosed. It resumes by itself after the service could not be reached. It needs
// no session, and costs the service one watch on etcd, and one for the line and
// each candidate on ZooKeeper.
func (e *Election) Observe(ctx context.Context) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		o := observer{yield: yield}
		now := View{State: Vacant}
		filter := recipes.Filter{Kinds: []recipes.Kind{recipes.KindElection}, Name: e.name}
		live := false // now is what the service says
		for change, err := range e.client.Watch(ctx, filter) {
			if err != nil {
				yield(View{}, fmt.Errorf("election %q: %w", e.name, err))
				return
			}
			switch change.Kind {
			case recipes.ObjectChanged:
				now = View{State: Vacant}
				if leader, ok := LeaderOf(change.Object); ok {
					now = View{State: Led, Leader: leader}
				}
			case recipes.WatchSynced:
				live = true
			case recipes.WatchLost:
				live = false
				if !o.show(View{State: Unknown, Err: change.Err}) {
					return
				}
			}
			if live && !o.show(now) {
				return
			}
		}
	}
}

// An observer yields views that differ from the one before.
type observer struct {
	yield func(View, error) bool
	last  View
}

// show reports false when the consumer wants no more.
func (o *observer) show(v View) bool {
	last := o.last
	if v.State == last.State && v.Leader == last.Leader {
		return true
	}
	o.last = v
	if v.State == Led && last.State == Led && v.Leader.Term != last.Leader.Term && !o.yield(View{State: Vacant}, nil) {
		return false
	}
	return o.yield(v, nil)
}
