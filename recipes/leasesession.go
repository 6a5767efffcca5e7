package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// errNoQueues is what the parts of a driver return that a store of leases does not have.
var errNoQueues = fmt.Errorf("%w: a store of leases has no queues, registers and sessions", ErrInvalid)

// A leaseSession is a lease as a driver.Session: the life of one hold. It has no line.
type leaseSession struct {
	core *leaseCore

	mu      sync.Mutex
	lease   driver.Lease
	leaving bool // it is being released, so that it is not to be renewed
	left    bool // it was released, or is gone
}

func (s *leaseSession) ID() string            { return s.lease.ID }
func (s *leaseSession) TTL() time.Duration    { return s.core.ttl }
func (s *leaseSession) Done() <-chan struct{} { return nil } // only renewals tell

func (s *leaseSession) present() driver.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// errLeaving is why a lease is not renewed that is being released: what the store says
// of it then proves nothing.
var errLeaving = errors.New("being released")

func (s *leaseSession) Renew(ctx context.Context) error {
	if s.isLeaving() {
		return errLeaving
	}
	err := s.core.leaser.Renew(ctx, s.present(), s.core.ttl)
	if s.isLeaving() {
		return errLeaving
	}
	return err
}

func (s *leaseSession) isLeaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving
}

// Update renews the lease with another value.
func (s *leaseSession) Update(ctx context.Context, own driver.Entry, value []byte) (driver.Entry, error) {
	s.mu.Lock()
	s.lease.Value = value // so that no renewal brings the old one back
	lease := s.lease
	s.mu.Unlock()
	own.Value = value
	own.Version++
	return own, s.core.leaser.Renew(ctx, lease, s.core.ttl)
}

func (s *leaseSession) Leave(ctx context.Context, _ driver.Entry) error {
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	err := s.core.leaser.Release(ctx, s.present())
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.mu.Lock()
		s.left = true
		s.mu.Unlock()
		s.core.free(s.lease.Name)
	}
	return err
}

// Close releases the lease if that was not done.
func (s *leaseSession) Close(ctx context.Context) error {
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if left {
		return nil
	}
	if err := s.Leave(ctx, driver.Entry{}); !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}

func (s *leaseSession) Enter(context.Context, driver.Queue, []byte) (own driver.Entry, ahead *driver.Entry, err error) {
	return driver.Entry{}, nil, errNoQueues
}

func (s *leaseSession) Ahead(context.Context, driver.Entry) (*driver.Entry, error) {
	return nil, errNoQueues
}

func (s *leaseSession) Await(context.Context, driver.Entry) error { return errNoQueues }

// A leaseStore shows leases as the entries of queues, for reading.
type leaseStore struct {
	leaser  driver.Leaser
	poll    time.Duration
	timeout time.Duration // of each request
}

func (s *leaseStore) Engine() string { return s.leaser.Engine() }

func (s *leaseStore) Connect(context.Context) (driver.Session, error) { return nil, errNoQueues }

func (s *leaseStore) Swap(context.Context, driver.Entry, []byte) (driver.Entry, error) {
	return driver.Entry{}, errNoQueues
}

func (s *leaseStore) Close() error { return s.leaser.Close() }

func (s *leaseStore) List(ctx context.Context, scope driver.Scope) ([]driver.Entry, error) {
	if scope.Space != "" && scope.Space != driver.SpaceLock {
		return nil, nil
	}
	leases, err := s.leaser.List(ctx, scope)
	if err != nil {
		return nil, err
	}
	entries := make([]driver.Entry, len(leases))
	for i, l := range leases {
		entries[i] = entryOfLease(l)
	}
	return entries, nil
}

func entryOfLease(l driver.Lease) driver.Entry {
	return driver.Entry{
		Queue: driver.Queue{Space: driver.SpaceLock, Name: l.Name}, ID: l.ID, Session: l.ID,
		Token: l.Token, Value: l.Value, Created: l.Created,
	}
}

// Watch asks again and again.
func (s *leaseStore) Watch(ctx context.Context, scope driver.Scope, sink func(driver.Event)) error {
	var known map[string]driver.Entry // by name; nil before the first list
	lost := false
	for {
		attempt, cancel := context.WithTimeout(ctx, max(s.poll, s.timeout))
		entries, err := s.List(attempt, scope)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && permanent(err):
			return err
		case err != nil:
			lost = true
			sink(driver.Event{Type: driver.Lost, Err: err})
		default:
			known = tell(sink, known, entries, lost)
			lost = false
		}
		pause(ctx, s.poll)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// tell reports what is new in a list, and returns what is known then.
func tell(sink func(driver.Event), known map[string]driver.Entry, entries []driver.Entry, anew bool) map[string]driver.Entry {
	anew = anew || known == nil
	if anew {
		known = nil
		sink(driver.Event{Type: driver.Reset})
	}
	now := make(map[string]driver.Entry, len(entries))
	for _, e := range entries {
		now[e.Queue.Name] = e
		before, ok := known[e.Queue.Name]
		if ok && before.ID != e.ID {
			sink(driver.Event{Type: driver.Delete, Entry: before})
		}
		if !ok || before.ID != e.ID || !bytes.Equal(before.Value, e.Value) {
			sink(driver.Event{Type: driver.Put, Entry: e})
		}
	}
	for name, e := range known {
		if _, ok := now[name]; !ok {
			sink(driver.Event{Type: driver.Delete, Entry: e})
		}
	}
	if anew {
		sink(driver.Event{Type: driver.Synced})
	}
	return now
}
