package recipes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxPasses is how often a hold is passed on: as often as its token can grow
	// without a write.
	maxPasses = 1<<handoffBits - 1
	// passTime is for how long a hold is passed on while it is not known whether
	// other processes wait.
	passTime = 20 * time.Millisecond
)

// A relay is the goroutines that use one Mutex. One of them stands in the queue of
// the service for all; the others line up behind it, and the hold is passed on
// from one to the next. So they cost the service nothing, and other processes no
// more than a bounded time.
type relay struct {
	lock   *lockable
	note   template
	retain time.Duration

	mu      sync.Mutex
	busy    bool      // someone holds the lock, or stands in the queue
	holder  *Hold     // who holds it, if someone does
	seated  bool      // the service has confirmed the place of who stands in the queue
	runners []*runner // who lines up, in order

	keeps bool        // nobody holds the lock, but it is kept for whoever comes
	kept  stint       // with keeps
	watch *relayWatch // nil while there is none
}

// A runner is a goroutine that lines up.
type runner struct {
	ctx   context.Context
	baton chan baton // has room for one
}

// A baton is what a runner gets: a hold, a place in the queue, or neither, which
// means that it is its turn to enter.
type baton struct {
	hold *Hold
	seat *seat
}

// run takes the lock for a goroutine.
func (r *relay) run(ctx context.Context) (*Hold, error) {
	hold, run := r.join(ctx)
	switch {
	case hold != nil:
		return hold, nil
	case run == nil:
		return r.enter(ctx)
	}
	var b baton
	select {
	case b = <-run.baton:
	case <-ctx.Done():
		if r.quit(run) {
			return nil, r.lateError(ctx.Err())
		}
		b = <-run.baton // it has been sent
	case <-r.lock.client.ctx.Done():
		if r.quit(run) {
			return nil, ErrClosed
		}
		b = <-run.baton
	}
	switch {
	case b.hold != nil:
		return b.hold, nil
	case b.seat != nil:
		return r.sit(ctx, b.seat)
	}
	return r.enter(ctx)
}

// try takes the lock if nobody has it or waits for it.
func (r *relay) try(ctx context.Context) (*Hold, error) {
	r.mu.Lock()
	if hold := r.resume(ctx); hold != nil {
		r.mu.Unlock()
		return hold, nil
	}
	mine := !r.busy
	r.busy = true
	r.mu.Unlock()
	if !mine { // so that somebody is in the queue, or will be: it tells who
		return r.lock.tryLock(ctx, r.note, false)
	}
	st, err := r.lock.trySeat(ctx, r.note, false)
	if err != nil {
		r.next()
		return nil, err
	}
	return r.begin(ctx, st)
}

// join lines up. It returns the hold if there is one to have at once, and neither
// if it is the caller's turn to enter the queue.
func (r *relay) join(ctx context.Context) (*Hold, *runner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hold := r.resume(ctx); hold != nil {
		return hold, nil
	}
	if !r.busy {
		r.busy = true
		return nil, nil
	}
	run := &runner{ctx: ctx, baton: make(chan baton, 1)}
	r.runners = append(r.runners, run)
	return nil, run
}

// quit stops lining up. It reports false if the runner has got the baton.
func (r *relay) quit(run *runner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.runners, run)
	if i >= 0 {
		r.runners = slices.Delete(r.runners, i, i+1)
	}
	return i >= 0
}

// lateError is the error of a goroutine that lined up for too long.
func (r *relay) lateError(cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.holder != nil:
		return &HeldError{Name: r.lock.name, Holder: r.lock.owner, Since: r.holder.granted, Err: cause}
	case r.seated:
		return &HeldError{Name: r.lock.name, Err: cause}
	}
	return fmt.Errorf("lock %q: %w: no place in the queue was confirmed: %w", r.lock.name, ErrUnavailable, cause)
}

// enter takes the lock by way of the queue.
func (r *relay) enter(ctx context.Context) (*Hold, error) {
	st, err := r.lock.client.enter(ctx, r.lock.name, r.lock.queue, r.note.at(time.Now()))
	if err != nil {
		r.next()
		return nil, err
	}
	return r.sit(ctx, st)
}

// sit waits in a place of the queue. If the context ends first, who is next in line
// gets the place.
func (r *relay) sit(ctx context.Context, st *seat) (*Hold, error) {
	spare := st.spare // it comes from another, who gave up
	st.relay, st.spare = r, false
	if st.ahead != nil { // or else begin notes the holder at once
		r.mu.Lock()
		r.seated = true
		r.mu.Unlock()
	}
	err := st.wait(ctx)
	if spare && !st.spare {
		st.session.unexpect(st)
		if err == nil {
			if err = st.session.brokenSeat(st); err != nil {
				st.abandon()
			}
		}
	}
	switch {
	case err == nil:
		return r.begin(ctx, st)
	case st.spare:
		if !r.hand(baton{seat: st}) {
			st.session.unexpect(st)
			st.abandon()
			r.next()
		}
	default:
		r.next()
	}
	return nil, err
}

// begin makes a hold of a place that nothing is in the way of.
func (r *relay) begin(ctx context.Context, st *seat) (*Hold, error) {
	st.relay = r
	h, err := st.grant(ctx, r.lock)
	if err != nil {
		r.next()
		return nil, err
	}
	r.mu.Lock()
	r.holder = h
	if r.watch != nil {
		delete(r.watch.others, h.entry.ID) // seen before its name was known
	}
	r.mu.Unlock()
	if h.ctx.Err() != nil { // over before the relay knew of it
		r.vacate(h)
	}
	return h, nil
}

// pass gives the hold to the next in line, or keeps its place for whoever comes. It
// reports false if the hold is to be released.
func (r *relay) pass(h *Hold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.holder != h:
		return false
	case len(r.runners) == 0 && (r.retain == 0 || !r.keep(h)):
		return false
	case len(r.runners) == 0:
		h.passed()
		return true
	case !r.mayPass(h) || !h.unregister():
		return false
	}
	run := r.runners[0]
	next := h.next(run.ctx, r.lock)
	if next == nil {
		return false
	}
	h.passed() // before the next one begins
	r.runners = slices.Delete(r.runners, 0, 1)
	r.holder = next
	run.baton <- baton{hold: next}
	return true
}

// mayPass reports whether the hold's place can be another's: its token can grow, it
// shows nothing of this hold, and others don't have to wait for too long.
func (r *relay) mayPass(h *Hold) bool {
	if h.passes >= maxPasses || h.published() {
		return false
	}
	alone := r.watch != nil && r.watch.synced && len(r.watch.others) == 0
	return alone || time.Since(h.since) < passTime
}

// hand gives the baton to the next in line. It reports false if there is none.
func (r *relay) hand(b baton) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handOn(b)
}

func (r *relay) handOn(b baton) bool {
	if len(r.runners) == 0 {
		return false
	}
	run := r.runners[0]
	r.runners = slices.Delete(r.runners, 0, 1)
	run.baton <- b
	return true
}

// next lets the next in line enter the queue: nobody of the relay has a place there.
func (r *relay) next() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance()
}

// vacate is next, when a hold is over that was not passed on.
func (r *relay) vacate(h *Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder == h {
		r.advance()
	}
}

func (r *relay) advance() {
	r.holder, r.seated = nil, false
	r.busy = r.handOn(baton{})
}
