package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockctl/lockctl/recipes/driver"
)

// An RWMutex is a lock that is held by one writer or by any number of readers.
// Writers and readers stand in one queue: readers that come after a writer wait
// for it, so writers don't starve, and readers behind the same writer are granted
// together. A Mutex of the same name is a writer.
//
// It is made by Client.RWMutex, sends nothing until it is used, and needs no
// closing. All methods may be called at the same time. It is not reentrant, as
// Mutex is not; a reader that calls Lock in the context of its hold gets
// ErrDeadlock, and Upgrade is there for what it wants.
//
// A writer's release costs each reader behind it one event and one read of the
// queue.
type RWMutex struct {
	lockable
	exclusive, shared template
}

// RWMutex makes a reader/writer lock; names and options are those of Mutex.
// Options.Path makes it exclude other programs as a writer does; their readers
// and ours don't share.
func (c *Client) RWMutex(name string, opts *MutexOptions) (*RWMutex, error) {
	l, err := c.lockable(name, opts)
	if err != nil {
		return nil, err
	}
	return &RWMutex{
		lockable:  l,
		exclusive: l.note(KindRWMutex, ""),
		shared:    l.note(KindRWMutex, modeShared),
	}, nil
}

// Name is the name of the lock.
func (m *RWMutex) Name() string { return m.name }

// Lock waits until the lock is held for writing. It is as Mutex.Lock.
func (m *RWMutex) Lock(ctx context.Context) (*Hold, error) { return m.lock(ctx, m.exclusive, false) }

// TryLock is as Mutex.TryLock.
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.tryLock(ctx, m.exclusive, false)
}

// RLock waits until the lock is held for reading. Tokens of readers that hold
// together differ, and are all smaller than the next writer's. Otherwise it is as
// Mutex.Lock.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) { return m.lock(ctx, m.shared, true) }

// TryRLock returns the lock for reading if no writer has it or waits for it, and
// otherwise a *HeldError at once, which names the writer. Other errors are as for
// Lock.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.tryLock(ctx, m.shared, true)
}

// RLocker is the lock for reading, as a Locker.
func (m *RWMutex) RLocker() Locker[*Hold] { return reader{m} }

type reader struct{ m *RWMutex }

func (r reader) Lock(ctx context.Context) (*Hold, error)    { return r.m.RLock(ctx) }
func (r reader) TryLock(ctx context.Context) (*Hold, error) { return r.m.TryRLock(ctx) }

var _ Locker[*Hold] = (*RWMutex)(nil)

// Downgrade turns a writer's hold into a reader's, without a moment in which
// another writer could get in. Readers behind it are granted the lock too. The
// hold goes on with its token. It does no harm to a reader's hold.
//
// It returns ErrLost if the hold is lost or released, ErrInvalid if it is of
// another lock, or ErrUnavailable, and then may or may not have been done.
func (m *RWMutex) Downgrade(ctx context.Context, hold *Hold) error {
	return m.rewrite(ctx, hold, modeShared)
}

// Upgrade turns a reader's hold into a writer's if it is the only one: at once,
// or not at all. With other readers there, holding or waiting, it returns a
// *HeldError that names one of them, and the hold is a reader's still. So two
// readers that upgrade at the same time don't wait for each other; both may be
// refused. Errors are those of Downgrade otherwise; after ErrUnavailable the hold
// may be either, and keeps other writers out in any case.
func (m *RWMutex) Upgrade(ctx context.Context, hold *Hold) error {
	// Once the entry says that it is a writer's, no reader that comes later passes
	// it. Those that came earlier are seen in the list.
	if err := m.rewrite(ctx, hold, ""); err != nil {
		return err
	}
	other, err := m.otherReader(ctx, hold)
	if err == nil && other == nil {
		return nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.client.opts.CloseTimeout)
	defer cancel()
	if undo := m.rewrite(back, hold, modeShared); undo != nil {
		return errors.Join(err, undo)
	}
	if err != nil {
		return err
	}
	return (&seat{name: m.name, ahead: other}).held(nil)
}

// otherReader returns an entry that may hold the lock beside the hold's: any
// before it, and those behind it up to the first that was exclusive from the
// start.
func (m *RWMutex) otherReader(ctx context.Context, hold *Hold) (*driver.Entry, error) {
	entries, err := m.client.list(ctx, driver.Scope{Space: m.queue.Space, Name: m.queue.Name, Raw: m.queue.Raw})
	if err != nil {
		return nil, fmt.Errorf("upgrade %q: %w", m.name, err)
	}
	for i, e := range entries {
		changed := e.Version != e.Revision // by an upgrade of its own that is under way
		switch {
		case e.ID == hold.entry.ID:
		case e.Revision < hold.entry.Revision || isShared(e) || changed:
			return &entries[i], nil
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// rewrite gives the hold's entry another mode.
func (m *RWMutex) rewrite(ctx context.Context, hold *Hold, mode string) error {
	if hold == nil || hold.entry.Queue != m.queue || hold.session.client != m.client {
		return &InvalidError{Field: "hold", Problem: "is not one of this lock"}
	}
	return hold.rewrite(ctx, "change the mode of", func(n *note) { n.Mode = mode })
}
