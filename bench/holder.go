package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/lockctl/lockctl/bench/internal/report"
	"github.com/lockctl/lockctl/recipes"
)

const (
	fewLocks  = 10
	manyLocks = 100_000
)

// The figures of a holder.
const (
	bytesPerLock  = "bytes per lock"
	heapPerLock   = "heap in use per lock"
	holdsSessions = "sessions"
	renewalsFew   = "renewals, 10 held"
	renewalsMany  = "renewals"
)

// parallel is how many requests are under way at once while a crowd is made, or its
// locks are.
const parallel = 128

// A session of holderTTL is renewed about four times in that time. renewalTime is for
// how long renewals are counted.
const (
	holderTTL   = 8 * time.Second
	renewalTime = 12 * time.Second
)

// A holder is a crew of one client that takes turns at a lock while it holds many
// others.
type holder struct {
	crew
	found []report.Count
}

func (h *holder) survey(context.Context, time.Duration) error { return nil }
func (h *holder) figures() []report.Count                     { return h.found }

// sessionCounter tells of a service what it knows of sessions.
type sessionCounter struct {
	// sessions is how many there are.
	sessions func(ctx context.Context, at site) (float64, error)
	// renewals is the metric of the requests that keep sessions alive.
	renewals string
	// during is for how long those are counted.
	during time.Duration
}

var etcdSessions = sessionCounter{
	sessions: func(ctx context.Context, at site) (float64, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: at.service.addrs(), DialTimeout: startTimeout})
		if err != nil {
			return 0, err
		}
		leases, err := client.Leases(ctx)
		if err != nil {
			return 0, errors.Join(err, client.Close())
		}
		return float64(len(leases.Leases)), client.Close()
	},
	renewals: `grpc_server_msg_received_total{grpc_method="LeaseKeepAlive",`,
	during:   renewalTime,
}

var zkSessions = sessionCounter{
	sessions: func(ctx context.Context, at site) (float64, error) {
		return at.service.sum(ctx, "zk_num_alive_connections")
	},
	renewals: "zk_packets_received",
	during:   renewalTime,
}

// holderOf is a contender that holds n locks. With counted it tells what those cost,
// for which nobody else may use the service meanwhile.
func holderOf(n int, dial dialer, counted *sessionCounter) func(ctx context.Context, at site) (runner, error) {
	return func(ctx context.Context, at site) (_ runner, err error) {
		h := &holder{}
		defer func() {
			if err != nil {
				_ = h.close() // the first error is the one to report
			}
		}()
		var before float64
		if counted != nil {
			if before, err = counted.sessions(ctx, at); err != nil {
				return nil, err
			}
		}
		client, err := dial(ctx, at, holderTTL)
		if err != nil {
			return nil, err
		}
		turn, err := takeTurns(&h.crew, client, at)
		if err != nil {
			return nil, err
		}
		h.turns = append(h.turns, turn)
		if counted == nil {
			return h, h.hold(ctx, client, at, make([]*recipes.Hold, n))
		}
		return h, h.account(ctx, client, at, n, before, *counted)
	}
}

// account takes n locks, and finds what they cost.
func (h *holder) account(ctx context.Context, client *recipes.Client, at site, n int, before float64, c sessionCounter) error {
	few, many := make([]*recipes.Hold, min(fewLocks, n)), make([]*recipes.Hold, n-min(fewLocks, n))
	if err := h.hold(ctx, client, at, few); err != nil {
		return err
	}
	renewedFew, err := countFor(ctx, at.service, c.renewals, c.during)
	if err != nil {
		return err
	}
	live, heap := memory()
	if err := h.hold(ctx, client, at, many); err != nil {
		return err
	}
	liveAfter, heapAfter := memory()
	renewed, err := countFor(ctx, at.service, c.renewals, c.during)
	if err != nil {
		return err
	}
	sessions, err := c.sessions(ctx, at)
	h.found = []report.Count{
		{What: bytesPerLock, Each: math.Round((liveAfter - live) / float64(len(many)))},
		{What: heapPerLock, Each: math.Round((heapAfter - heap) / float64(len(many)))}, {What: holdsSessions, Each: sessions - before},
		{What: renewalsFew, Each: renewedFew}, {What: renewalsMany, Each: renewed},
	}
	return err
}

// hold takes locks and keeps them until close, which gives them up one by one: a
// server of ZooKeeper would remove those of a session in one transaction, which may be
// larger than it can send to another.
func (h *holder) hold(ctx context.Context, client *recipes.Client, at site, holds []*recipes.Hold) error {
	h.closers = append(h.closers, func() error {
		var g errgroup.Group
		g.SetLimit(parallel)
		for _, hold := range holds {
			if hold != nil {
				g.Go(func() error { return hold.Unlock(context.Background()) })
			}
		}
		return g.Wait()
	})
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range holds {
		g.Go(func() error {
			mutex, err := client.Mutex(fmt.Sprintf("%s/%d/%d", at.name, len(holds), i), nil)
			if err == nil {
				holds[i], err = mutex.Lock(ctx)
			}
			return err
		})
	}
	return g.Wait()
}

// countFor is how much a metric of the service grows in a time.
func countFor(ctx context.Context, s service, metric string, d time.Duration) (float64, error) {
	before, err := s.sum(ctx, metric)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := s.sum(ctx, metric)
	return after - before, err
}

// memory is what this process uses after the garbage was collected, in bytes: by what
// is alive on the heap, and by all of the heap that can't be given back, with the gaps
// between. Both have the stacks.
func memory() (live, heap float64) {
	runtime.GC()
	runtime.GC() // the first one may leave what finalizers and pools had
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), float64(m.HeapInuse + m.StackInuse)
}
