package recipes

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// The errors that callers tell apart with errors.Is. Where more is known, the
// error also is a *HeldError, a *LostError or an *InvalidError, for errors.As.
var (
	// ErrHeld says that someone else holds the lock: TryLock found it taken, or the
	// context ended while Lock waited in line. The error is a *HeldError.
	ErrHeld = errors.New("held by another")

	// ErrLost says that a hold, or a place in the queue, ended without being given
	// up. The error is a *LostError.
	ErrLost = errors.New("lost")

	// ErrUnavailable says that the service could not be reached or did not answer.
	ErrUnavailable = errors.New("service unavailable")

	// ErrDenied says that the service refused the credentials or their permission.
	ErrDenied = errors.New("access denied")

	// ErrInvalid says that the caller's input is at fault. The error is an
	// *InvalidError, which names the field.
	ErrInvalid = errors.New("invalid input")

	// ErrConflict says that the name is in use by another kind of recipe, or with
	// another limit.
	ErrConflict = errors.New("in conflict with what is stored")

	// ErrDeadlock says that the caller holds the lock already: the context given to
	// Lock is derived from the hold's. The call would wait for itself.
	ErrDeadlock = errors.New("would wait for itself")

	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("client closed")
)

// A HeldError says who stood in the way. It matches ErrHeld, and the error of
// the context if that ended the waiting.
type HeldError struct {
	Name string
	// Holder is who holds the lock. When a context ended the waiting it is the
	// owner that was directly ahead in line, who may have been waiting as well.
	// It is zero if another program wrote an entry that can't be read.
	Holder Owner
	// Since is when Holder joined the queue, by Holder's clock.
	Since time.Time
	// Err is the context's error, nil for TryLock.
	Err error
}

// Error implements error.
func (e *HeldError) Error() string {
	who := "another"
	if e.Holder != (Owner{}) {
		who = e.Holder.String()
	}
	if e.Err != nil {
		return fmt.Sprintf("lock %q: gave up waiting behind %s: %v", e.Name, who, e.Err)
	}
	return fmt.Sprintf("lock %q is held by %s", e.Name, who)
}

// Unwrap makes errors.Is match ErrHeld and the context's error.
func (e *HeldError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrHeld}
	}
	return []error{ErrHeld, e.Err}
}

// A Reason says why something was lost.
type Reason int

// The reasons of a LostError.
const (
	// LostUnknown: the service says that the entry is gone, and not why.
	LostUnknown Reason = iota
	// LostExpired: no renewal succeeded before the local deadline. The service may
	// or may not have ended the session by now.
	LostExpired
	// LostSession: the service says that the session is over.
	LostSession
	// LostBroken: someone removed the entry while its session lived on. If they
	// did so with Client.Break, LostError.By and Why say who and why.
	LostBroken
	// LostClosed: the client was closed while the lock was held.
	LostClosed
	// LostMaxHold: the lock was held for as long as MutexOptions.MaxHold allows.
	LostMaxHold
)

// String implements fmt.Stringer.
func (r Reason) String() string {
	switch r {
	case LostExpired:
		return "no renewal succeeded before the deadline"
	case LostSession:
		return "the service ended the session"
	case LostBroken:
		return "the entry was removed by someone else"
	case LostClosed:
		return "the client was closed"
	case LostMaxHold:
		return "it was held for the longest time allowed"
	default:
		return "the entry is gone"
	}
}

// A LostError says why a hold, or a place in the queue, is no more. It matches
// ErrLost, and ErrClosed if the client was closed.
type LostError struct {
	Name   string // the lock, "" where a whole session was lost
	Reason Reason
	Err    error // what the service or the last renewal said, or nil
	// By and Why are what was told to Client.Break, and empty otherwise. Another
	// process wrote them: treat them as untrusted text.
	By  Owner
	Why string
}

// Error implements error.
func (e *LostError) Error() string {
	what := "session"
	if e.Name != "" {
		what = fmt.Sprintf("lock %q", e.Name)
	}
	if e.Why != "" {
		return fmt.Sprintf("%s lost: broken by %s: %s", what, e.By, e.Why)
	}
	if e.Err != nil {
		return fmt.Sprintf("%s lost: %s: %v", what, e.Reason, e.Err)
	}
	return fmt.Sprintf("%s lost: %s", what, e.Reason)
}

// Unwrap makes errors.Is match ErrLost and the cause.
func (e *LostError) Unwrap() []error {
	errs := []error{ErrLost}
	if e.Reason == LostClosed {
		errs = append(errs, ErrClosed)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// An InvalidError names the field of the caller's input that is at fault.
// It matches ErrInvalid.
type InvalidError struct {
	Field   string // such as "name" or "MutexOptions.Label"
	Problem string // such as "is empty"
}

// Error implements error.
func (e *InvalidError) Error() string { return fmt.Sprintf("invalid input: %s %s", e.Field, e.Problem) }

// Unwrap makes errors.Is match ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// fault turns an error of a driver into one of this package's. Errors of
// contexts pass through.
func fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrConflict): // such as a path that the engine refuses
		return err
	case errors.Is(err, driver.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, driver.ErrDenied):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	case errors.Is(err, driver.ErrSessionOver):
		return &LostError{Reason: LostSession, Err: err}
	case errors.Is(err, driver.ErrGone):
		return &LostError{Reason: LostBroken, Err: err}
	default:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}

// permanent reports whether trying again cannot help.
func permanent(err error) bool {
	return errors.Is(err, driver.ErrClosed) || errors.Is(err, driver.ErrDenied) ||
		errors.Is(err, driver.ErrSessionOver) || errors.Is(err, driver.ErrGone) ||
		errors.Is(err, driver.ErrRefused) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrConflict)
}

// passing reports whether an error of this package can pass by itself, for who
// goes on for as long as it takes.
func passing(err error) bool {
	return !errors.Is(err, ErrClosed) && (errors.Is(err, ErrLost) || errors.Is(err, ErrUnavailable))
}
