//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

// actor makes what a loop uses, and says what it does with it. A new recipe gets a
// kind in package history, a case here, and a check in package check.
func (p *process) actor(ctx context.Context, l Loop, loops *sync.WaitGroup) (action, error) {
	switch l.Kind {
	case history.Mutex:
		m, err := p.client.Mutex(l.Name, &recipes.MutexOptions{Retain: l.Retain})
		return func(ctx context.Context, o *loop) { o.lock(ctx, history.Mutex, l.Name, 0, m.Lock) }, err
	case history.Writer:
		m, err := p.client.RWMutex(l.Name, nil)
		return func(ctx context.Context, o *loop) { o.readOrWrite(ctx, m) }, err
	case history.Semaphore:
		s, err := p.client.Semaphore(l.Name, SemaphoreLimit, nil)
		return func(ctx context.Context, o *loop) {
			permits := 1 + o.rand.IntN(2)
			o.lock(ctx, history.Semaphore, l.Name, permits, func(ctx context.Context) (*recipes.Hold, error) {
				return s.Acquire(ctx, permits)
			})
		}, err
	case history.Election:
		e, err := election.New(p.client, l.Name, nil)
		if err == nil {
			loops.Go(func() { p.observe(ctx, e) })
		}
		return func(ctx context.Context, o *loop) { o.campaign(ctx, e) }, err
	case history.Queue:
		q, err := recipes.NewQueue[int](p.client, l.Name, &recipes.QueueOptions{MaxAttempts: 1000})
		return func(ctx context.Context, o *loop) { o.produceAndConsume(ctx, q) }, err
	case history.Limiter:
		limiter, err := ratelimit.New(p.client, l.Name, &ratelimit.Options{Config: LimiterConfig(l.Name), Strict: true})
		if err == nil {
			p.closing = append(p.closing, limiter.Close)
		}
		return func(ctx context.Context, o *loop) { o.spend(ctx, limiter) }, err
	case history.Counter:
		c, err := recipes.NewCounter(p.client, l.Name)
		return func(ctx context.Context, o *loop) { o.count(ctx, c) }, err
	case history.Once:
		once, err := recipes.NewOnce[string](p.client, l.Name, &recipes.OnceOptions{Keep: onceKeep})
		return func(ctx context.Context, o *loop) { o.doOnce(ctx, once) }, err
	case history.Shard:
		partition, err := p.client.Partition(l.Name, shards, &recipes.PartitionOptions{Settle: settle})
		return func(ctx context.Context, o *loop) { o.join(ctx, partition) }, err
	case history.Seized:
		m, err := p.client.Mutex(l.Name, nil)
		return func(ctx context.Context, o *loop) { o.endure(ctx, m) }, err
	case history.Operator:
		return func(ctx context.Context, o *loop) { o.operate(ctx, l.Name) }, nil
	case history.Round:
		b, err := p.client.DoubleBarrier(l.Name, RoundSize)
		return func(ctx context.Context, o *loop) { o.cross(ctx, b) }, err
	case history.Barrier, history.Passer:
		b, err := p.client.Barrier(l.Name)
		if l.Kind == history.Passer {
			return func(ctx context.Context, o *loop) { o.pass(ctx, b) }, err
		}
		return func(ctx context.Context, o *loop) { o.keepBarrier(ctx, b) }, err
	case history.Latch, history.Awaiter:
		latch, err := p.client.Latch(l.Name, latchCount)
		if l.Kind == history.Awaiter {
			return func(ctx context.Context, o *loop) { o.awaitLatch(ctx, latch) }, err
		}
		return func(ctx context.Context, o *loop) { o.countDown(ctx, latch) }, err
	case history.Job:
		j, err := job.New(p.client, l.Name, &jobOptions)
		if err == nil {
			loops.Go(func() { p.oversee(ctx, l.Name) })
		}
		return func(ctx context.Context, o *loop) { o.tick(ctx, j) }, err
	case history.Group:
		g, err := p.client.Group(l.Name)
		return func(ctx context.Context, o *loop) { o.visit(ctx, g) }, err
	}
	return nil, errors.New("there is no such kind of loop")
}

// What a round waits for at the most.
const (
	patience      = 10 * time.Minute // of those who wait until they are served
	impatience    = 400 * time.Millisecond
	unlockTimeout = 3 * time.Second
	takeTimeout   = 8 * time.Second // so that a line of slow workers is served before it is given up
)

