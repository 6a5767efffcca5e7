package memory

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// A LeaseServer is a store of leases in memory, for tests of what is built on
// recipes.LeaseClient. The zero value is one without leases. All methods may be called
// at the same time.
type LeaseServer struct {
	mu     sync.Mutex
	leases map[string]*tenure
	freed  map[string]map[chan struct{}]struct{} // who waits for releases, by name
}

// tenure is what the server knows of a name.
type tenure struct {
	driver.Lease // its ID is "" when it was released
	until        time.Time
}

// LeaseOptions adjust a client of a LeaseServer. A nil *LeaseOptions means all defaults.
type LeaseOptions struct {
	// Link is the connection to the server. Defaults to one that always works.
	Link *Link
	// Lease has the options that all clients of leases share.
	Lease recipes.LeaseOptions
}

// OpenLeases makes a client of the server. A nil opts means all defaults. It returns
// ErrInvalid for options that are out of range.
func OpenLeases(server *LeaseServer, opts *LeaseOptions) (*recipes.LeaseClient, error) {
	var o LeaseOptions
	if opts != nil {
		o = *opts
	}
	if server == nil {
		return nil, &recipes.InvalidError{Field: "server", Problem: "is nil"}
	}
	if o.Link == nil {
		o.Link = &Link{}
	}
	return recipes.NewLeaseClient(&leaser{server, o.Link}, &o.Lease)
}

// leaser implements driver.Leaser and driver.ReleaseWatcher.
type leaser struct {
	server *LeaseServer
	link   *Link
}

func (l *leaser) Engine() string { return "memory" }
func (l *leaser) Close() error   { return nil }

// ask carries out a request on the server, over the link.
func (l *leaser) ask(ctx context.Context, request func(s *LeaseServer, now time.Time) error) error {
	var err error
	if linkErr := l.link.call(ctx, func() {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		if l.server.leases == nil {
			l.server.leases = map[string]*tenure{}
		}
		err = request(l.server, time.Now())
	}); linkErr != nil {
		return linkErr
	}
	return err
}

func (l *leaser) Acquire(ctx context.Context, want driver.Lease, ttl time.Duration) (got driver.Lease, err error) {
	err = l.ask(ctx, func(s *LeaseServer, now time.Time) error {
		t := s.leases[want.Name]
		if t == nil {
			t = &tenure{}
			s.leases[want.Name] = t
		}
		if t.ID != "" && t.ID != want.ID && t.until.After(now) {
			got = t.Lease
			got.Left = t.until.Sub(now)
			return driver.ErrTaken
		}
		if t.ID != want.ID {
			want.Token, want.Created = t.Token+1, now
			t.Lease = want
		}
		t.until = now.Add(ttl)
		got = t.Lease
		return nil
	})
	return got, err
}

// held returns what is known of the lease if its owner has it.
func (s *LeaseServer) held(lease driver.Lease) (*tenure, error) {
	t := s.leases[lease.Name]
	if t == nil || lease.ID == "" || t.ID != lease.ID {
		return nil, driver.ErrGone
	}
	return t, nil
}

func (l *leaser) Renew(ctx context.Context, lease driver.Lease, ttl time.Duration) error {
	return l.ask(ctx, func(s *LeaseServer, now time.Time) error {
		t, err := s.held(lease)
		if err == nil {
			t.until, t.Value = now.Add(ttl), lease.Value
		}
		return err
	})
}

func (l *leaser) Release(ctx context.Context, lease driver.Lease) error {
	return l.ask(ctx, func(s *LeaseServer, _ time.Time) error {
		t, err := s.held(lease)
		if err == nil {
			t.Lease = driver.Lease{Token: t.Token}
			for c := range s.freed[lease.Name] {
				wake(c)
			}
		}
		return err
	})
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *leaser) List(ctx context.Context, scope driver.Scope) (all []driver.Lease, err error) {
	err = l.ask(ctx, func(s *LeaseServer, now time.Time) error {
		for name, t := range s.leases {
			inScope := name == scope.Name || scope.Prefix && strings.HasPrefix(name, scope.Name)
			if !inScope || t.ID == "" || !t.until.After(now) {
				continue
			}
			lease := t.Lease
			lease.Left = t.until.Sub(now)
			all = append(all, lease)
		}
		return nil
	})
	return all, err
}

func (l *leaser) Releases(ctx context.Context, name string) (<-chan struct{}, error) {
	c := make(chan struct{}, 1)
	err := l.ask(ctx, func(s *LeaseServer, _ time.Time) error {
		if s.freed == nil {
			s.freed = map[string]map[chan struct{}]struct{}{}
		}
		if s.freed[name] == nil {
			s.freed[name] = map[chan struct{}]struct{}{}
		}
		s.freed[name][c] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		if delete(l.server.freed[name], c); len(l.server.freed[name]) == 0 {
			delete(l.server.freed, name)
		}
		close(c) // nobody sends any more
	})
	return c, nil
}
