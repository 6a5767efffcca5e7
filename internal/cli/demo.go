package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// A demoWorker takes locks in turns, so that there is something to see.
type demoWorker struct {
	owner recipes.Owner
	locks []string
	hold  time.Duration // about so long each time
	pause time.Duration // between two holds, about
}

// demoWorkers are a small fleet: an application, its batch machines, and people who
// deploy it. Some locks are always wanted by several, some rarely.
func demoWorkers() []demoWorker {
	return []demoWorker{
		{recipes.Owner{Program: "invoice-mailer", Host: "app-1", PID: 2114, User: "app"},
			[]string{"jobs/send-invoices"}, 9 * time.Second, 2 * time.Second},
		{recipes.Owner{Program: "invoice-mailer", Host: "app-2", PID: 1987, User: "app"},
			[]string{"jobs/send-invoices"}, 7 * time.Second, 3 * time.Second},
		{recipes.Owner{Program: "invoice-mailer", Host: "app-3", PID: 2230, User: "app"},
			[]string{"jobs/send-invoices"}, 8 * time.Second, 2 * time.Second},
		{recipes.Owner{Program: "pg-backup", Host: "db-1", PID: 811, User: "postgres", Label: "nightly, full"},
			[]string{"db/orders/maintenance"}, 25 * time.Second, 8 * time.Second},
		{recipes.Owner{Program: "migrate", Host: "build-4", PID: 30412, User: "ci", Label: "orders 0042_add_index"},
			[]string{"db/orders/maintenance"}, 12 * time.Second, 15 * time.Second},
		{recipes.Owner{Program: "vacuum", Host: "db-2", PID: 794, User: "postgres"},
			[]string{"db/orders/maintenance", "db/users/maintenance"}, 6 * time.Second, 4 * time.Second},
		{recipes.Owner{Program: "deploy.sh", Host: "build-2", PID: 28861, User: "ci", Label: "release 1.14.2"},
			[]string{"deploy/production"}, 18 * time.Second, 10 * time.Second},
		{recipes.Owner{Program: "deploy.sh", Host: "build-4", PID: 30977, User: "ci", Label: "release 1.14.3"},
			[]string{"deploy/staging", "deploy/production"}, 14 * time.Second, 6 * time.Second},
		{recipes.Owner{Program: "terraform", Host: "laptop-mira", PID: 5120, User: "mira", Label: "resize the queue"},
			[]string{"deploy/production", "infra/network"}, 20 * time.Second, 12 * time.Second},
		{recipes.Owner{Program: "catalog-worker", Host: "worker-1", PID: 402, User: "app"},
			[]string{"shards/catalog/07", "shards/catalog/12", "shards/catalog/31"}, 4 * time.Second, time.Second},
		{recipes.Owner{Program: "catalog-worker", Host: "worker-2", PID: 398, User: "app"},
			[]string{"shards/catalog/12", "shards/catalog/31", "shards/catalog/07"}, 5 * time.Second, time.Second},
	}
}

// A demoActor is a process of the fleet: act is what it does again and again.
type demoActor struct {
	owner recipes.Owner
	act   func(d demo) error
}

// demo is what an actor acts with, and for how long.
type demo struct {
	ctx    context.Context
	client *recipes.Client
	random *rand.Rand
	turn   int // how often it has acted
}

// about is about that time.
func (d demo) about(t time.Duration) time.Duration {
	return t/2 + time.Duration(d.random.Int64N(int64(t)))
}

// idle waits for about that time, or until the demo ends.
func (d demo) idle(t time.Duration) { idle(d.ctx, d.about(t)) }

// demoActors are the workers that take locks, and those who use everything else.
func demoActors() []demoActor {
	var actors []demoActor
	for _, w := range demoWorkers() {
		actors = append(actors, demoActor{w.owner, w.act})
	}
	for _, more := range [][]demoActor{
		searchActors(), payActors(), schedulerActors(), webActors(), mailActors(), releaseActors(), batchActors(),
		ingestActors(), reportActors(), gatewayActors(),
	} {
		actors = append(actors, more...)
	}
	return actors
}

// startDemo starts the actors. stop ends them, waits, and closes their clients.
// What goes wrong with one is said, and the others go on.
func startDemo(ctx context.Context, b backend, say func(string, ...any)) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	stop = func() {
		cancel()
		running.Wait()
	}
	for i, actor := range demoActors() {
		client, err := b.openClient(ctx, dialOptions{owner: actor.owner})
		if err != nil {
			stop()
			return nil, err
		}
		random := rand.New(rand.NewPCG(uint64(i), 0)) // the same show each time
		running.Go(func() {
			err := actor.play(demo{ctx: ctx, client: client, random: random})
			if err = errors.Join(err, client.Close()); err != nil && ctx.Err() == nil {
				say("demo worker %s: %v", actor.owner, err)
			}
		})
	}
	return stop, nil
}

// play acts until the demo ends. What was lost, or done by another at the same time, is
// done again, as in life.
func (a demoActor) play(d demo) error {
	d.idle(time.Second)
	for ; d.ctx.Err() == nil; d.turn++ {
		err := a.act(d)
		passing := errors.Is(err, recipes.ErrLost) || errors.Is(err, recipes.ErrUnavailable) || errors.Is(err, recipes.ErrConflict)
		if err != nil && !passing {
			return err
		}
	}
	return nil
}

// act takes the next of the worker's locks.
func (w demoWorker) act(d demo) error {
	mutex, err := d.client.Mutex(w.locks[d.turn%len(w.locks)], nil)
	if err != nil {
		return err
	}
	return d.use(mutex, w.hold, w.pause)
}

// use takes a lock, holds it for about a time, and pauses after that.
func (d demo) use(lock recipes.Locker[*recipes.Hold], hold, pause time.Duration) error {
	held, err := lock.Lock(d.ctx)
	if err != nil {
		return err
	}
	d.work(held.Context(), hold)
	if d.ctx.Err() != nil {
		return nil // its client gives it up
	}
	err = held.Unlock(d.ctx)
	d.idle(pause)
	return err
}

// work takes about that time, or until the context of what it is done under ends, or
// the demo does.
func (d demo) work(under context.Context, t time.Duration) {
	ctx, cancel := context.WithCancel(under)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	idle(ctx, d.about(t))
}

// idle waits for a time, or until the context ends.
func idle(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
