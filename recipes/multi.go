package recipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Multi is several locks that are held together or not at all. They may be of
// any kind, and of clients of different services.
//
// It is made by NewMulti, sends nothing until it is used, and needs no closing. All
// methods may be called at the same time. Taking it costs what its locks cost, one
// after the other.
//
// # Guarantees
//
//   - Locks are taken in the order of their names. Processes that call the same
//     locks by the same names, and take them by a Multi alone, don't deadlock.
//   - A hold is lost as soon as any of its locks is.
//   - While it waits for one lock and loses another, it gives up.
//
// # Non-guarantees
//
//   - Locks that were taken stay taken while it waits for the next, and keep others
//     out for that time. There is no moment at which all are taken at once.
//   - There is no token for all together: each protected resource checks that of
//     its own lock.
type Multi struct {
	names []string // sorted
	locks map[string]Locker[*Hold]
}

// NewMulti makes a Multi of locks by their names, which decide the order and
// need not be the names of the locks themselves: with locks on several services,
// add the service. It returns ErrInvalid if there is none, one is nil, or a name
// is not as Client.Mutex wants it.
func NewMulti(locks map[string]Locker[*Hold]) (*Multi, error) {
	if len(locks) == 0 {
		return nil, &InvalidError{Field: "locks", Problem: "is empty"}
	}
	for name, lock := range locks {
		if problem := textProblem(name, driver.MaxName); name == "" || problem != "" {
			return nil, &InvalidError{Field: "locks", Problem: fmt.Sprintf("has a name that is empty or unfit: %q", name)}
		}
		if lock == nil {
			return nil, &InvalidError{Field: "locks", Problem: fmt.Sprintf("has no lock for %q", name)}
		}
	}
	return &Multi{names: slices.Sorted(maps.Keys(locks)), locks: maps.Clone(locks)}, nil
}

var _ Locker[*MultiHold] = (*Multi)(nil)

// Lock waits until all locks are held. When one can't be had, those taken are
// released in the background, and the error is that one's: see Mutex.Lock. A Multi
// that has the same lock twice gets ErrDeadlock.
func (m *Multi) Lock(ctx context.Context) (*MultiHold, error) {
	return m.take(ctx, Locker[*Hold].Lock)
}

// TryLock returns all locks if each is free, and otherwise the error of the first
// that is not, after the order of the names. Those taken are released in the
// background.
func (m *Multi) TryLock(ctx context.Context) (*MultiHold, error) {
	return m.take(ctx, Locker[*Hold].TryLock)
}

// take takes one lock after the other. Each is asked for in a context that comes
// from the hold before, so that a lock which is there twice is noticed.
func (m *Multi) take(ctx context.Context, lock func(Locker[*Hold], context.Context) (*Hold, error)) (*MultiHold, error) {
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	all := &MultiHold{names: m.names}
	values := ctx
	for _, name := range m.names {
		hold, err := lock(m.locks[name], borrowed{waiting, values})
		if err == nil {
			all.holds = append(all.holds, hold)
			values = hold.Context()
			defer context.AfterFunc(values, func() { giveUp(context.Cause(hold.Context())) })()
			err = all.lost()
		} else if lost := all.lost(); lost != nil {
			err = errors.Join(lost, err)
		}
		if err != nil {
			all.abandon()
			return nil, fmt.Errorf("lock %q of several: %w", name, err)
		}
	}
	all.ctx, all.cancel = context.WithCancelCause(context.WithoutCancel(values))
	for _, h := range all.holds {
		context.AfterFunc(h.Context(), func() { all.cancel(context.Cause(h.Context())) })
	}
	return all, nil
}

// borrowed is a context with the values of another.
type borrowed struct {
	context.Context
	values context.Context
}

func (b borrowed) Value(key any) any { return b.values.Value(key) }

// A MultiHold is all locks of a Multi, held. The zero value is of no use. All
// methods may be called at the same time.
type MultiHold struct {
	names []string
	holds []*Hold // in the order of names

	ctx    context.Context
	cancel context.CancelCauseFunc
}

var _ Held = (*MultiHold)(nil)

// Context ends when any of the locks is lost, or when Unlock begins. Its cause is
// that of the first hold that ended. Locks that are not lost stay held until
// Unlock.
func (h *MultiHold) Context() context.Context { return h.ctx }

// Deadline is the earliest of the holds' deadlines.
func (h *MultiHold) Deadline() time.Time {
	deadline := h.holds[0].Deadline()
	for _, hold := range h.holds[1:] {
		if d := hold.Deadline(); d.Before(deadline) {
			deadline = d
		}
	}
	return deadline
}

// Owner is how the holder presents itself in the queue of the first lock.
func (h *MultiHold) Owner() Owner { return h.holds[0].Owner() }

// Tokens are the fencing tokens by the names given to NewMulti. Each is to be
// checked by what its own lock protects.
func (h *MultiHold) Tokens() map[string]uint64 {
	tokens := make(map[string]uint64, len(h.holds))
	for i, hold := range h.holds {
		tokens[h.names[i]] = hold.Token()
	}
	return tokens
}

// Holds are the holds of the locks, by the names given to NewMulti: for what asks
// for a single one, such as Hold.Asked and etcd.Guard. To unlock one of them ends
// the context of all.
func (h *MultiHold) Holds() map[string]*Hold {
	holds := make(map[string]*Hold, len(h.holds))
	for i, hold := range h.holds {
		holds[h.names[i]] = hold
	}
	return holds
}

// Unlock gives all locks up, the last one first, without waiting for one before
// giving up the next. It returns the errors of all holds, joined: see Hold.Unlock.
// So it returns ErrLost if any was lost.
func (h *MultiHold) Unlock(ctx context.Context) error {
	h.cancel(errReleased)
	h.abandon()
	var errs []error
	for _, hold := range h.holds {
		errs = append(errs, hold.Unlock(ctx))
	}
	return errors.Join(errs...)
}

// lost is why one of the holds is no more, or nil.
func (h *MultiHold) lost() error {
	for _, hold := range h.holds {
		if hold.Context().Err() != nil {
			return context.Cause(hold.Context())
		}
	}
	return nil
}

// abandon begins to release all holds, which goes on in the background.
func (h *MultiHold) abandon() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, hold := range slices.Backward(h.holds) {
		_ = hold.Unlock(ended) // a later call tells how it went, for who wants to know
	}
}
