package zk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// translate turns an error of go-zookeeper into one of the driver's.
// ErrInvalidACL is the server's word for credentials that an ACL needs and that
// the connection does not have.
func translate(err error) error {
	var kind error
	switch {
	case errors.Is(err, gozk.ErrNoAuth), errors.Is(err, gozk.ErrAuthFailed), errors.Is(err, gozk.ErrInvalidACL):
		kind = driver.ErrDenied
	case errors.Is(err, gozk.ErrSessionExpired):
		kind = driver.ErrSessionOver
	case errors.Is(err, gozk.ErrClosing):
		kind = driver.ErrClosed
	default:
		return coded(err)
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// A code is the server's answer to a request, where the library has no error for it.
type code int32

// The codes that are treated each in its own way; see passes.
const (
	unimplemented code = -6
	firstAPIError code = -100 // those above tell of the server, and those below of the request
	notReadOnly   code = -119
	timedOut      code = -122
	quotaExceeded code = -125
	throttled     code = -127
)

// Error implements error.
func (c code) Error() string {
	switch c {
	case unimplemented:
		return "the server does not know this request"
	case quotaExceeded:
		return "quota exceeded"
	default:
		return fmt.Sprintf("the server answers with error %d", int32(c))
	}
}

// passes reports whether another answer may come to the same request, or it may have been
// done all the same.
func (c code) passes() bool {
	switch c {
	case notReadOnly, timedOut, throttled:
		return true
	case unimplemented:
		return false
	default:
		return c > firstAPIError
	}
}

// coded finds the code in what the library says of one that it does not know.
func coded(err error) error {
	if err == nil {
		return nil
	}
	digits, unknown := strings.CutPrefix(err.Error(), "unknown error: ")
	n, bad := strconv.ParseInt(digits, 10, 32)
	if !unknown || bad != nil {
		return err
	}
	return code(n)
}

// declined says so if the server has refused a write by a code, such as that of a quota.
func declined(err error) error {
	if c := code(0); errors.As(err, &c) && !c.passes() {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// refused reports whether the server answered a request, with an error: it has
// not done what was asked, and won't.
func refused(err error) bool {
	if c := code(0); errors.As(err, &c) {
		return !c.passes()
	}
	for _, answer := range []error{
		gozk.ErrNoNode, gozk.ErrNodeExists, gozk.ErrNotEmpty, gozk.ErrBadVersion, gozk.ErrBadArguments,
		gozk.ErrNoChildrenForEphemerals, gozk.ErrNoAuth, gozk.ErrAuthFailed, gozk.ErrInvalidACL, gozk.ErrInvalidPath,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// final reports whether asking again gives no other answer.
func final(err error) bool {
	var invalid *recipes.InvalidError
	return refused(err) || errors.Is(err, driver.ErrSessionOver) || errors.Is(err, driver.ErrClosed) ||
		errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrGone) || errors.Is(err, errNoAnswer) ||
		errors.As(err, &invalid)
}

// interrupted is an error that is over with the session in which it happened: the
// same can be tried in the next one. It hides its cause, which says otherwise.
type interrupted struct{ cause error }

// Error implements error.
func (e interrupted) Error() string { return "interrupted: " + e.cause.Error() }

// resumable makes an end of the session an interruption.
func resumable(err error) error {
	if errors.Is(err, driver.ErrSessionOver) {
		return interrupted{err}
	}
	return err
}

// errNotListed is the error of an early listing that was not asked for.
var errNotListed = errors.New("not listed")

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// insist repeats a request whose answer is lost until there is an answer, or the
// context ends.
func insist[T any](ctx context.Context, request func() (T, error)) (T, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		v, err := request()
		if err == nil || final(err) || ctx.Err() != nil {
			return v, err
		}
		sleep(ctx, pause)
	}
}

// sleep waits for about the given time, or until the context ends.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
