package mutant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// The mutations.
const (
	None            = "none"                 // it is right
	NoRecheck       = "no-recheck"           // takes the end of a wait for a grant
	UnlockByName    = "unlock-by-name"       // removes the first entry, whose ever it is
	NoSessionCheck  = "no-session-check"     // does not look whether its own entry is there
	LateDeadline    = "late-deadline"        // counts a renewal from its reply
	LeftBehind      = "left-behind"          // a waiter that gives up leaves its entry
	MissingWatch    = "missing-watch"        // watches from now on, without a look
	KeyTwice        = "key-twice"            // names an entry by its session alone
	dialTimeout     = 2 * time.Second        //
	settlingTimeout = 500 * time.Millisecond // of one attempt to learn what became of a request
)

// Names are all mutations, the right one first.
func Names() []string {
	return []string{None, NoRecheck, UnlockByName, NoSessionCheck, LateDeadline, LeftBehind, MissingWatch, KeyTwice}
}

// Open makes a client of the engine with a mutation.
func Open(_ context.Context, mutation, url string, ttl time.Duration, o recipes.ClientOptions) (*recipes.Client, error) {
	if !slices.Contains(Names(), mutation) {
		return nil, fmt.Errorf("mutants are %s", strings.Join(Names(), ", "))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(strings.TrimPrefix(url, "etcd://"), ","), DialTimeout: dialTimeout,
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return recipes.NewClient(&store{client: client, ttl: ttl, mutation: mutation}, &o)
}

const root = "/chaos/lock/"

var errNotMade = errors.New("this engine does locks only")

type store struct {
	client   *clientv3.Client
	ttl      time.Duration
	mutation string
}

func (s *store) Engine() string { return "mutant" }

func (s *store) Connect(ctx context.Context) (driver.Session, error) {
	lease, err := s.client.Grant(ctx, int64(s.ttl/time.Second))
	if err != nil {
		return nil, err
	}
	return &session{
		store: s, lease: lease.ID, ttl: time.Duration(lease.TTL) * time.Second,
		done: make(chan struct{}), first: map[string]bool{},
	}, nil
}

func (s *store) List(context.Context, driver.Scope) ([]driver.Entry, error) { return nil, errNotMade }

// Watch is for inboxes, and nobody writes to any.
func (s *store) Watch(ctx context.Context, _ driver.Scope, sink func(driver.Event)) error {
	sink(driver.Event{Type: driver.Reset})
	sink(driver.Event{Type: driver.Synced})
	<-ctx.Done()
	return ctx.Err()
}

func (s *store) Swap(context.Context, driver.Entry, []byte) (driver.Entry, error) {
	return driver.Entry{}, errNotMade
}

func (s *store) Close() error { return s.client.Close() }

type session struct {
	*store
	lease clientv3.LeaseID
	ttl   time.Duration
	done  chan struct{}
	over  sync.Once

	mu      sync.Mutex
	entries int
	first   map[string]bool // entries that were seen to be the first
	renewal *renewal        // under way, for LateDeadline
}

type renewal struct {
	done chan struct{}
	err  error
}

func (s *session) ID() string            { return fmt.Sprintf("%x", int64(s.lease)) }
func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) Renew(ctx context.Context) error {
	if s.mutation == LateDeadline {
		return s.renewLate(ctx)
	}
	return s.renew(ctx)
}

func (s *session) renew(ctx context.Context) error {
	_, err := s.client.KeepAliveOnce(ctx, s.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.over.Do(func() { close(s.done) })
		return driver.ErrSessionOver
	}
	return err
}

