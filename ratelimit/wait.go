package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Allow is AllowN for one token.
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN takes n tokens of a key's budget if they are there. Whether they are is in the
// decision, whose zero value refuses. It asks the store, for at most Options.Timeout, when
// the tokens of this process are spent and there may be more; in mode Exact always. In
// mode Leased it may refuse although tokens are there: they are another process's, or
// this one has asked within the last period.
//
// It returns ErrInvalid if n is less than 1, ErrUnset, recipes.ErrDenied, recipes.ErrClosed,
// recipes.ErrConflict if what is stored is not a limiter's, or the context's error. That the store can't be reached is not an error: see
// Options.OnUnavailable and Decision.Degraded.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	for {
		b, err := l.bucket(key)
		if err != nil {
			return Decision{}, err
		}
		if n < 1 {
			return Decision{}, invalid("n", fmt.Sprintf("is %d, less than 1", n))
		}
		if left, now, ok := b.spend(n); ok {
			return b.view.Load().decision(true, left, now), nil
		}
		if d, err := b.short(ctx, n); !errors.Is(err, errRetired) {
			return d, err
		}
	}
}

// Wait is WaitN for one token.
func (l *Limiter) Wait(ctx context.Context, key string) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN waits until n tokens are there and takes them. Who waits in one process is served in
// order, and before calls to AllowN. While the store can't be reached, Options.OnUnavailable
// decides; Closed waits. Errors are those of AllowN, and ErrInvalid if n is more than can
// ever be there; when the context ends nothing is taken.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) (Decision, error) {
	for {
		r, err := l.ReserveN(ctx, key, n)
		if err != nil {
			return Decision{}, err
		}
		d, err := r.Wait(ctx)
		r.Cancel() // which does nothing after Wait has returned nil
		if !errors.Is(err, errRetired) {
			return d, err
		}
	}
}

// Reserve is ReserveN for one token.
func (l *Limiter) Reserve(ctx context.Context, key string) (*Reservation, error) {
	return l.ReserveN(ctx, key, 1)
}

// ReserveN takes n tokens, now or as soon as they are there, in order. The caller then
// calls Wait, or waits for Ready; or Cancel. Errors are those of WaitN.
func (l *Limiter) ReserveN(ctx context.Context, key string, n int64) (*Reservation, error) {
	if n < 1 {
		return nil, invalid("n", fmt.Sprintf("is %d, less than 1", n))
	}
	for {
		b, err := l.bucket(key)
		if err != nil {
			return nil, err
		}
		r, err := b.reserve(ctx, n)
		if !errors.Is(err, errRetired) {
			return r, err
		}
	}
}

// meetFirst finds out what the limit is.
func (b *bucket) meetFirst(ctx context.Context, n int64) error {
	if err := b.failing(); err != nil {
		return err
	}
	b.l.tendToIt()
	f := b.fetch(n)
	timer := time.NewTimer(b.l.opts.Timeout)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C: // it is not known yet
		return nil
	case <-ctx.Done():
		return fmt.Errorf("limiter %q: %w", b.name, context.Cause(ctx))
	}
	if f.err != nil && !passing(f.err) {
		return f.err
	}
	return nil
}

// A Reservation is a claim on tokens. Ready is closed when they are there; they are spent when
// Wait has returned nil, and can be given back until then. All methods may be
// called at the same time.
type Reservation struct {
	b     *bucket
	n     int64
	ready chan struct{} // closed when granted or err is set

	granted  bool   // with all below, under b.mu
	over     bool   // waited for, or cancelled
	voids    uint64 // of the bucket then
	degraded bool
	err      error
}

// reserve takes tokens that are here, or waits in line for some.
func (b *bucket) reserve(ctx context.Context, n int64) (*Reservation, error) {
	if v := b.view.Load(); !v.alive || n > v.config.Limit() {
		if err := b.meetFirst(ctx, n); err != nil {
			return nil, err
		}
	}
	if v := b.view.Load(); v.alive && n > v.config.Limit() {
		return nil, tooMany(n, v)
	}
	r := &Reservation{b: b, n: n, ready: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil, b.over()
	}
	b.asked.Store(b.l.now())
	b.expireLocked(b.l.now())
	if err := b.failing(); err != nil && (len(b.queue) > 0 || b.avail.Load() < n) {
		return nil, err
	}
	b.queue = append(b.queue, r)
	b.waiting.Add(n)
	b.serve()
	b.schedule()
	if b.avail.Load() < b.low.Load() && b.l.now() >= b.next.Load() {
		b.fetchLocked(0)
	}
	b.l.tendToIt()
	return r, nil
}

