package redis

import (
	"errors"
	"fmt"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A tally counts what nodes say to an attempt.
type tally struct {
	nodes, quorum int
	asked         int // of the nodes, so far
	yes, taken    int
	failed        int                     // that said nothing
	own           driver.Lease            // as of a node that said yes
	seen          map[string]driver.Lease // other holders by ID
	count         map[string]int          // of nodes that say so
	err           error                   // of a node that failed
}

func (t *tally) add(a answer) {
	switch {
	case a.err == nil:
		t.yes++
		t.own = a.lease
	case errors.Is(a.err, driver.ErrTaken):
		t.taken++
		t.count[a.lease.ID]++
		if before, ok := t.seen[a.lease.ID]; !ok || before.Left < a.lease.Left {
			t.seen[a.lease.ID] = a.lease
		}
	default:
		t.failed++
		t.err = a.err
	}
}

// decided reports whether those who were asked and have not answered can't change the
// outcome.
func (t *tally) decided() bool {
	return t.yes >= t.quorum || t.nodes-t.taken < t.quorum || t.yes+t.taken+t.failed == t.asked
}

// outcome is the lease, or why there is none. Who holds it is told if they may have a
// majority, and don't just try as well.
func (t *tally) outcome(want driver.Lease) (driver.Lease, error) {
	if t.yes >= t.quorum {
		return t.own, nil
	}
	unknown := t.nodes - t.yes - t.taken
	holder := driver.Lease{Name: want.Name}
	for id, n := range t.count {
		if n+unknown >= t.quorum && n >= t.count[holder.ID] {
			holder = t.seen[id]
		}
	}
	if holder.ID != "" || t.nodes-t.taken < t.quorum {
		return holder, driver.ErrTaken
	}
	if t.err == nil { // contenders have split the nodes
		return holder, driver.ErrTaken
	}
	return want, fmt.Errorf("%d of %d nodes did not answer: %w", t.failed, t.nodes, t.err)
}
