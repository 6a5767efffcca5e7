package recipes

import (
	"context"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// An UnfencedClient makes locks on a store of leases that can't give fencing tokens,
// such as Redlock. Its holds have a type of their own, without a Token method: code that
// needs a token does not compile against it. Apart from that it is a LeaseClient.
type UnfencedClient struct {
	*leaseCore
}

// NewUnfencedClient makes a client over a store whose leases have no fencing tokens. It
// is otherwise NewLeaseClient.
func NewUnfencedClient(leaser driver.Leaser, opts *LeaseOptions) (*UnfencedClient, error) {
	core, err := newLeaseCore(leaser, opts)
	if err != nil {
		return nil, err
	}
	return &UnfencedClient{core}, nil
}

// An UnfencedMutex is a LeaseMutex whose holds have no fencing token. A holder that was
// paused, or whose clock stood still, may go on working after another has the lock, and
// nothing can refuse what it does then.
type UnfencedMutex struct {
	mutex *LeaseMutex
}

// An UnfencedHold is a Hold without a fencing token.
type UnfencedHold struct {
	hold *Hold
}

var (
	_ Locker[*UnfencedHold] = (*UnfencedMutex)(nil)
	_ Locker[*Hold]         = (*LeaseMutex)(nil)
)

// Mutex makes a lock called name, as LeaseClient.Mutex.
func (c *UnfencedClient) Mutex(name string, opts *LeaseMutexOptions) (*UnfencedMutex, error) {
	m, err := c.mutex(name, opts)
	if err != nil {
		return nil, err
	}
	return &UnfencedMutex{m}, nil
}

// Name is the name of the lock.
func (m *UnfencedMutex) Name() string { return m.mutex.Name() }

// Lock waits until the lock is held, as LeaseMutex.Lock.
func (m *UnfencedMutex) Lock(ctx context.Context) (*UnfencedHold, error) {
	return unfenced(m.mutex.Lock(ctx))
}

// TryLock returns the lock if nobody has it, as LeaseMutex.TryLock.
func (m *UnfencedMutex) TryLock(ctx context.Context) (*UnfencedHold, error) {
	return unfenced(m.mutex.TryLock(ctx))
}

// Do locks, calls f and unlocks, as Mutex.Do.
func (m *UnfencedMutex) Do(ctx context.Context, f func(ctx context.Context, hold *UnfencedHold) error) error {
	return do(ctx, m.Lock, m.mutex.minHold+m.mutex.client.opts.CloseTimeout, f)
}

func unfenced(h *Hold, err error) (*UnfencedHold, error) {
	if err != nil {
		return nil, err
	}
	return &UnfencedHold{h}, nil
}

// Context ends when the lock is lost, or when Unlock begins: see Hold.Context.
func (h *UnfencedHold) Context() context.Context { return h.hold.Context() }

// Deadline is the moment at which the hold is lost if no further renewal succeeds.
func (h *UnfencedHold) Deadline() time.Time { return h.hold.Deadline() }

// Owner is how the holder presents itself.
func (h *UnfencedHold) Owner() Owner { return h.hold.Owner() }

// Name is the name of the lock.
func (h *UnfencedHold) Name() string { return h.hold.Name() }

// SessionID names the lease.
func (h *UnfencedHold) SessionID() string { return h.hold.SessionID() }

// Publish shows a value to everybody who looks at the lock: see Hold.Publish.
func (h *UnfencedHold) Publish(ctx context.Context, value any) error {
	return h.hold.Publish(ctx, value)
}

// Unlock gives the lock up: see Hold.Unlock.
func (h *UnfencedHold) Unlock(ctx context.Context) error { return h.hold.Unlock(ctx) }