// begin records that the loop asks for something, and says for how long it waits.
func (l *loop) begin(ctx context.Context, e history.Event) (history.Event, context.Context, context.CancelFunc) {
	e.Loop, e.Op, e.What = l.name, l.ops.Add(1), history.Called
	wait := patience
	if l.one(10) { // gives up soon
		wait = time.Duration(1 + l.rand.Int64N(int64(impatience)))
	}
	l.log.Add(e)
	waiting, cancel := context.WithTimeout(ctx, wait)
	return e, waiting, cancel
}

// failed records that the loop did not get what it asked for.
func (l *loop) failed(ctx context.Context, e history.Event, err error) {
	e.What, e.Err = history.Failed, err.Error()
	l.log.Add(e)
	l.pause(ctx, 20*time.Millisecond, 100*time.Millisecond)
}

// granted records that the loop has it, and has the record say when that is lost.
// What it returns ends that.
func (l *loop) granted(held context.Context, e history.Event) (stop func()) {
	e.What = history.Granted
	l.log.Add(e)
	told := make(chan struct{})
	cancel := context.AfterFunc(held, func() {
		defer close(told)
		if cause := context.Cause(held); errors.Is(cause, recipes.ErrLost) {
			e.What, e.Err = history.Ended, cause.Error()
			l.log.Add(e)
		}
	})
	return func() {
		if !cancel() {
			<-told
		}
	}
}

// released records the release, before and after.
func (l *loop) released(e history.Event, release func(ctx context.Context) error) {
	e.What = history.Release
	l.log.Add(e)
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	if err := release(ctx); err != nil {
		e.Err = err.Error()
	}
	e.What = history.Released
	l.log.Add(e)
}

// work takes some time, or until the context ends: mostly little, now and then long
// enough for a fault to find a holder.
func (l *loop) work(held context.Context) {
	if l.one(l.config.Long) {
		l.pause(held, l.config.LongFor/6, l.config.LongFor)
		return
	}
	l.pause(held, time.Millisecond, 15*time.Millisecond)
}

// locking is a lock's way to lock it.
type locking func(ctx context.Context) (*recipes.Hold, error)

// lock is a round with a lock, a fenced write in it if it is exclusive.
func (l *loop) lock(ctx context.Context, kind, name string, permits int, lock locking) {
	l.hold(ctx, history.Event{Kind: kind, Name: name, N: permits}, lock, func(hold *recipes.Hold, e history.Event) {
		if permits == 0 && kind != history.Reader {
			l.fencedWrite(hold.Context(), e)
		} else {
			l.work(hold.Context())
		}
	})
}

// hold is a round with a lock, and with some use of it.
func (l *loop) hold(ctx context.Context, e history.Event, lock locking, use func(*recipes.Hold, history.Event)) {
	e, waiting, cancel := l.begin(ctx, e)
	defer cancel()
	hold, err := lock(waiting)
	if err != nil {
		l.failed(ctx, e, err)
		return
	}
	e.Token = hold.Token()
	defer l.granted(hold.Context(), e)()
	use(hold, e)
	l.released(e, hold.Unlock)
}

// fencedWrite adds one to a register, as whoever holds the lock does. Every other time
// it does not look whether it still holds it, as much code doesn't: then the fence is
// all that keeps what is late out.
func (l *loop) fencedWrite(held context.Context, e history.Event) {
	register := e.Kind + "/" + e.Name
	value, err := l.vault.Open(e, register, e.Token)
	if keep := time.Duration(l.keep.Swap(0)); keep > 0 && err == nil {
		e.What = history.Keeping
		l.log.Add(e)
		l.pause(held, keep, keep+time.Millisecond)
	}
	l.work(held)
	if looks := l.one(2); err != nil || looks && held.Err() != nil {
		return
	}
	_ = l.vault.Write(e, register, e.Token, value+1) // whatever came of it is recorded
}

// ExactLimiter is the name of the limiter whose decisions are commits.
const ExactLimiter = "exact"

// LimiterConfig is what a limiter of a run allows. Wrong clocks of processes that start
// can add tokens, unless they are strict, as those of workers are.
func LimiterConfig(name string) ratelimit.Config {
	config := ratelimit.Config{Rate: ratelimit.PerSecond(40), Burst: 20}
	if name == ExactLimiter {
		config.Mode = ratelimit.Exact
	}
	return config
}

// spend is a round with a limiter. Mostly it does not wait, so that it is known when the
// tokens were spent.
func (l *loop) spend(ctx context.Context, limiter *ratelimit.Limiter) {
	n := 1 + l.rand.IntN(3)
	e, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Limiter, Name: limiter.Name(), N: n})
	defer cancel()
	decide := limiter.AllowN
	if l.one(4) {
		decide = limiter.WaitN
	}
	decision, err := decide(waiting, "", int64(n))
	switch {
	case err != nil:
		l.failed(ctx, e, err)
	case !decision.OK:
		l.failed(ctx, e, errRefused)
	default:
		e.What = history.Granted
		l.log.Add(e)
	}
}

