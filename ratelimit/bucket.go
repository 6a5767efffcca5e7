package ratelimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// A bucket is what this process has of one key's tokens, and knows of the rest.
type bucket struct {
	l    *Limiter
	key  string
	name string
	id   string // of a process in the record; a key that was forgotten is another one's when it is used again
	reg  *recipes.Register[record]

	avail    atomic.Int64 // tokens that can be spent until stop
	stop     atomic.Int64 // moment; written before what it is for is added to avail
	stopWall atomic.Int64 // the same by the wall clock, for machines that were suspended
	low      atomic.Int64 // with less, more are fetched
	next     atomic.Int64 // moment before which no more are fetched
	busy     atomic.Bool  // a flight is under way
	waiting  atomic.Int64 // tokens that reservations wait for
	spentAt  atomic.Int64 // moment when tokens were spent last, to a millisecond
	asked    atomic.Int64 // moment when there were not enough last
	denied   atomic.Int64 // tokens, since that was reported
	extra    atomic.Int64 // tokens that were admitted without the store, since that was reported
	view     atomic.Pointer[view]
	degraded atomic.Bool           // the last flight did not reach the store
	failed   atomic.Pointer[error] // of the last flight, if it is what decisions return

	mu      sync.Mutex
	flight  *flight
	ended   bool
	queue   []*Reservation
	calls   []*call
	need    int64  // of a decision that waits for the flight
	held    int64  // tokens of reservations that can be cancelled still
	paid    int64  // of the tokens here, those that the record counts as spent; they are spent last
	voids   uint64 // how often those became void
	yield   bool   // what is here goes back with the next write
	errand  errand
	timer   *time.Timer
	pruned  bool // the register was removed, or is not to be, since the last use
	backoff time.Duration
	grace   time.Duration // what a flight may take beyond Options.Timeout; 0 unless degraded
	local   localRate

	keeper
}

// An errand is something else than fetching tokens that the next flight is for.
type errand int

const (
	fetchTokens errand = iota
	refit              // keep no more than is due by a new configuration
	goAway             // give all back
	prune              // remove what says nothing any more
)

// A flight is a round of requests to the store, for all who wait for it.
type flight struct {
	done chan struct{}
	err  error
}

// mostGrace is what a flight may take, beyond Options.Timeout, to a store that is slow.
const mostGrace = time.Second

// spentStep is how exact bucket.spentAt is.
const spentStep = int64(time.Millisecond)

func (l *Limiter) newBucket(key string) (*bucket, error) {
	b := &bucket{l: l, key: key, name: registerName(l.name, key), id: rand.Text()[:12]}
	reg, err := register(l.client, b.name)
	if err != nil {
		return nil, err
	}
	b.reg = reg
	b.view.Store(&view{config: l.opts.Config})
	return b, nil
}

// spend takes tokens that are here. It is all that most decisions do: no lock, no
// allocation, no request. It returns what is left, and the moment.
func (b *bucket) spend(n int64) (left, now int64, ok bool) {
	for {
		stop := b.stop.Load() // before avail, so that what is taken lasts at least until then
		have := b.avail.Load()
		if have < n || b.waiting.Load() > 0 {
			return have, b.l.now(), false
		}
		t := time.Now()
		now := int64(t.Sub(b.l.start))
		if now-b.spentAt.Load() > spentStep {
			b.spentAt.Store(now) // before the tokens are gone: a report goes by what is left, and by this
		}
		if !b.avail.CompareAndSwap(have, have-n) {
			continue
		}
		if now < stop && t.UnixNano() < b.stopWall.Load() {
			if left := have - n; left < b.low.Load() && now >= b.next.Load() && !b.busy.Load() {
				b.fetch(0)
			}
			return have - n, now, true
		}
		b.void(stop)
	}
}

// used is when the bucket was used last.
func (b *bucket) used() int64 { return max(b.spentAt.Load(), b.asked.Load()) }

// void drops what can't be spent any more.
func (b *bucket) void(stop int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop.Load() == stop {
		b.drop()
	}
}

