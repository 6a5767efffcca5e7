package driver

import (
	"context"
	"errors"
	"time"
)

// ErrTaken says that another has the lease. Acquire returns it.
var ErrTaken = errors.New("taken by another")

// A Leaser is one client's access to a store of leases: a system that has no
// sessions and keeps no queues, but can give a name to one owner at a time, for a
// time. All its methods may be called at the same time.
//
// The time that counts is the store's own. A call that fails otherwise than with an
// error of this package may have been carried out, now or later; recipes then repeats
// it with the same ID, or waits until what it could have done has expired.
type Leaser interface {
	// Engine is the name that people know the store by, such as "postgres". It is
	// shown, and never compared.
	Engine() string

	// Acquire gives the lease to its ID for the TTL from now on, if nobody has it or
	// whoever had it has let it expire. If that ID has it already, it is renewed, and
	// keeps its token. It returns the lease with its token, or ErrTaken with the lease
	// as it is, as far as the store tells. The ID that it returns names the lease from then
	// on; it may have more behind the one that was asked for. Release takes either.
	Acquire(ctx context.Context, lease Lease, ttl time.Duration) (Lease, error)

	// Renew lets the lease last for the TTL from now on, and replaces its Value. It
	// returns ErrGone, and changes nothing, if that ID does not have it any more. It
	// may renew a lease that has expired and that nobody has taken since.
	Renew(ctx context.Context, lease Lease, ttl time.Duration) error

	// Release gives the lease up if that ID has it, and never another's. It returns
	// ErrGone if that ID does not have it.
	Release(ctx context.Context, lease Lease) error

	// List returns the leases in scope that have not expired, in any order. Of the
	// scope, Name and Prefix count.
	List(ctx context.Context, scope Scope) ([]Lease, error)

	// Close frees what the Leaser itself has opened.
	Close() error
}

// A ReleaseWatcher is a Leaser that tells of releases. With others, and for leases that
// expire, recipes asks again from time to time.
type ReleaseWatcher interface {
	// Releases returns a channel that receives when someone may have released the name,
	// once for several releases that follow each other closely. It returns when no
	// release after that is missed. The channel is closed when the context ends, or
	// when releases may be missed.
	Releases(ctx context.Context, name string) (<-chan struct{}, error)
}

// A Lease is the right to a name for a time.
type Lease struct {
	Name string
	// ID names who has it. Recipes never uses one twice.
	ID string
	// Token is larger than that of every earlier lease of the name, also after it was
	// released or has expired, and never 0. It is 0 in stores that can't give one.
	Token uint64
	// Value is what its owner stores in it.
	Value []byte
	// Created is when it was acquired, by the store's clock, where it tells.
	Created time.Time
	// Left is until when it will expire, as of the reply that told of it, where the
	// store tells.
	Left time.Duration
}
