package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Snapshot is the value of a register at one version, for Replace and Remove. It is
// for programs that write often, and know the present value from their last write.
type Snapshot[T any] struct {
	Versioned[T]
	// Stored is when the service made this version, by the service's clock; it is zero
	// on a service that does not tell, as etcd, and where there is no value.
	Stored time.Time

	entry driver.Entry
}

// Snapshot is Get for a value that is to be replaced.
func (r *Register[T]) Snapshot(ctx context.Context) (Snapshot[T], error) {
	entry, _, value, err := r.read(ctx)
	return Snapshot[T]{value, entry.Created, entry}, err
}

// Known reports whether the snapshot tells of the register: that of a Replace that failed
// may not.
func (s Snapshot[T]) Known() bool { return s.entry.Queue != (driver.Queue{}) }

// Replace is CompareAndSwap without a read: it writes a value if what is known is still
// the present one. It returns the new snapshot, or ErrConflict if others have written,
// which on some services costs a commit all the same, with what they have written if that
// is Known. known comes from Snapshot or Replace of a register with the same client and
// name.
//
// With ErrUnavailable the outcome may be unknown, as for CompareAndSwap.
func (r *Register[T]) Replace(ctx context.Context, known Snapshot[T], value T) (Snapshot[T], error) {
	if r.client.ctx.Err() != nil {
		return known, ErrClosed
	}
	known.entry.Queue = r.queue
	entry, written, err := r.write(ctx, known.entry, value)
	if err != nil && !errors.Is(err, ErrConflict) {
		return Snapshot[T]{Versioned: written}, err
	}
	return Snapshot[T]{written, entry.Created, entry}, err
}

// Remove is Delete without a read: it removes the value if what is known is still the
// present one. Errors are those of Replace.
func (r *Register[T]) Remove(ctx context.Context, known Snapshot[T]) error {
	switch {
	case r.client.ctx.Err() != nil:
		return ErrClosed
	case known.Version == 0:
		return nil
	}
	if _, err := r.client.store.Swap(ctx, known.entry, nil); err != nil {
		return r.fault("remove", err)
	}
	return nil
}