// drop drops all tokens, which are void. Called with the mutex.
func (b *bucket) drop() {
	b.avail.Store(0)
	b.held, b.giving, b.paid = 0, 0, 0
	b.voids++
}

// fetch begins a flight, or joins the one that is under way. need is what the caller is
// short of.
func (b *bucket) fetch(need int64) *flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fetchLocked(need)
}

func (b *bucket) fetchLocked(need int64) *flight {
	if b.flight != nil {
		return b.flight
	}
	f := &flight{done: make(chan struct{})}
	if b.need == 0 {
		b.need = need
	}
	if b.ended || !b.l.run(func() { b.fly(f) }) {
		f.err = b.over()
		close(f.done)
		return f
	}
	b.flight = f
	b.busy.Store(true)
	return f
}

// fly carries out a flight, and has what waits go on.
func (b *bucket) fly(f *flight) {
	b.mu.Lock()
	timeout := b.l.opts.Timeout + b.grace
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.l.ctx, timeout)
	defer cancel()
	err := b.round(ctx)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.flight, b.need = nil, 0
	b.busy.Store(false)
	f.err = err
	close(f.done)
	switch {
	case err == nil:
		if b.view.Load().config.Mode != Exact { // any more
			for _, c := range b.calls {
				c.finish(errLeased)
			}
			b.calls = nil
		}
		b.degraded.Store(false)
		b.failed.Store(nil)
		b.backoff, b.grace = 0, 0
		b.local = localRate{}
	case b.l.ctx.Err() == nil:
		b.fail(err)
	}
	b.serve()
	b.schedule()
}

// over is the error of who comes when the bucket has ended.
func (b *bucket) over() error {
	if b.l.ctx.Err() == nil {
		return errRetired
	}
	return b.l.errClosed()
}

// errRetired says that a key was forgotten, and that a bucket has to be made anew.
var errRetired = errors.New("the key was forgotten")

// fail sees to what waits for a flight that has failed. Called with the mutex.
func (b *bucket) fail(err error) {
	calls := b.calls
	b.calls = nil
	contended := errors.Is(err, recipes.ErrConflict) && !errors.Is(err, recipes.ErrUnavailable)
	switch {
	case !passing(err):
		b.degraded.Store(false)
		b.failed.Store(&err)
		for _, r := range b.queue {
			r.finish(err)
		}
		b.queue = nil
		b.waiting.Store(0)
	case !contended:
		// Nobody who must have an answer waits for a flight any more: those to come may
		// take the time that a slow store needs.
		b.degraded.Store(true)
		b.grace = min(2*b.grace+b.l.opts.Timeout, mostGrace)
	}
	if passing(err) {
		b.failed.Store(nil)
	}
	for _, c := range calls {
		switch {
		case !passing(err):
			c.err = err
		case contended:
			c.decision = b.refuse(c.n)
		default:
			c.decision = b.withoutLocked(c.n)
		}
		close(c.done)
	}
	b.backoff = min(max(2*b.backoff, b.l.opts.Timeout), time.Second)
	b.next.Store(b.l.now() + int64(jitter(b.backoff)))
}

// failing is the error that the last flight has ended with, until the next may begin; nil if
// it was none, or one that passes.
func (b *bucket) failing() error {
	if err := b.failed.Load(); err != nil && b.l.now() < b.next.Load() {
		return *err
	}
	return nil
}

// schedule has the next flight begin by itself if someone waits for it. Called with the
// mutex.
func (b *bucket) schedule() {
	if b.ended || (len(b.queue) == 0 && len(b.calls) == 0 && b.errand == fetchTokens) || b.flight != nil {
		return
	}
	wait := time.Duration(b.next.Load() - b.l.now())
	switch {
	case !b.degraded.Load() && b.failed.Load() == nil && (len(b.calls) > 0 || b.errand != fetchTokens):
		wait = 0
	case b.degraded.Load() && b.l.opts.OnUnavailable == Decay:
		wait = min(max(wait, 0), 20*time.Millisecond)
	}
	if wait <= 0 {
		b.fetchLocked(0)
		return
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(wait, b.wake)
		return
	}
	b.timer.Reset(wait)
}

