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
	e, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Counter, Name: c.Name(), N: n})
	defer cancel()
	value, err := c.Add(waiting, int64(n))
	if err != nil {
		l.failed(ctx, e, err)
		return
	}
	e.What, e.Value = history.Granted, value
	l.log.Add(e)
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
