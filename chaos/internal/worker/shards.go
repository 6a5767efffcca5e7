//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/recipes"
)

// A partition has so many shards that hardly a member gets none. Members come and go.
const (
	shards        = 12
	settle        = 200 * time.Millisecond
	shortestStay  = 2 * time.Second
	longestStay   = 5 * time.Second
	longestPeriod = 300 * time.Millisecond // between two writes for a shard
)

// join is a round of a member of a partition: it works on the shards that it is given, and
// leaves after some time.
func (l *loop) join(ctx context.Context, p *recipes.Partition) {
	stay := shortestStay + time.Duration(l.rand.Int64N(int64(longestStay-shortestStay)))
	staying, cancel := context.WithTimeout(ctx, stay)
	defer cancel()
	joined := history.Now()
	err := p.Run(staying, func(ctx context.Context, shard *recipes.Shard) error {
		l.serve(ctx, joined, fmt.Sprintf("%s/%d", p.Name(), shard.Index()), shard.Token())
		return nil
	})
	if !errors.Is(err, context.Cause(staying)) { // it says that it returns what trying again can't help
		l.log.Add(history.Event{What: history.Wrong, Name: "shards", Err: fmt.Sprintf("%s left partition %q by itself: %v", l.config.Proc, p.Name(), err)})
	}
}

// serve works on a shard until that is to be given up or is lost.
func (l *loop) serve(ctx context.Context, joined time.Duration, name string, token uint64) {
	e := history.Event{T: joined, Loop: l.name, Op: l.ops.Add(1), What: history.Called, Kind: history.Shard, Name: name, Token: token}
	own := &loop{process: l.process, name: l.name, rand: rand.New(rand.NewPCG(l.config.Seed, uint64(e.Op)))}
	l.log.Add(e)
	e.T = 0
	defer func() {
		e.What = history.Release
		l.log.Add(e)
	}()
	defer own.granted(ctx, e)()
	for ctx.Err() == nil {
		own.fencedWrite(ctx, e)
		own.pause(ctx, longestPeriod/10, longestPeriod)
	}
}
