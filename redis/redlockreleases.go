package redis

import (
	"context"
	"errors"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// settleTime is how long the nodes that are told of a release last may lag behind the
// first.
const settleTime = 5 * time.Millisecond

// A sign is what happens to one node's watch.
type sign int

const (
	signReady sign = iota
	signTold       // of a release
	signEnded      // or it did not begin
)

var errTooFewListen = errors.New("too few nodes can tell of releases")

// Releases implements driver.ReleaseWatcher. It listens on so many nodes that each
// majority has one of them, and tells when a majority has told, or soon after the first.
func (r *redlock) Releases(ctx context.Context, name string) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(r.ctx, cancel)
	signs := make(chan sign)
	send := func(s sign) {
		select {
		case signs <- s:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		cancel()
		return nil, driver.ErrClosed
	}
	for _, n := range r.nodes {
		r.wg.Go(func() {
			defer send(signEnded)
			releases, err := n.listener.watch(ctx, n.layout.channel(name))
			if err != nil {
				return
			}
			send(signReady)
			for range releases {
				send(signTold)
			}
		})
	}
	out, ready := make(chan struct{}, 1), make(chan struct{})
	r.wg.Go(func() {
		defer cancel()
		defer close(out)
		r.merge(ctx, signs, out, ready)
	})
	r.mu.Unlock()
	select {
	case <-ready:
		return out, nil
	case <-ctx.Done():
		return nil, errors.Join(errTooFewListen, ctx.Err())
	}
}

// merge makes one watch of the nodes' until there are too few.
func (r *redlock) merge(ctx context.Context, signs <-chan sign, out, ready chan struct{}) {
	needed := len(r.nodes) - r.quorum + 1
	listening, ended, told := 0, 0, 0
	settled := time.NewTimer(0)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-settled.C:
			if told > 0 {
				told = 0
				wake(out)
			}
		case s := <-signs:
			switch s {
			case signReady:
				if listening++; listening == needed {
					close(ready)
				}
			case signEnded:
				if ended++; len(r.nodes)-ended < needed {
					return
				}
			case signTold:
				if told++; told == 1 {
					settled.Reset(settleTime)
				}
				if told >= r.quorum {
					told = 0
					wake(out)
				}
			}
		}
	}
}
