package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// errChanged says that another has written the state, so that it has to be looked at
// again.
var errChanged = errors.New("the state of the job was changed by another")

// A leader holds the job's lock, and runs its ticks. One goroutine does everything.
type leader struct {
	*runner
	outer   context.Context // of Run
	hold    *recipes.Hold
	known   recipes.Versioned[record] // the state as it was read or written last
	began   time.Time                 // the last run, by the clock; zero if none is to be remembered
	decided time.Duration             // when the last step was, by the steady time of the clock
}

// lead runs ticks until the context ends, which it does with the lock, or until the
// lock is to go to another.
func (l *leader) lead(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	if err := l.catchUp(); err != nil {
		return err
	}
	l.tell(Event{Kind: Holding, Token: l.hold.Token(), Next: l.plan.upcoming(l.known.Value, l.now())})
	for {
		if l.asked() {
			return nil
		}
		if err := l.over(ctx); err != nil {
			return err
		}
		before := l.known.Value
		l.decided = l.clock.Steady()
		s := l.plan.step(before, l.now(), l.self())
		if s.write == nil {
			if l.wait(ctx, s.wait) {
				return nil
			}
			continue
		}
		switch err := l.write(*s.write); {
		case errors.Is(err, errChanged):
			continue
		case err != nil:
			return err
		}
		l.tell(s.events...)
		if s.run == nil {
			continue
		}
		if err := l.over(ctx); err != nil {
			return l.withdraw(err, before)
		}
		if err := l.perform(ctx, *s.run); err != nil || l.rotate && l.othersWait(ctx) {
			return err
		}
	}
}

// over is why the time to run ticks is over, nil if it is not. The context of Run is
// looked at too, because the one that ends with it does so a moment later.
func (l *leader) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return context.Cause(l.outer)
}

// now is the time of day, as it is stored.
func (l *leader) now() time.Time { return l.clock.Now().Round(0).UTC() }

// self is what attempts say of this process.
func (l *leader) self() Attempt {
	return Attempt{Token: l.hold.Token(), Session: l.hold.SessionID(), By: l.hold.Owner()}
}

// asked tells that someone asks for the lock, if so.
func (l *leader) asked() bool {
	select {
	case request := <-l.hold.Asked():
		l.tell(Event{Kind: Asked, Request: request})
		return true
	default:
		return false
	}
}

// wait waits until a moment, by the clock, zero for ever. It may return early. It
// reports whether someone asks for the lock.
func (l *leader) wait(ctx context.Context, until time.Time) (asked bool) {
	come, stop := l.clock.Until(until)
	defer stop()
	select {
	case <-come:
	case <-ctx.Done():
	case request := <-l.hold.Asked():
		l.tell(Event{Kind: Asked, Request: request})
		return true
	}
	return false
}

// othersWait reports whether another process could run the next tick. If the service
// does not say, this one does.
func (l *leader) othersWait(ctx context.Context) bool {
	line, err := l.client.Lock(ctx, l.name)
	return err == nil && len(line.Waiters()) > 0
}

// load reads the state, for as long as the context lets it.
func (l *leader) load(ctx context.Context) error {
	for {
		v, err := l.state.Get(ctx)
		switch {
		case err == nil && v.Value.Token > l.hold.Token():
			return &recipes.LostError{Name: l.name, Reason: recipes.LostUnknown, Err: fmt.Errorf(
				"a holder with the later token %d has written the job's state (if that goes on, the service was restored: reset the job)",
				v.Value.Token)}
		case err == nil:
			l.known = v
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !passing(err):
			return fmt.Errorf("job %q: %w", l.name, err)
		}
		l.tell(trouble(err))
		pause(ctx, retryPause)
	}
}

// write replaces the state that is known. It returns errChanged, with the present
// state known, if another has replaced it. It repeats what got no answer, for as long
// as the lock is held: a write that was done after all is recognised by its number.
// When Run is to end it goes on for a while, so that its outcome is known.
func (l *leader) write(next record) error {
	ctx, cancel := outlasting(l.hold.Context(), l.outer, settleTimeout)
	defer cancel()
	next.Token, next.Write = l.hold.Token(), l.known.Value.Write+1
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v, err := l.state.CompareAndSwap(ctx, l.known.Version, next)
		switch {
		case err == nil:
			l.known = v
			return nil
		case errors.Is(err, recipes.ErrConflict):
			if err := l.load(ctx); err != nil {
				return err
			}
			if l.known.Value.Token == next.Token && l.known.Value.Write == next.Write {
				return nil
			}
			return errChanged
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !passing(err):
			return fmt.Errorf("job %q: %w", l.name, err)
		}
		l.tell(trouble(err))
		pause(ctx, retryPause)
	}
}

// withdraw takes back the start of an attempt whose work was not started, because Run
// was to end meanwhile. If the lock was lost, the next holder finds the attempt.
func (l *leader) withdraw(why error, before record) error {
	if err := l.write(before); err != nil && !errors.Is(err, errChanged) {
		return errors.Join(why, err)
	}
	return why
}

// perform runs the work of an attempt that is recorded as started, and records its
// outcome, also when the work panics.
func (l *leader) perform(ctx context.Context, a Attempt) (err error) {
	l.began = l.clock.Now()
	l.tell(Event{Kind: Started, Attempt: a})
	outcome := errUnfinished
	defer func() { err = l.finish(a, outcome) }()
	run := &Run{Tick: a.Tick, Attempt: a.Attempt, Missed: a.Missed, Token: a.Token, hold: l.hold}
	outcome = l.work(ctx, run)
	return nil
}

// finish records how an attempt ended, if the lock is still held.
func (l *leader) finish(a Attempt, outcome error) error {
	ended := a.Started.Add(l.clock.Steady() - l.decided) // by the same clock, also if that was set since
	next, event := l.plan.end(l.known.Value, a, outcome, ended)
	if errors.Is(outcome, errUnfinished) {
		l.began = time.Time{} // the panic is not kept waiting
	}
	held := l.hold.Context().Err() == nil
	err := l.write(next)
	switch {
	case err == nil:
		l.tell(event)
		return nil
	case held && outcome == nil:
		l.done = &event.Attempt
	}
	l.tell(Event{Kind: Unrecorded, Attempt: event.Attempt, Err: err})
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

// catchUp records an attempt of this process that completed in time and could not be
// recorded before the lock was lost. It is left alone if another process has decided
// about the tick since.
func (l *leader) catchUp() error {
	a := l.done
	l.done = nil
	if a == nil || !a.same(l.known.Value.Current) || l.known.Value.Current.Outcome != Running {
		return nil
	}
	switch err := l.write(l.known.Value.settle(*a)); {
	case errors.Is(err, errChanged):
		return nil
	case err != nil:
		return err
	}
	l.tell(Event{Kind: Ended, Attempt: *a})
	return nil
}

// release gives the lock up, once the shortest time to hold it has passed.
func (l *leader) release() error {
	lost := l.hold.Context()
	for l.minHold > 0 && !l.began.IsZero() && lost.Err() == nil && l.clock.Now().Sub(l.began) < l.minHold {
		come, stop := l.clock.Until(l.began.Add(l.minHold))
		select {
		case <-come:
		case <-lost.Done():
		}
		stop()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.outer), settleTimeout)
	defer cancel()
	return l.hold.Unlock(ctx)
}

// outlasting is ctx for as long as outer goes on, and for d longer.
func outlasting(ctx, outer context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(outer, func() {
		timer := time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