var errRefused = errors.New("no tokens")

// readOrWrite is a round with a reader/writer lock.
func (l *loop) readOrWrite(ctx context.Context, m *recipes.RWMutex) {
	switch {
	case !l.one(3):
		l.lock(ctx, history.Reader, m.Name(), 0, m.RLock)
	case !l.one(4):
		l.lock(ctx, history.Writer, m.Name(), 0, m.Lock)
	default:
		l.downgrade(ctx, m)
	}
}

// downgrade is a round of a writer that becomes a reader.
func (l *loop) downgrade(ctx context.Context, m *recipes.RWMutex) {
	l.hold(ctx, history.Event{Kind: history.Writer, Name: m.Name()}, m.Lock, func(hold *recipes.Hold, e history.Event) {
		l.fencedWrite(hold.Context(), e)
		changing, cancel := context.WithTimeout(hold.Context(), unlockTimeout)
		defer cancel()
		e.What, e.Since = history.Changed, history.Now()
		if err := m.Downgrade(changing, hold); err != nil {
			e.Err = err.Error()
		}
		l.log.Add(e)
		l.work(hold.Context())
	})
}

// campaign is a round of a candidate.
func (l *loop) campaign(ctx context.Context, e *election.Election) {
	op, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Election, Name: e.Name()})
	defer cancel()
	lead, err := e.Campaign(waiting, fmt.Sprintf("%s %d", l.config.Proc, op.Op))
	if err != nil {
		l.failed(ctx, op, err)
		return
	}
	op.Token = lead.Term()
	defer l.granted(lead.Context(), op)()
	l.fencedWrite(lead.Context(), op)
	l.released(op, lead.Resign)
}

// observe records which leaders an observer sees.
func (p *process) observe(ctx context.Context, e *election.Election) {
	for view, err := range e.Observe(ctx) {
		if err == nil && view.State == election.Led {
			p.log.Add(history.Event{What: history.Saw, Kind: history.Election, Name: e.Name(), Token: view.Leader.Term})
		}
	}
}

// produceAndConsume takes an item, and puts one for each that is done with, so that
// there are about as many as there are loops.
func (l *loop) produceAndConsume(ctx context.Context, q *recipes.Queue[int]) {
	if !l.owing {
		l.put(ctx, q)
	}
	done := l.consume(ctx, q)
	l.owing = done == Returned || done == 0 && !l.few(ctx, q)
}

// fewItems is as many as there are workers.
const fewItems = 4

// few reports whether a queue is known to have no more than a few items: those of workers
// that were killed before they put one are missing.
func (l *loop) few(ctx context.Context, q *recipes.Queue[int]) bool {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	n, err := q.Len(ctx)
	return err == nil && n < fewItems
}

func (l *loop) put(ctx context.Context, q *recipes.Queue[int]) {
	put := history.Event{Loop: l.name, Op: l.ops.Add(1), Kind: history.Queue, Name: q.Name(), What: history.Putting}
	put.ID = fmt.Sprintf("%s-%d", l.config.Proc, put.Op)
	l.log.Add(put)
	putting, cancel := context.WithTimeout(ctx, takeTimeout)
	_, err := q.Put(putting, int(put.Op), &recipes.PutOptions{ID: put.ID})
	cancel()
	put.What = history.Put
	if err != nil {
		put.Err = err.Error()
	}
	l.log.Add(put)
}

// consume takes an item, works on it and acknowledges or returns it, which it reports,
// or 0 if there was none in time.
func (l *loop) consume(ctx context.Context, q *recipes.Queue[int]) int64 {
	e := history.Event{Loop: l.name, Op: l.ops.Add(1), Kind: history.Queue, Name: q.Name(), What: history.Called}
	l.log.Add(e)
	taking, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	item, err := q.Take(taking)
	if err != nil {
		l.failed(ctx, e, err)
		return 0
	}
	e.ID, e.Token, e.N = item.ID(), item.Token(), item.Attempt()
	defer l.granted(item.Context(), e)()
	l.work(item.Context())
	if l.one(10) {
		e.Value = Returned
		l.released(e, func(ctx context.Context) error { return item.Return(ctx, 0) })
		return Returned
	}
	e.Value = Acknowledged
	l.released(e, item.Ack)
	return Acknowledged
}

// What becomes of an item, as the Value of history.Release and history.Released.
const (
	Acknowledged = 1
	Returned     = 2
)
