package etcd

import (
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockctl/lockctl/recipes/driver"
)

// meaning is an error of the service together with what the driver's contract
// calls it. The text is the service's.
type meaning struct{ kind, err error }

func (m *meaning) Error() string   { return m.err.Error() }
func (m *meaning) Unwrap() []error { return []error{m.kind, m.err} }

// failed adds to an error what the driver's contract calls it.
func (s *store) failed(err error) error {
	if closed := s.closed(); err != nil && closed != nil {
		return closed
	}
	return translate(err)
}

// closed is an error once the etcd client was closed. It is asked for before
// requests too, which the client library would repeat a hundred times.
func (s *store) closed() error {
	if s.client.Ctx().Err() == nil {
		return nil
	}
	return &meaning{driver.ErrClosed, errors.New("the etcd client was closed")}
}

// translate wraps what the driver's contract names; other errors stay.
func translate(err error) error {
	if err == nil {
		return nil
	}
	err = served(err)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return &meaning{driver.ErrSessionOver, err}
	case denied(err):
		return &meaning{driver.ErrDenied, err}
	}
	return err
}

// served returns the service's own error if it is one. The reason for refusing a
// watch arrives as the text of another error.
func served(err error) error {
	if _, text, found := strings.Cut(err.Error(), "desc = "); found {
		var known rpctypes.EtcdError
		if errors.As(rpctypes.Error(errors.New(text)), &known) {
			return known
		}
	}
	return rpctypes.Error(err)
}

// code is the gRPC code of a served error.
func code(err error) codes.Code {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code()
	}
	return status.Code(err)
}

// denied reports whether a served error is about credentials.
func denied(err error) bool {
	if c := code(err); c == codes.PermissionDenied || c == codes.Unauthenticated {
		return true
	}
	// These carry another code.
	return isAny(err, rpctypes.ErrAuthFailed, rpctypes.ErrAuthNotEnabled, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound)
}

// stale reports whether the credentials of a stream, not those of the client,
// were refused: a stream keeps the token that it was opened with.
func stale(err error) bool {
	return isAny(served(err), rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrUserEmpty)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// permanent reports whether the service refused the request so that repeating it
// cannot help, or only when something else has changed.
func permanent(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return isAny(err, driver.ErrSessionOver, driver.ErrDenied, driver.ErrClosed, rpctypes.ErrNoSpace)
}
