package job

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockctl/lockctl/job/internal/clock"
	"github.com/lockctl/lockctl/recipes"
)

const (
	// retryPause is the time before something is repeated that the service did not
	// answer, or that was lost.
	retryPause = time.Second
	// settleTimeout bounds what is left to do when Run is to end: to record the outcome,
	// and to have the service confirm the release, which goes on in the background.
	settleTimeout = 5 * time.Second
)

// A Run is one start of the work for one tick. All methods may be called at the same
// time.
type Run struct {
	// Tick is the moment that the schedule names, in UTC. With AtLeastOnce it is the key
	// by which to recognise what an earlier attempt has done.
	Tick time.Time
	// Attempt counts the starts of the work for this tick, from 1.
	Attempt int
	// Missed is how many earlier ticks were missed that this run stands for, with
	// RunOnce; 999 means that many or more.
	Missed int
	// Token is the fencing token: larger than the token of every process that held the
	// job's lock before, and the same for all ticks that are run under one hold. Let what
	// the work changes refuse smaller ones.
	Token uint64

	hold *recipes.Hold
}

// Deadline is the moment at which the job's lock is lost if no further renewal
// succeeds, see recipes.Hold.Deadline.
func (r *Run) Deadline() time.Time { return r.hold.Deadline() }

// Owner is how the process presents itself.
func (r *Run) Owner() recipes.Owner { return r.hold.Owner() }

// Name is the name of the job.
func (r *Run) Name() string { return r.hold.Name() }

// Run waits in line for the job's lock, and then runs work for each tick, one at a
// time, in the goroutine that called it. The context that work gets ends when the
// lock is lost, before another process can start the work, or when ctx ends; work
// should return then.
//
// What work returns is recorded, see Delivery, and Run goes on. When work panics,
// that is recorded as a failure and the lock released, and the panic goes on too.
// When the lock is lost, or the service can't be reached, Run waits in line again.
//
// Run ends when ctx does, once work has returned, and then returns an error that
// matches the context's cause; or with an error that trying again can't help:
// ErrInvalid, ErrDenied, ErrDeadlock, ErrClosed, and ErrConflict if what is stored is
// not a job's. If the release could not be confirmed, the error says so too.
func (j *Job) Run(ctx context.Context, work func(ctx context.Context, run *Run) error) error {
	if work == nil {
		return &recipes.InvalidError{Field: "work", Problem: "is nil"}
	}
	r := &runner{Job: j, work: work, clock: clock.From(ctx)}
	for {
		err := r.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return because(ctx, err)
		case err == nil:
			continue // it was asked to let others go first
		case !passing(err):
			return err
		}
		r.tell(trouble(err))
		pause(ctx, retryPause)
	}
}

// A runner is one call to Run.
type runner struct {
	*Job
	work  func(ctx context.Context, run *Run) error
	clock clock.Clock
	// done is an attempt that has completed while the lock was held, and could not be
	// recorded as such before it was lost; nil for none.
	done *Attempt
	told EventKind // last
}

// tell tells of events, but only once in a row that the service can't be reached.
func (r *runner) tell(events ...Event) {
	for _, e := range events {
		if e.Kind != Unreachable || r.told != Unreachable {
			r.notify(e)
		}
		r.told = e.Kind
	}
}

// turn waits in line and runs ticks, until the lock is lost, or given up. Nothing of
// the work runs any more then.
func (r *runner) turn(ctx context.Context) (err error) {
	hold, err := r.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	l := &leader{runner: r, outer: ctx, hold: hold}
	defer func() {
		released := l.release()
		if ctx.Err() == nil && errors.Is(released, context.DeadlineExceeded) {
			released = nil // it goes on in the background, and so does Run
		}
		if !errors.Is(err, recipes.ErrLost) {
			err = errors.Join(err, released)
		}
	}()
	work, cancel := context.WithCancelCause(hold.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return l.lead(work)
}

// trouble is the event of an error that can pass.
func trouble(err error) Event {
	if errors.Is(err, recipes.ErrLost) {
		return Event{Kind: Lost, Err: err}
	}
	return Event{Kind: Unreachable, Err: err}
}

// passing reports whether an error can pass.
func passing(err error) bool {
	return !errors.Is(err, recipes.ErrClosed) &&
		(errors.Is(err, recipes.ErrLost) || errors.Is(err, recipes.ErrUnavailable))
}

// because adds why the context ended, unless the error says so.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return errors.Join(err, cause)
	}
	return err
}

// pause waits for about d, or until the context ends. The time is a bit different for
// each, so that many processes don't act at once.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
