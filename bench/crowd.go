package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/lockctl/lockctl/bench/internal/report"
	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/recipes"
)

// How many wait for one lock. Each has a session of its own; on ZooKeeper that is a
// connection too, and each who enters lists the queue.
const (
	fewWaiters    = 10
	manyWaiters   = 10_000
	manyWaitersZK = 1_000
)

// The figures of a crowd.
const (
	kibPerWaiter = "KiB per waiter"
	msToEnter    = "ms to enter"
	eventsEach   = "events per release"
)

// waiterTTL is long, so that renewals of many sessions don't fill the machine.
const waiterTTL = 58 * time.Second

// A crowd is many sessions of this process that wait for one lock. What is measured is
// from a release to the next grant; who has released goes to the end of the line.
type crowd struct {
	crew
	at      site
	events  []string // the metrics of the events that the service has sent
	clients []*recipes.Client
	mutexes []*recipes.Mutex

	lasting context.Context // of the waits
	waiting sync.WaitGroup
	granted chan grant
	now     grant // who holds the lock
	enter   func(ctx context.Context) (time.Duration, error)

	each    float64 // bytes for each waiter
	entered []time.Duration
	sent    []float64 // events for each release
}

// A grant is a hold of one of the crowd.
type grant struct {
	of   int
	hold *recipes.Hold
	at   time.Time
	err  error
}

func (c *crowd) spans() {}

// An opener opens one of a crowd's sessions.
type opener func(ctx context.Context) (*recipes.Client, error)

// The metrics of the events that a service sends.
func etcdEvents() []string { return []string{"etcd_debugging_mvcc_events_total"} }

func zkEvents() []string {
	return []string{
		"zk_sum_node_created_watch_count", "zk_sum_node_deleted_watch_count",
		"zk_sum_node_changed_watch_count", "zk_sum_node_children_watch_count",
	}
}

// crowdOf has n sessions in the line of a lock. newEnter makes what has one more enter it
// and leave, and returns how long it took to enter; nil if that can't be told.
func crowdOf(n int, newOpen func(c *crowd) (opener, error), events []string,
	newEnter func(ctx context.Context, c *crowd) (func(context.Context) (time.Duration, error), error),
) func(ctx context.Context, at site) (runner, error) {
	return func(ctx context.Context, at site) (runner, error) {
		c := &crowd{
			at: at, events: events,
			clients: make([]*recipes.Client, n), mutexes: make([]*recipes.Mutex, n), granted: make(chan grant, n+1),
		}
		open, err := newOpen(c)
		if err == nil {
			err = c.gather(ctx, open)
		}
		if err == nil && newEnter != nil {
			c.enter, err = newEnter(ctx, c)
		}
		if err != nil {
			_ = c.close() // the first error is the one to report
			return nil, err
		}
		return c, nil
	}
}