func tooMany(n int64, v *view) error {
	return invalid("n", fmt.Sprintf("is %d, and there are never more than %d", n, v.config.Limit()))
}

// serve gives who is in line what is here. Called with the mutex.
func (b *bucket) serve() {
	b.expireLocked(b.l.now())
	for len(b.queue) > 0 {
		r := b.queue[0]
		have := b.avail.Load()
		v := b.view.Load()
		switch {
		case v.alive && r.n > v.config.Limit():
			r.finish(tooMany(r.n, v))
			b.queue = b.queue[1:]
			b.waiting.Add(-r.n)
			continue
		case have >= r.n && b.avail.CompareAndSwap(have, have-r.n):
			b.held += r.n
			r.voids = b.voids
		case have >= r.n:
			continue
		case b.degraded.Load() && b.admitAlone(r.n):
			r.degraded = true
			b.extra.Add(r.n)
		default:
			return
		}
		b.queue = b.queue[1:]
		b.waiting.Add(-r.n)
		r.granted = true
		close(r.ready)
	}
}

// finish ends a reservation that can't be granted. Called with the mutex.
func (r *Reservation) finish(err error) {
	r.err, r.over = err, true
	close(r.ready)
}

// Ready is closed when the tokens are there, or never will be.
func (r *Reservation) Ready() <-chan struct{} {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.ready
}

// Delay is an estimate of how long it takes until the tokens are there; 0 if they are.
func (r *Reservation) Delay() time.Duration {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.granted || r.over {
		return 0
	}
	ahead := int64(0)
	for _, o := range b.queue {
		if ahead += o.n; o == r {
			break
		}
	}
	v := b.view.Load()
	wait := max(time.Duration(b.next.Load()-b.l.now()), time.Millisecond)
	if v.share > 0 {
		wait = max(wait, time.Duration(float64(ahead-b.avail.Load())/v.share*float64(time.Second)))
	}
	return wait
}

// Wait waits until the tokens are there. When it returns nil they are spent. If they were
// there and are void by now, it waits for others, as the first in line. When the context
// ends first, the claim stands: call Cancel, or Wait again.
func (r *Reservation) Wait(ctx context.Context) (Decision, error) {
	for {
		ready := r.Ready()
		select {
		case <-ready:
		case <-ctx.Done():
			select {
			case <-ready: // both
			default:
				return Decision{}, fmt.Errorf("limiter %q: waiting for %d tokens: %w", r.b.name, r.n, context.Cause(ctx))
			}
		}
		if d, done, err := r.take(); done {
			return d, err
		}
	}
}

// take spends the tokens of a reservation that is ready. It returns false if they are void.
func (r *Reservation) take() (Decision, bool, error) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.err != nil {
		return Decision{}, true, r.err
	}
	now := b.l.now()
	b.expireLocked(now)
	if !r.over && !r.degraded && r.voids != b.voids {
		if b.ended {
			return Decision{}, true, b.over()
		}
		r.granted, r.ready = false, make(chan struct{})
		b.queue = slices.Insert(slices.Clone(b.queue), 0, r)
		b.waiting.Add(r.n)
		b.serve()
		b.schedule()
		return Decision{}, false, nil
	}
	if r.settle() {
		b.spentAt.Store(max(b.spentAt.Load(), now))
	}
	d := b.view.Load().decision(true, b.avail.Load(), now)
	d.Degraded = r.degraded
	return d, true, nil
}

// settle ends a reservation whose tokens are there, and reports whether they were this
// process's until now. Called with the mutex.
func (r *Reservation) settle() bool {
	if r.over || !r.granted {
		return false
	}
	r.over = true
	if r.degraded || r.voids != r.b.voids {
		return false
	}
	r.b.held = max(r.b.held-r.n, 0)
	return true
}

// Cancel gives the tokens back, if Wait has not returned nil: all of them, for this process
// to use, or none if they are void by now. Further calls do nothing.
func (r *Reservation) Cancel() {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expireLocked(b.l.now())
	if i := slices.Index(b.queue, r); i >= 0 {
		b.queue = slices.Delete(slices.Clone(b.queue), i, i+1)
		b.waiting.Add(-r.n)
		r.finish(fmt.Errorf("limiter %q: the reservation was cancelled", b.name))
		b.serve() // what is here may be enough for the next
		return
	}
	if r.settle() {
		b.avail.Add(r.n)
		b.serve()
	}
}
