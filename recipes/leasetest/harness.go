// Package leasetest is the conformance suite of stores of leases: what every
// driver.Leaser has to do, on a real server, as users of package recipes see it.
package leasetest

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// A Server is a running store, as the suite needs it. Whatever its methods start they
// end with the test's Cleanup; whatever goes wrong fails the test.
type Server interface {
	// Open makes a client. The suite closes it.
	Open(t testing.TB, o Options) Client

	// URL names the store to the OpenFunc of the package's Main, in another process. It
	// returns "" for a store of this process only.
	URL() string

	// Link makes a connection to the store that can be disturbed, to be used by one
	// client through Options.Link. It returns nil for a store that has no connections.
	Link(t testing.TB) Link

	// Restart stops the store, waits until it is down, and starts it again on the same
	// address with the same data. It returns false for a store that has no server.
	Restart(t testing.TB) bool
}

// Options say what client the suite wants.
type Options struct {
	TTL   time.Duration // of leases
	Poll  time.Duration // see recipes.LeaseOptions; 0 for the default
	Label string        // of its owner
	Link  Link          // to connect through; nil means directly
}

// A Link is a connection to the store that can be disturbed.
type Link = recipetest.Link

// A Client is a recipes.LeaseClient or recipes.UnfencedClient.
type Client interface {
	Mutex(name string, opts *recipes.LeaseMutexOptions) (Mutex, error)
	Lock(ctx context.Context, name string) (recipes.Object, error)
	Objects(ctx context.Context, filter recipes.Filter) ([]recipes.Object, error)
	Watch(ctx context.Context, filter recipes.Filter) iter.Seq2[recipes.Change, error]
	Break(ctx context.Context, name string, entry recipes.Entry) error
	Close() error
}

// A Mutex is a recipes.LeaseMutex or recipes.UnfencedMutex.
type Mutex interface {
	Lock(ctx context.Context) (Hold, error)
	TryLock(ctx context.Context) (Hold, error)
	Do(ctx context.Context, f func(ctx context.Context, hold Hold) error) error
}

// A Hold is a recipes.Hold or recipes.UnfencedHold.
type Hold interface {
	recipes.Held
	Name() string
	SessionID() string
	Publish(ctx context.Context, value any) error
}

// token is the hold's fencing token, if it has one.
func token(h Hold) (uint64, bool) {
	fenced, ok := h.(interface{ Token() uint64 })
	if !ok {
		return 0, false
	}
	return fenced.Token(), true
}

// Fenced makes a client of the suite of one whose leases have tokens.
func Fenced(c *recipes.LeaseClient) Client {
	return client[*recipes.Hold, *recipes.LeaseMutex]{c, c.Mutex}
}

// Unfenced makes a client of the suite of one whose leases have no tokens.
func Unfenced(c *recipes.UnfencedClient) Client {
	return client[*recipes.UnfencedHold, *recipes.UnfencedMutex]{c, c.Mutex}
}

// rest is what both clients have in common.
type rest interface {
	Lock(ctx context.Context, name string) (recipes.Object, error)
	Objects(ctx context.Context, filter recipes.Filter) ([]recipes.Object, error)
	Watch(ctx context.Context, filter recipes.Filter) iter.Seq2[recipes.Change, error]
	Break(ctx context.Context, name string, entry recipes.Entry) error
	Close() error
}

// locker is what both mutexes have in common.
type locker[H Hold] interface {
	recipes.Locker[H]
	Do(ctx context.Context, f func(ctx context.Context, hold H) error) error
}

type client[H Hold, M locker[H]] struct {
	rest
	mutex func(name string, opts *recipes.LeaseMutexOptions) (M, error)
}

func (c client[H, M]) Mutex(name string, opts *recipes.LeaseMutexOptions) (Mutex, error) {
	m, err := c.mutex(name, opts)
	if err != nil {
		return nil, err
	}
	return mutex[H]{m}, nil
}

type mutex[H Hold] struct{ locker locker[H] }

func (m mutex[H]) Lock(ctx context.Context) (Hold, error)    { return hold(m.locker.Lock(ctx)) }
func (m mutex[H]) TryLock(ctx context.Context) (Hold, error) { return hold(m.locker.TryLock(ctx)) }

func (m mutex[H]) Do(ctx context.Context, f func(ctx context.Context, hold Hold) error) error {
	return m.locker.Do(ctx, func(ctx context.Context, h H) error { return f(ctx, h) })
}

func hold[H Hold](h H, err error) (Hold, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}