// renewLate waits for the reply to whatever request is under way, as who reads replies
// from a stream does.
func (s *session) renewLate(ctx context.Context) error {
	s.mu.Lock()
	r := s.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		s.renewal = r
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.ttl)
			defer cancel()
			r.err = s.renew(ctx)
			s.mu.Lock()
			s.renewal = nil
			s.mu.Unlock()
			close(r.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func prefix(q driver.Queue) string { return root + driver.Escape(q.Name) + "/" }

func (s *session) Enter(ctx context.Context, queue driver.Queue, value []byte) (driver.Entry, *driver.Entry, error) {
	s.mu.Lock()
	s.entries++
	key := fmt.Sprintf("%s%x-%d", prefix(queue), int64(s.lease), s.entries)
	s.mu.Unlock()
	if s.mutation == KeyTwice {
		key = fmt.Sprintf("%s%x", prefix(queue), int64(s.lease))
	}
	own := driver.Entry{Queue: queue, ID: key, Session: s.ID(), Value: value}
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, s.ttl/4)
		put, err := s.client.Txn(try).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, string(value), clientv3.WithLease(s.lease))).
			Else(clientv3.OpGet(key)).Commit()
		if err == nil {
			own.Revision = uint64(put.Header.Revision)
			if !put.Succeeded { // by an attempt whose reply was lost
				own.Revision = uint64(put.Responses[0].GetResponseRange().Kvs[0].CreateRevision)
			}
			var ahead *driver.Entry
			if ahead, err = s.look(try, own); err == nil || errors.Is(err, driver.ErrSessionOver) {
				cancel()
				return own, ahead, err
			}
		}
		cancel()
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return driver.Entry{}, nil, driver.ErrSessionOver
		}
		sleep(ctx, 50*time.Millisecond)
	}
	return driver.Entry{}, nil, ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// look is what is directly ahead.
func (s *session) look(ctx context.Context, own driver.Entry) (*driver.Entry, error) {
	last := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(int64(own.Revision)-1))
	found, err := s.client.Txn(ctx).Then(clientv3.OpGet(own.ID), clientv3.OpGet(prefix(own.Queue), last...)).Commit()
	if err != nil {
		return nil, err
	}
	self, ahead := found.Responses[0].GetResponseRange().Kvs, found.Responses[1].GetResponseRange().Kvs
	if s.mutation != NoSessionCheck && (len(self) == 0 || uint64(self[0].CreateRevision) != own.Revision) {
		return nil, s.gone(ctx)
	}
	if len(ahead) == 0 {
		s.mu.Lock()
		s.first[own.ID] = true
		s.mu.Unlock()
		return nil, nil
	}
	return &driver.Entry{Queue: own.Queue, ID: string(ahead[0].Key), Revision: uint64(ahead[0].CreateRevision)}, nil
}

func (s *session) Ahead(ctx context.Context, own driver.Entry) (*driver.Entry, error) {
	if s.mutation == NoRecheck {
		return nil, nil // it has waited, after all
	}
	return s.look(ctx, own)
}

func (s *session) Await(ctx context.Context, other driver.Entry) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	var from []clientv3.OpOption
	if s.mutation != MissingWatch {
		found, err := s.client.Get(ctx, other.ID)
		if err != nil {
			return err
		}
		if len(found.Kvs) == 0 || s.mutation != KeyTwice && uint64(found.Kvs[0].CreateRevision) != other.Revision {
			return nil
		}
		from = append(from, clientv3.WithRev(found.Header.Revision+1))
	}
	for resp := range s.client.Watch(ctx, other.ID, append(from, clientv3.WithFilterPut())...) {
		if err := resp.Err(); err != nil {
			return err
		}
		if len(resp.Events) > 0 {
			return nil
		}
	}
	return ctx.Err()
}

func (s *session) Update(context.Context, driver.Entry, []byte) (driver.Entry, error) {
	return driver.Entry{}, errNotMade
}

func (s *session) Leave(ctx context.Context, own driver.Entry) error {
	s.mu.Lock()
	held := s.first[own.ID]
	s.mu.Unlock()
	switch {
	case s.mutation == LeftBehind && !held:
		return nil
	case s.mutation == UnlockByName:
		first, err := s.client.Get(ctx, prefix(own.Queue), clientv3.WithFirstCreate()...)
		if err != nil || len(first.Kvs) == 0 {
			return err
		}
		_, err = s.client.Delete(ctx, string(first.Kvs[0].Key))
		return err
	}
	removed, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(own.ID), "=", int64(own.Revision))).
		Then(clientv3.OpDelete(own.ID)).Commit()
	if err == nil && !removed.Succeeded {
		return s.gone(ctx)
	}
	return err
}

// gone is why the own entry is not there.
func (s *session) gone(ctx context.Context) error {
	lease, err := s.client.TimeToLive(ctx, s.lease)
	switch {
	case err != nil:
		return err
	case lease.TTL <= 0:
		return driver.ErrSessionOver
	}
	return driver.ErrGone
}

func (s *session) Close(ctx context.Context) error {
	_, err := s.client.Revoke(ctx, s.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}
