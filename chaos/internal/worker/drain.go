//go:build linux

package worker

import (
	"context"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/recipes"
)

// Drain is the kind of a loop that works a queue off and ends.
const Drain = "drain"

// drainTimeout is for how long items may be nobody's, or another's.
const drainTimeout = 20 * time.Second

// drain takes items until none are left, or it gets none any more.
func (p *process) drain(ctx context.Context, name string) error {
	q, err := recipes.NewQueue[int](p.client, name, &recipes.QueueOptions{MaxAttempts: 1000})
	if err != nil {
		return err
	}
	l := newLoop(p, Loop{Kind: history.Queue, Name: name}, 0)
	for last := time.Now(); time.Since(last) < drainTimeout; {
		n, err := q.Len(ctx)
		if err != nil || n == 0 {
			return err
		}
		if l.consume(ctx, q) != 0 {
			last = time.Now()
		}
	}
	return nil // what is left is found by who looks at the service
}
