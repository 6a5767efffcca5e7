package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// List implements driver.Leaser. It shows the leases that may have a majority, as far as
// the nodes that answer tell; a majority of them must.
func (r *redlock) List(ctx context.Context, scope driver.Scope) ([]driver.Lease, error) {
	type found struct {
		leases []driver.Lease
		err    error
	}
	answers := make(chan found, len(r.nodes))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, driver.ErrClosed
	}
	for _, n := range r.nodes {
		r.wg.Go(func() {
			leases, err := n.list(ctx, scope)
			answers <- found{leases, err}
		})
	}
	r.mu.Unlock()
	type key struct{ name, id string }
	count := map[key]int{}
	best := map[string]driver.Lease{}
	seen := map[key]driver.Lease{}
	replied, failed := 0, 0
	var errs error
	enough := time.NewTimer(lookBound)
	defer enough.Stop()
	for waiting := true; waiting && replied+failed < len(r.nodes); {
		select {
		case <-enough.C:
			waiting = false
		case answer := <-answers:
			if answer.err != nil {
				failed++
				errs = errors.Join(errs, answer.err)
				continue
			}
			if replied++; replied == r.quorum {
				enough.Reset(restBound)
			}
			for _, l := range answer.leases {
				k := key{l.Name, l.ID}
				count[k]++
				if before, ok := seen[k]; !ok || before.Left < l.Left {
					seen[k] = l
				}
			}
		}
	}
	if replied < r.quorum {
		return nil, errors.Join(fmt.Errorf("%d of %d nodes did not answer", len(r.nodes)-replied, len(r.nodes)), errs)
	}
	for k, n := range count {
		other, ok := best[k.name]
		if n+len(r.nodes)-replied >= r.quorum && (!ok || n > count[key{k.name, other.ID}]) {
			best[k.name] = seen[k]
		}
	}
	leases := make([]driver.Lease, 0, len(best))
	for _, l := range best {
		leases = append(leases, l)
	}
	return leases, nil
}
