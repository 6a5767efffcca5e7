package ratelimit

import (
	"context"
	"time"
)

const (
	// tendEvery is how often a limiter that is in use looks at its configuration and for
	// keys that are idle.
	tendEvery = 250 * time.Millisecond
	// idleAfter is when what is unspent is given back, at the least.
	idleAfter = time.Second
)

// tendToIt has the limiter be tended, until it is closed or nobody has used it for a while.
func (l *Limiter) tendToIt() {
	if !l.awake.Load() && l.awake.CompareAndSwap(false, true) {
		l.run(l.tend)
	}
}

// tend reads the configuration twice in a second or more, while the limiter is used, so
// that a change reaches every process within one. It gives back what is idle.
func (l *Limiter) tend() {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-l.ctx.Done():
			return
		}
		now, lately, rest := l.now(), int64(0), false
		for _, b := range l.all() {
			lately = max(lately, b.used())
			rest = b.tend(now) || rest
		}
		if now-lately < 2*int64(time.Second) {
			l.refresh()
		} else if !rest && !l.rest(lately) {
			return
		}
	}
}

// rest ends the tending, unless the limiter was used in the meantime. It reports whether it
// was.
func (l *Limiter) rest(lately int64) bool {
	l.awake.Store(false)
	for _, b := range l.all() {
		if b.used() > lately { // by someone who may have found it tended
			return l.awake.CompareAndSwap(false, true)
		}
	}
	return false
}

// refresh reads the configuration.
func (l *Limiter) refresh() {
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.Timeout)
	defer cancel()
	before := l.base.view.Load()
	if !before.alive {
		return // nobody knows it yet
	}
	snap, err := l.base.reg.Snapshot(ctx)
	if native(snap, err) != nil || snap.Version == 0 || snap.Value.Config == l.base.view.Load().config {
		return // whoever needs the store will see
	}
	l.base.see(func(v *view) { v.config = snap.Value.Config })
	for _, b := range l.all() {
		if b.holds() {
			b.next.Store(l.now())
			b.send(refit)
		}
	}
}

// tend sees to a bucket that is idle. It reports whether there will be more to do.
func (b *bucket) tend(now int64) bool {
	v := b.view.Load()
	if !v.alive {
		return false
	}
	idle := time.Duration(now - b.used())
	b.mu.Lock()
	waits, pruned := len(b.queue) > 0 || len(b.calls) > 0, b.pruned
	if idle < idleAfter {
		b.pruned = false
	}
	b.mu.Unlock()
	switch {
	case waits || (b.degraded.Load() || b.failed.Load() != nil) && idle < time.Minute:
		return true
	case b.holds():
		if idle > max(idleAfter, v.config.period()) {
			b.send(goAway)
		}
		return true
	case b.key == "" || pruned:
		return false
	case idle > idleAfter+v.whole():
		b.mu.Lock()
		b.pruned = true
		b.mu.Unlock()
		b.send(prune)
		return false
	}
	return idle < time.Hour
}

// whole is how long it takes until all tokens are there, if nobody takes any.
func (v *view) whole() time.Duration {
	if v.config.Policy == Window {
		return v.config.Rate.Per
	}
	return v.config.Rate.lasts(v.config.Limit() - v.free)
}
