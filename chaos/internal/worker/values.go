//go:build linux

package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/recipes"
)

// A round that is short is one of few: what others do is not to be slower for it.
const (
	shortestRest = 50 * time.Millisecond
	longestRest  = 300 * time.Millisecond
)

// count is a round with a counter.
func (l *loop) count(ctx context.Context, c *recipes.Counter) {
	l.pause(ctx, shortestRest, longestRest)
	n := 1 + l.rand.IntN(9)
	e := history.Event{Kind: history.Counter, Name: c.Name(), N: n}
	l.operation(ctx, e, func(ctx context.Context) (int64, error) { return c.Add(ctx, int64(n)) })
}

// operation is a round of something that is done at once, or not at all.
func (l *loop) operation(ctx context.Context, e history.Event, do func(ctx context.Context) (value int64, err error)) (int64, bool) {
	e, waiting, cancel := l.begin(ctx, e)
	defer cancel()
	value, err := do(waiting)
	if err != nil {
		l.failed(ctx, e, err)
		return 0, false
	}
	e.What, e.Value = history.Granted, value
	l.log.Add(e)
	return value, true
}

// The keys of a Once are the same for all workers at the same time, and are kept for far
// longer than a call takes.
const (
	onceEvery = 500 * time.Millisecond
	onceKeep  = 200
)

// doOnce is a round with an operation that is to run once. Its result is who ran it.
func (l *loop) doOnce(ctx context.Context, once *recipes.Once[string]) {
	l.pause(ctx, shortestRest, longestRest)
	key := fmt.Sprint(int64(history.Now() / onceEvery))
	e, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Once, Name: once.Name()})
	defer cancel()
	result, err := once.Do(waiting, key, func(ctx context.Context, _ *recipes.Hold) (string, error) {
		l.work(ctx)
		return fmt.Sprintf("%s/%d", l.config.Proc, e.Op), nil
	})
	if err != nil {
		l.failed(ctx, e, err)
		return
	}
	e.What, e.ID = history.Granted, key+" "+result
	l.log.Add(e)
}
