//go:build linux

package worker

import (
	"context"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/recipes"
)

// latchCount is what the latches of a run count from: more than there are workers, so that
// each counts several times.
const latchCount = 6

// A barrier is set for so long that some come while it is.
const (
	shortestSet = 100 * time.Millisecond
	longestSet  = 600 * time.Millisecond
)

// keepBarrier is a round of someone who sets a barrier, and lifts it after a while, whoever
// has set it.
func (l *loop) keepBarrier(ctx context.Context, b *recipes.Barrier) {
	l.pause(ctx, shortestRest, longestRest)
	e := history.Event{Kind: history.Barrier, Name: b.Name(), ID: history.Set}
	l.operation(ctx, e, func(ctx context.Context) (int64, error) { return 0, b.Set(ctx) })
	l.pause(ctx, shortestSet, longestSet)
	e.ID = history.Lift
	l.operation(ctx, e, func(ctx context.Context) (int64, error) { return 0, b.Lift(ctx) })
}

// pass is a round of someone who waits until a barrier is not set.
func (l *loop) pass(ctx context.Context, b *recipes.Barrier) {
	l.pause(ctx, shortestRest, longestRest)
	e := history.Event{Kind: history.Passer, Name: b.Name()}
	l.operation(ctx, e, func(ctx context.Context) (int64, error) { return 0, b.Wait(ctx) })
}

// countDown is a round of someone who counts a latch down, and removes it once it is open.
func (l *loop) countDown(ctx context.Context, latch *recipes.Latch) {
	l.pause(ctx, shortestRest, longestRest)
	e := history.Event{Kind: history.Latch, Name: latch.Name(), ID: history.CountDown}
	left, counted := l.operation(ctx, e, func(ctx context.Context) (int64, error) {
		left, err := latch.CountDown(ctx)
		return int64(left), err
	})
	if counted && left == 0 {
		l.pause(ctx, shortestRest, longestRest)
		e.ID = history.Remove
		l.operation(ctx, e, func(ctx context.Context) (int64, error) { return 0, latch.Remove(ctx) })
	}
}

// awaitLatch is a round of someone who waits until a latch is open.
func (l *loop) awaitLatch(ctx context.Context, latch *recipes.Latch) {
	l.pause(ctx, shortestRest, longestRest)
	e := history.Event{Kind: history.Awaiter, Name: latch.Name()}
	l.operation(ctx, e, func(ctx context.Context) (int64, error) { return 0, latch.Wait(ctx) })
}
