package recipes

import (
	"context"
	"time"
)

// Held is what every kind of hold has in common. See Hold for the meaning of
// the methods.
type Held interface {
	Context() context.Context
	Deadline() time.Time
	Owner() Owner
	Unlock(ctx context.Context) error
}

// A Locker is any lock whose holds are of type H. Locks that fence are
// Locker[*Hold]. A store that cannot fence has a hold type of its own, without
// a Token method, so that code which needs a token doesn't compile against it.
//
// Code that needs no token accepts both:
//
//	func guard[H recipes.Held](lock recipes.Locker[H]) { … }
type Locker[H Held] interface {
	// Lock waits in line until the lock is held. The context bounds the waiting,
	// not the life of the hold.
	Lock(ctx context.Context) (H, error)
	// TryLock returns at once, with ErrHeld if another holds the lock.
	TryLock(ctx context.Context) (H, error)
}

var _ Locker[*Hold] = (*Mutex)(nil)