// wake is the timer's.
func (b *bucket) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended && (len(b.queue) > 0 || b.errand != fetchTokens) {
		b.fetchLocked(0)
	}
}

// send has the next flight do an errand.
func (b *bucket) send(e errand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errand = max(b.errand, e)
	b.fetchLocked(0) // if one is under way, schedule sees to it
}

// end is for Close: nothing begins any more, and all that waits ends.
func (b *bucket) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
	for _, r := range b.queue {
		r.finish(b.over())
	}
	for _, c := range b.calls {
		c.finish(b.over())
	}
	b.queue, b.calls = nil, nil
	b.waiting.Store(0)
}

// holds reports whether there may be tokens to give back.
func (b *bucket) holds() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listed || b.sent != nil || b.avail.Load() > 0
}

// endIfUnused ends a bucket in which nobody waits or has reserved anything, and reports
// whether it did. It may be called with the limiter's mutex, which who has the bucket's may wait for: so a
// bucket that is just being used stays.
func (b *bucket) endIfUnused() bool {
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	if len(b.queue) > 0 || len(b.calls) > 0 || b.held > 0 {
		return false
	}
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
	return true
}

// retire gives back what a bucket has that has ended, when its last flight is over.
func (b *bucket) retire() {
	b.mu.Lock()
	f := b.flight
	b.mu.Unlock()
	if f != nil {
		<-f.done
	}
	if b.holds() {
		_ = b.giveAllBack(b.l.ctx) // otherwise it is void when its lease is over
	}
}

// giveAllBack is for when nothing else runs for the bucket.
func (b *bucket) giveAllBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.l.opts.Timeout)
	defer cancel()
	b.mu.Lock()
	b.errand = goAway
	b.mu.Unlock()
	return b.round(ctx)
}

// short is for a decision for which not enough tokens are here.
func (b *bucket) short(ctx context.Context, n int64) (Decision, error) {
	for try := 0; ; try++ {
		v, now := b.view.Load(), b.l.now()
		b.asked.Store(now)
		failing := b.failing()
		switch {
		case b.l.ctx.Err() != nil:
			return Decision{}, b.l.errClosed()
		case failing != nil:
			return Decision{}, failing
		case v.alive && n > v.config.Limit() && now-v.seen < int64(tendEvery):
			d := v.decision(false, b.avail.Load(), now)
			d.RetryAfter = Never
			return d, nil
		case b.degraded.Load():
			if now >= b.next.Load() {
				b.fetch(n)
			}
			return b.without(n), nil
		case v.alive && v.config.Mode == Exact:
			if d, err := b.decide(ctx, n); !errors.Is(err, errLeased) {
				return d, err
			}
			continue
		case v.alive && (now < b.next.Load() || try > 1):
			return b.refuse(n), nil
		}
		b.l.tendToIt()
		f := b.fetch(n)
		select {
		case <-f.done:
		case <-ctx.Done():
			return Decision{}, fmt.Errorf("limiter %q: %w", b.name, context.Cause(ctx))
		}
		if f.err != nil && !passing(f.err) {
			return Decision{}, f.err
		}
		if left, now, ok := b.spend(n); ok {
			return b.view.Load().decision(true, left, now), nil
		}
	}
}

// errForeign says that another program uses the register.
var errForeign = errors.New("what is stored is not a limiter's")

// passing reports whether the error says that the store could not be reached in time.
func passing(err error) bool {
	if errors.Is(err, errForeign) {
		return false
	}
	return errors.Is(err, recipes.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, recipes.ErrConflict)
}

// refuse is the decision when there are not enough tokens.
func (b *bucket) refuse(n int64) Decision {
	b.denied.Add(n)
	v, now := b.view.Load(), b.l.now()
	d := v.decision(false, b.avail.Load(), now)
	d.RetryAfter = max(v.config.Rate.lasts(n-d.Remaining), time.Duration(b.next.Load()-now), time.Millisecond)
	return d
}

// jitter is about that long.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + time.Duration(float64(d)*2/5*random())
}

func wallNow() int64 { return time.Now().UnixNano() }
