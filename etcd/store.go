package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	// requestTimeout bounds one attempt at a request, so that a member that does
	// not answer is left for another.
	requestTimeout = 3 * time.Second

	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// pauseFor waits for about the given time, or until the context ends.
func pauseFor(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// store implements driver.Store.
type store struct {
	client  *clientv3.Client
	stop    context.CancelFunc // ends what Dial has made; nil with a user's client
	servers []string           // for errors
	root    string
	ttl     time.Duration

	requestTimeout time.Duration
	streams        atomic.Int64          // number of the stream for watches, see moveStream
	lastError      atomic.Pointer[error] // see noteError
	alert          atomic.Pointer[error] // see tlsCredentials
}

func newStore(o Options) *store {
	return &store{root: o.Root, ttl: o.TTL, requestTimeout: requestTimeout}
}

func (s *store) Engine() string { return "etcd" }

func (s *store) Close() error {
	if s.stop == nil {
		return nil
	}
	defer s.stop()
	return s.client.Close()
}

// persist makes a request again until it is answered or refused, or the context
// ends. Each attempt goes to the next member, and to one that has a leader.
func (s *store) persist(ctx context.Context, request func(context.Context) error) error {
	if err := s.closed(); err != nil {
		return err
	}
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		attempt, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.requestTimeout)
		err := s.failed(request(attempt))
		cancel()
		switch {
		case err == nil || permanent(err):
			return err
		case ctx.Err() == nil:
			last = err
		case last != nil:
			return last // says more than that time was up
		default:
			return err
		}
		pauseFor(ctx, pause)
	}
}

// probe asks for something, through the leader.
func (s *store) probe(ctx context.Context) error {
	return s.persist(ctx, func(ctx context.Context) error {
		_, err := s.client.Get(ctx, s.root+"/", clientv3.WithCountOnly())
		return err
	})
}

// Connect makes a lease. If the reply to an attempt is lost, that one's lease
// ends by itself.
func (s *store) Connect(ctx context.Context) (driver.Session, error) {
	seconds := int64((s.ttl + time.Second - 1) / time.Second)
	var granted *clientv3.LeaseGrantResponse
	err := s.persist(ctx, func(ctx context.Context) error {
		var err error
		granted, err = s.client.Grant(ctx, seconds)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newSession(s, granted.ID, time.Duration(granted.TTL)*time.Second), nil
}

func (s *store) List(ctx context.Context, scope driver.Scope) ([]driver.Entry, error) {
	if scope.First && !scope.Prefix {
		resp, err := s.list(ctx, scope, clientv3.WithLimit(1))
		if err != nil {
			return nil, err
		}
		if entries := s.entries(resp, scope); len(entries) > 0 || !resp.More {
			return entries, nil
		}
	}
	resp, err := s.list(ctx, scope)
	if err != nil {
		return nil, err
	}
	return s.entries(resp, scope), nil
}

func (s *store) list(ctx context.Context, scope driver.Scope, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := s.closed(); err != nil {
		return nil, err
	}
	opts = append(opts, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	resp, err := s.client.Get(clientv3.WithRequireLeader(ctx), s.reach(scope), opts...)
	return resp, s.failed(err)
}

func (s *store) entries(resp *clientv3.GetResponse, scope driver.Scope) []driver.Entry {
	var entries []driver.Entry
	for _, kv := range resp.Kvs {
		q, ok := s.queue(string(kv.Key), scope)
		if !ok {
			continue
		}
		if e, ok := s.entry(kv, q); ok {
			entries = append(entries, e)
		}
	}
	return entries
}

var errWatchClosed = errors.New("the watch was closed")
