package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lockctl/lockctl/internal/supervise"
	"github.com/lockctl/lockctl/recipes"
)

// The exit codes. Those from 64 to 78 are those of sysexits.h where they fit; 126
// and up are what shells use.
const (
	exitOK          = 0
	exitUsage       = 64  // unknown flag or command, bad name, URL or value
	exitUnavailable = 69  // the service can't be reached or did not answer
	exitInternal    = 70  // everything that has no other code
	exitNotAcquired = 75  // someone else holds the lock, or the place in line was lost
	exitLost        = 76  // the lock was lost while it was held
	exitDenied      = 77  // the service refused the credentials
	exitCannotRun   = 126 // the command was found and can't be run
	exitNotFound    = 127 // the command was not found
	exitSignal      = 128 // plus the number of the signal
)

// An exit is an error with an exit code of its own. Without an err there is
// nothing more to say.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// An interrupted says which signal ended the work.
type interrupted struct{ signal os.Signal }

func (e *interrupted) Error() string { return "interrupted by " + supervise.Name(e.signal) }

func usageError(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// finish reports an error, if there is one, and returns the exit code.
func (a *app) finish(err error) int {
	var e *exit
	if err == nil {
		return exitOK
	}
	if !errors.As(err, &e) || e.err != nil {
		a.say("%v", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var e *exit
	var i *interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &i):
		return exitSignal + supervise.Number(i.signal)
	case errors.Is(err, recipes.ErrInvalid), errors.Is(err, recipes.ErrConflict):
		return exitUsage
	case errors.Is(err, recipes.ErrDenied):
		return exitDenied
	case errors.Is(err, recipes.ErrHeld), errors.Is(err, recipes.ErrLost):
		return exitNotAcquired
	case errors.Is(err, recipes.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitInternal
}

// conflicting gives a conflict with what is stored the exit code of a condition that
// is not met, for commands that are there to find that out.
func conflicting(err error) error {
	if errors.Is(err, recipes.ErrConflict) {
		return &exit{exitNotAcquired, err}
	}
	return err
}

// because turns the error of work under an interruptible context into the
// interruption, if that is what ended it.
func because(ctx context.Context, err error) error {
	if signalled := interruption(ctx); err != nil && signalled != nil {
		return signalled
	}
	return err
}

// interruption is the signal that ended an interruptible context, or nil.
func interruption(ctx context.Context) error {
	var i *interrupted
	if errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}
