package ratelimit

import (
	"math"
	"time"
)

// decaying is the time in which what was a process's part goes over to an even part, but
// for a third.
const decaying = 10 * time.Second

// A localRate is a bucket of this process's own, for when the store is away.
type localRate struct {
	since  int64 // moment when the store was missed first
	filled int64
	tokens float64
}

// without decides without the store.
func (b *bucket) without(n int64) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.withoutLocked(n)
}

// withoutLocked is without for who has the mutex.
func (b *bucket) withoutLocked(n int64) Decision {
	ok := (len(b.queue) == 0 || b.l.opts.OnUnavailable == Open) && b.admitAlone(n) // who waits comes first
	d := b.view.Load().decision(ok, 0, b.l.now())
	d.Degraded = true
	if ok {
		b.extra.Add(n)
		return d
	}
	b.denied.Add(n)
	d.Remaining = 0
	d.RetryAfter = max(time.Duration(b.next.Load()-b.l.now()), time.Millisecond)
	return d
}

// admitAlone decides by Options.OnUnavailable. Called with the mutex.
func (b *bucket) admitAlone(n int64) bool {
	v, now := b.view.Load(), b.l.now()
	switch {
	case b.l.opts.OnUnavailable == Open:
		return true
	case b.l.opts.OnUnavailable == Closed, !v.alive || v.even == 0:
		return false
	}
	r := &b.local
	if r.since == 0 {
		r.since, r.filled = now, now
	}
	away := time.Duration(now - r.since).Seconds()
	rate := v.even + (v.share-v.even)*math.Exp(-away/decaying.Seconds())
	// A second's tokens are kept, and what a larger call needs, while it asks again.
	most := max(rate, 1, float64(min(n, v.config.Limit())))
	r.tokens = max(r.tokens, min(r.tokens+rate*time.Duration(now-r.filled).Seconds(), most))
	r.filled = now
	if r.tokens < float64(n) {
		return false
	}
	r.tokens -= float64(n)
	return true
}
