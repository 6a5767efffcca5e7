package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// A service is what contenders work on: one server or a cluster.
type service interface {
	// addrs are the members' addresses, host:port each.
	addrs() []string
	// counts are what the service has done so far.
	counts(ctx context.Context) ([]report.Count, error)
	// sum adds up metrics of all members: the values of the lines that begin so.
	sum(ctx context.Context, metrics ...string) (float64, error)
	// versions are of the servers, and of the peers that work on them.
	versions(ctx context.Context) ([]report.Fact, error)
	close() error
}

// settled returns a service's counts as soon as they don't change any more:
// servers answer before they count.
func settled(ctx context.Context, s service) ([]report.Count, error) {
	const pause, limit = 20 * time.Millisecond, 10 * time.Second
	deadline := time.Now().Add(limit)
	last, err := s.counts(ctx)
	for err == nil {
		time.Sleep(pause)
		var now []report.Count
		if now, err = s.counts(ctx); err != nil {
			break
		}
		if slices.Equal(last, now) {
			return now, nil
		}
		if last = now; time.Now().After(deadline) {
			return nil, fmt.Errorf("the servers are still busy after %v", limit)
		}
	}
	return nil, err
}