// gather opens the sessions, each of which begins to wait.
func (c *crowd) gather(ctx context.Context, open opener) error {
	var cancel context.CancelFunc
	c.lasting, cancel = context.WithCancel(context.Background())
	c.closers = append(c.closers, func() error {
		cancel() // all at once: whoever still waits when another leaves would look who is ahead
		c.waiting.Wait()
		var g errgroup.Group
		g.SetLimit(parallel)
		for _, client := range c.clients {
			if client != nil {
				g.Go(client.Close)
			}
		}
		return g.Wait()
	})
	before, _ := memory()
	g, opening := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range c.clients {
		g.Go(func() (err error) {
			if c.clients[i], err = open(opening); err != nil {
				return err
			}
			c.mutexes[i], err = c.clients[i].Mutex(c.at.name, nil)
			if err == nil {
				c.queue(i)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := c.awaitLine(ctx); err != nil {
		return err
	}
	after, _ := memory()
	c.each = (after - before) / float64(len(c.clients))
	return c.take(ctx)
}

// queue has one wait for the lock.
func (c *crowd) queue(i int) {
	c.waiting.Go(func() {
		hold, err := c.mutexes[i].Lock(c.lasting)
		if err == nil || c.lasting.Err() == nil {
			c.granted <- grant{i, hold, time.Now(), err}
		}
	})
}

// awaitLine returns when all are in line.
func (c *crowd) awaitLine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	for {
		lock, err := c.clients[0].Lock(ctx, c.at.name)
		if err != nil || len(lock.Entries) >= len(c.clients) {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d are in line: %w", len(lock.Entries), len(c.clients), err)
		}
	}
}

// take waits for the next grant.
func (c *crowd) take(ctx context.Context) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case c.now = <-c.granted:
		return c.now.err
	case <-timer.C:
		return fmt.Errorf("nobody was granted the lock within %v", patience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass has the holder release, and returns how long it took until the next in line had
// the lock.
func (c *crowd) pass(ctx context.Context) (time.Duration, error) {
	last, start := c.now, time.Now()
	if err := last.hold.Unlock(ctx); err != nil {
		return 0, err
	}
	if err := c.take(ctx); err != nil {
		return 0, err
	}
	return c.now.at.Sub(start), nil
}

func (c *crowd) measure(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	var spans []time.Duration
	for start := time.Now(); len(spans) == 0 || time.Since(start) < d; {
		last := c.now.of
		span, err := c.pass(ctx)
		if err != nil {
			return nil, err
		}
		spans = append(spans, span)
		c.queue(last)
	}
	return spans, nil
}

// survey counts the events of a release, and times those who enter.
func (c *crowd) survey(ctx context.Context, d time.Duration) error {
	if err := c.awaitLine(ctx); err != nil {
		return err
	}
	for range 3 {
		before, err := c.at.service.sum(ctx, c.events...)
		if err != nil {
			return err
		}
		last := c.now.of
		if _, err := c.pass(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil { // for events that nobody should get
			return err
		}
		after, err := c.at.service.sum(ctx, c.events...)
		if err != nil {
			return err
		}
		c.sent = append(c.sent, after-before)
		c.queue(last)
	}
	if err := c.awaitLine(ctx); err != nil || c.enter == nil {
		return err
	}
	for start := time.Now(); time.Since(start) < d; {
		took, err := c.enter(ctx)
		if err != nil {
			return err
		}
		c.entered = append(c.entered, took)
	}
	return nil
}

func (c *crowd) figures() []report.Count {
	most := 0.0
	for _, n := range c.sent {
		most = max(most, n)
	}
	found := []report.Count{{What: eventsEach, Each: most}}
	if len(c.clients) > fewWaiters { // or what all share, such as connections, is most of it
		found = append(found, report.Count{What: kibPerWaiter, Each: math.Round(c.each/1024*10) / 10})
	}
	if len(c.entered) > 0 {
		found = append(found, report.Count{What: msToEnter, Each: report.Median(c.entered).Seconds() * 1000})
	}
	return found
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connections is over how many connections the sessions on etcd are spread.
const connections = 8

// overFew opens sessions on etcd that share a few connections.
func overFew(c *crowd) (opener, error) {
	shared := make([]*clientv3.Client, connections)
	for i := range shared {
		var err error
		if shared[i], err = dialEtcd(&c.crew, c.at); err != nil {
			return nil, err
		}
	}
	var next atomic.Int64
	return func(ctx context.Context) (*recipes.Client, error) {
		return etcd.Open(ctx, shared[next.Add(1)%connections], &etcd.Options{
			TTL: waiterTTL, Client: recipes.ClientOptions{ConnectTimeout: patience, CloseTimeout: patience},
		})
	}, nil
}

// eachItsOwn opens sessions on ZooKeeper.
func eachItsOwn(c *crowd) (opener, error) {
	return func(ctx context.Context) (*recipes.Client, error) { return dialZKClient(ctx, c.at, waiterTTL) }, nil
}

// enterEtcd makes what has one more session enter the line and leave. That it has
// entered, a watch tells.
func enterEtcd(ctx context.Context, c *crowd) (func(context.Context) (time.Duration, error), error) {
	client, err := dialEtcdClient(ctx, c.at, sessionTTL)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, client.Close)
	if err := openSession(ctx, client, c.at.name+"-aside"); err != nil {
		return nil, err
	}
	mutex, err := client.Mutex(c.at.name, nil)
	if err != nil {
		return nil, err
	}
	raw, err := dialEtcd(&c.crew, c.at)
	if err != nil {
		return nil, err
	}
	own := "/lockctl/lock/" + c.at.name + "/" + client.SessionID()
	return func(ctx context.Context) (took time.Duration, err error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		watch := raw.Watch(ctx, own, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-watch // it is made
		waitCtx, giveUp := context.WithCancel(ctx)
		defer giveUp()
		waited := make(chan error, 1)
		start := time.Now()
		go func() {
			_, err := mutex.Lock(waitCtx)
			waited <- err
		}()
		if err := oneEvent(ctx, watch, clientv3.EventTypePut); err != nil {
			return 0, fmt.Errorf("enter the line: %w", err)
		}
		took = time.Since(start)
		giveUp()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			return 0, fmt.Errorf("wait in line: %w", err)
		}
		if err := oneEvent(ctx, watch, clientv3.EventTypeDelete); err != nil {
			return 0, fmt.Errorf("leave the line: %w", err)
		}
		return took, nil
	}, nil
}

// openSession has a client open its session.
func openSession(ctx context.Context, client *recipes.Client, name string) error {
	mutex, err := client.Mutex(name, nil)
	if err != nil {
		return err
	}
	return turnsOf(mutex)(ctx, func() {})
}

// oneEvent waits for an event of the type, and nothing else.
func oneEvent(ctx context.Context, watch clientv3.WatchChan, want mvccpb.Event_EventType) error {
	select {
	case resp := <-watch:
		if resp.Err() != nil || len(resp.Events) != 1 || resp.Events[0].Type != want {
			return fmt.Errorf("the watch told of %v, %w", resp.Events, resp.Err())
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
