package election

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

const (
	defaultPause = time.Second
	// resignTimeout bounds the wait for the service to confirm that a lead was given
	// up. It goes on in the background after that.
	resignTimeout = 5 * time.Second
)

// RunOptions adjust Run. A nil *RunOptions means all defaults.
type RunOptions struct {
	// Value is proclaimed when elected. Defaults to "".
	Value string
	// Again has Run campaign again after the lead was lost, after lead has returned
	// nil, and when the service could not be reached. Without it Run ends with the
	// first lead, or the first error.
	Again bool
	// Pause is the time before a further campaign. Defaults to 1 s.
	Pause time.Duration
	// Observe is told of the election as Election.Observe yields it, from one
	// goroutine, while Run runs. It must return soon. Defaults to none.
	Observe func(View)
}

func (o *RunOptions) withDefaults() (RunOptions, error) {
	var opts RunOptions
	if o != nil {
		opts = *o
	}
	if opts.Pause < 0 {
		return opts, &recipes.InvalidError{Field: "RunOptions.Pause", Problem: "is negative"}
	}
	if opts.Pause == 0 {
		opts.Pause = defaultPause
	}
	return opts, nil
}

// Run campaigns and calls lead when it is elected. The context that lead gets ends
// when the lead is lost or ctx ends. When lead has returned, or panicked, and
// everything that it started with Lead.Go has ended, Run resigns: so the lead is
// kept until the work has stopped.
//
// Run returns lead's error joined with that of the resignation: ErrLost if the lead
// was lost while lead ran, even if lead returned nil. Errors of the campaign are as
// for Campaign.
//
// With RunOptions.Again it goes on until ctx ends, and then returns an error that
// matches its cause, or until lead returns an error of its own while it leads, or the campaign or the
// observer one that trying again can't help: ErrInvalid, ErrDenied, ErrDeadlock or
// ErrClosed.
func Run(ctx context.Context, e *Election, lead func(ctx context.Context, lead *Lead) error, opts *RunOptions) error {
	o, err := opts.withDefaults()
	if err != nil {
		return err
	}
	if lead == nil {
		return &recipes.InvalidError{Field: "lead", Problem: "is nil"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var observing sync.WaitGroup
	defer observing.Wait()
	defer cancel(nil)
	if o.Observe != nil {
		observing.Go(func() {
			for view, err := range e.Observe(ctx) {
				if err != nil {
					cancel(err)
					return
				}
				o.Observe(view)
			}
		})
	}
	for {
		again, err := e.lead(ctx, o.Value, lead)
		switch {
		case ctx.Err() != nil && (o.Again || err != nil):
			return because(ctx, err)
		case !o.Again, !again:
			return err
		}
		pause(ctx, o.Pause)
	}
}

// lead campaigns and leads once. It reports whether doing so again makes sense.
func (e *Election) lead(ctx context.Context, value string, work func(context.Context, *Lead) error) (again bool, err error) {
	l, err := e.Campaign(ctx, value)
	if err != nil {
		return passing(err), err
	}
	defer context.AfterFunc(ctx, func() { l.cancel(context.Cause(ctx)) })()
	defer func() {
		l.stop(ErrResigned)
		<-l.drained
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
		defer cancel()
		resigned := l.Resign(release)
		lost := errors.Is(resigned, recipes.ErrLost)
		again = lost && passing(resigned) || !lost && err == nil
		err = errors.Join(err, resigned)
	}()
	return false, work(l.ctx, l)
}

// because adds why the context ended, unless the error says so.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return errors.Join(err, cause)
	}
	return err
}

// passing reports whether an error can pass.
func passing(err error) bool {
	return !errors.Is(err, recipes.ErrClosed) &&
		(errors.Is(err, recipes.ErrLost) || errors.Is(err, recipes.ErrUnavailable))
}

// pause waits, or returns when the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
