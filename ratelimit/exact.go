package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A call is a decision that waits for a commit, in mode Exact.
type call struct {
	n        int64
	done     chan struct{} // closed when the rest is set
	decision Decision
	err      error
}

// errLeased says that the mode is not Exact any more.
var errLeased = errors.New("decisions are leased now")

func (c *call) finish(err error) {
	c.err = err
	close(c.done)
}

// decide has the store decide. Calls that wait at the same time share a commit.
func (b *bucket) decide(ctx context.Context, n int64) (Decision, error) {
	c := &call{n: n, done: make(chan struct{})}
	b.mu.Lock()
	if b.ended {
		defer b.mu.Unlock()
		return Decision{}, b.over()
	}
	if b.degraded.Load() { // by now
		defer b.mu.Unlock()
		return b.withoutLocked(n), nil
	}
	if len(b.queue) > 0 { // who waits comes first
		defer b.mu.Unlock()
		return b.refuse(n), nil
	}
	b.calls = append(b.calls, c)
	b.fetchLocked(0)
	b.mu.Unlock()
	b.l.tendToIt()
	select {
	case <-c.done:
		return c.decision, c.err
	case <-ctx.Done(): // the tokens may be spent
		return Decision{}, fmt.Errorf("limiter %q: %w", b.name, context.Cause(ctx))
	}
}

// decideAll decides the calls that wait. Where nothing is admitted, nothing is written, but
// what it goes by has just been read.
func (b *bucket) decideAll(ctx context.Context, s *record, read bool) (done bool, err error) {
	b.mu.Lock()
	moment := b.present()
	b.expireLocked(moment)
	b.putBack(0)
	calls := b.calls
	t := b.report(moment)
	for _, c := range calls {
		t.calls = append(t.calls, c.n)
	}
	b.mu.Unlock()
	t.exact = true

	trial := s.clone()
	g := trial.apply(t, &b.clock, moment)
	if b.touch != nil && !g.admits() && !b.hopeful(s, t, moment) {
		b.touch = nil
	}
	if !g.admits() && t.back == 0 && b.touch == nil && !b.bank && b.known.Version != 0 && s.Config == b.known.Value.Config {
		if !read && b.lonely {
			return false, nil
		}
		b.learn(trial, g.share, moment)
		for _, c := range calls {
			b.denied.Add(c.n)
		}
		b.answer(calls, g, trial, moment)
		return true, nil
	}
	touching := b.touch != nil && len(calls) > 0 && !g.admits()
	if err := b.write(ctx, s, t, moment); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.sent != nil && !touching {
			b.sent.calls = calls // if it was written, they are decided
		}
		return true, err
	}
	b.bank = touching
	if !touching { // otherwise the service tells how long nobody has written: decide again by that
		b.answer(calls, g, s, moment)
	}
	return true, nil
}

// admits reports whether a call is admitted.
func (g grant) admits() bool { return slices.Contains(g.calls, true) }

// hopeful reports whether by the wall clock there may be enough, so that it is worth a write
// to learn the time from the service. A wall clock that has gone back says nothing.
func (b *bucket) hopeful(s *record, t take, moment int64) bool {
	passed := b.l.opts.Clock().Sub(b.touch.At)
	if passed < 0 {
		return true
	}
	c := b.clock
	c.credit(&b.touch.Value, int64(min(passed, mostPer)), moment)
	return s.clone().apply(t, &c, moment).admits()
}

// answer tells calls what was decided. Calls that have come since stay.
func (b *bucket) answer(calls []*call, g grant, s *record, now int64) {
	v := b.view.Load()
	for i, c := range calls {
		c.decision = v.decision(g.calls[i], 0, now)
		if !c.decision.OK {
			c.decision.RetryAfter = max(s.comes(c.n), time.Millisecond)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.calls = b.calls[len(calls):]
		for _, c := range calls {
			close(c.done)
		}
	}
}
