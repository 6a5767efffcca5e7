package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A redlock is a driver.Leaser over nodes that know nothing of each other. A lease is
// whose ID a majority of them has.
//
// Each attempt to acquire writes an ID of its own, the lease's with a number behind it, so
// that what is undone of an attempt never undoes part of a later one.
type redlock struct {
	nodes    []*node
	quorum   int
	drift    float64       // of clocks, as a part of the time
	bound    time.Duration // of a request to one node; 0 for a part of the TTL
	attempts atomic.Uint64
	ttl      atomic.Int64 // the longest that was asked for: so long a key can last

	ctx  context.Context // ends when it is closed
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	split  map[string]time.Time // when contenders last got in each other's way, by name
	voting map[string]*ballot   // by the ID of the attempt, while a node's vote is on its way
	wg     sync.WaitGroup       // of requests, and of what is undone
}

var (
	_ driver.Leaser         = (*redlock)(nil)
	_ driver.ReleaseWatcher = (*redlock)(nil)
)

const (
	boundPart        = 10                     // a request to a node is given up after this part of the TTL
	leastDrift       = 2 * time.Millisecond   // for the precision of expiry
	undoBound        = 500 * time.Millisecond // of an attempt to undo something on a node, also while the store is closed
	undoPause        = 50 * time.Millisecond  // between attempts to undo something on a node, at first
	longestUndoPause = time.Second            // the same, later
	splitFor         = time.Second            // so long contenders keep out of each other's way
	splitsKept       = 1000                   // names, before those are dropped for which that is over
	lookBound        = 4 * time.Second        // of a request that is not about a TTL
	restBound        = 100 * time.Millisecond // for the rest of the nodes, when a majority has told what it has
)

func newRedlock(nodes []*node, drift float64, bound time.Duration) *redlock {
	r := &redlock{nodes: nodes, quorum: len(nodes)/2 + 1, drift: drift, bound: bound, split: map[string]time.Time{}, voting: map[string]*ballot{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

func (r *redlock) Engine() string { return "redlock" }

// Close waits for what is on its way, and gives up what could not be undone yet.
func (r *redlock) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.wg.Wait()
	var errs []error
	for _, n := range r.nodes {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// perNode is how long a node may take.
func (r *redlock) perNode(ttl time.Duration) time.Duration {
	if r.bound > 0 {
		return r.bound
	}
	return ttl / boundPart
}

// driftOf is by how much clocks may have come apart during a TTL.
func driftOf(ttl time.Duration, drift float64) time.Duration {
	return time.Duration(float64(ttl)*drift) + leastDrift
}

// since is the time that has passed, by the clock by which more has: the monotonic one
// stands still while the machine is suspended, the other one may be set.
func since(start time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}

// An answer is one node's.
type answer struct {
	node  *node
	lease driver.Lease
	err   error
}

// each asks the nodes at the same time, for the given time each. It returns false if the
// store is closed. What then is run for each node, when it has answered or was given up.
func (r *redlock) each(nodes []*node, bound time.Duration, request func(context.Context, *node) (driver.Lease, error), then func(answer)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	for _, n := range nodes {
		r.wg.Go(func() {
			ctx, cancel := context.WithTimeout(r.ctx, bound)
			lease, err := request(ctx, n)
			cancel()
			then(answer{n, lease, err})
		})
	}
	return true
}

// Acquire implements driver.Leaser. It asks all nodes at the same time. Where
// contenders have just split the nodes among them, so that none had a majority, it asks the
// first node before the others: who gets that is likely to get the rest.
func (r *redlock) Acquire(ctx context.Context, want driver.Lease, ttl time.Duration) (driver.Lease, error) {
	start := time.Now()
	r.lasts(ttl)
	mine := want
	mine.ID += ":" + strconv.FormatUint(r.attempts.Add(1), 10)
	answers, decided := make(chan answer, len(r.nodes)), make(chan struct{})
	granted := false // as of decided
	b := r.open(mine.ID)
	ask := func(nodes []*node) bool {
		return r.each(nodes, r.perNode(ttl), func(ctx context.Context, n *node) (driver.Lease, error) {
			return n.take(ctx, vote, mine, ttl)
		}, func(a answer) {
			answers <- a
			r.voted(mine.ID, b, a.node)
			if <-decided; !granted && !errors.Is(a.err, driver.ErrTaken) {
				r.undo(a.node, mine, a.err == nil)
			}
		})
	}
	defer func() {
		if !granted {
			r.drop(mine.ID)
		}
		close(decided)
	}()
	t := tally{nodes: len(r.nodes), quorum: r.quorum, asked: len(r.nodes), seen: map[string]driver.Lease{}, count: map[string]int{}}
	if r.contended(want.Name) {
		t.asked = 1
	}
	for from := 0; from < t.asked; {
		if !ask(r.nodes[from:t.asked]) {
			return want, driver.ErrClosed
		}
		for from = t.asked; !t.decided(); {
			select {
			case a := <-answers:
				t.add(a)
			case <-ctx.Done():
				return want, ctx.Err()
			}
		}
		if t.taken == 0 {
			t.asked = len(r.nodes)
		}
	}
	got, err := t.outcome(want)
	if errors.Is(err, driver.ErrTaken) && t.yes > 0 {
		r.contend(want.Name)
	}
	if err != nil {
		return got, err
	}
	if left := ttl - since(start) - driftOf(ttl, r.drift); left <= 0 {
		return want, fmt.Errorf("a majority took too long: %v of a lease of %v", since(start), ttl)
	}
	granted = true
	return got, nil
}

// contend notes that contenders got in each other's way.
func (r *redlock) contend(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.split) >= splitsKept {
		maps.DeleteFunc(r.split, func(_ string, at time.Time) bool { return now.Sub(at) > splitFor })
	}
	r.split[name] = now
}

// contended reports whether they did so lately.
func (r *redlock) contended(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.split[name]
	return ok && time.Since(at) <= splitFor
}

// lasts notes for how long a key can last.
func (r *redlock) lasts(ttl time.Duration) {
	for {
		known := r.ttl.Load()
		if int64(ttl) <= known || r.ttl.CompareAndSwap(known, int64(ttl)) {
			return
		}
	}
}

// undo releases the lease on a node, until that confirms or the key has expired. If the
// node has not answered, its word that there is nothing does not settle it: the request
// may be on its way. It is called in a goroutine of the store's.
func (r *redlock) undo(n *node, l driver.Lease, answered bool) {
	expired := time.Now().Add(time.Duration(r.ttl.Load()))
	for wait := undoPause; time.Now().Before(expired); wait = min(2*wait, longestUndoPause) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), undoBound)
		err := n.release(ctx, l, true)
		cancel()
		if err == nil || answered && errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrDenied) {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-r.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// Renew implements driver.Leaser. Nodes that don't have the key don't get it again.
func (r *redlock) Renew(ctx context.Context, l driver.Lease, ttl time.Duration) error {
	r.lasts(ttl)
	return r.majority(ctx, r.perNode(ttl), func(ctx context.Context, n *node) error {
		return n.renew(ctx, l, ttl)
	}, nil, r.counted)
}

// counted is the verdict that a majority has to have done it.
func (r *redlock) counted(done, gone, failed int) (bool, error) {
	switch {
	case done >= r.quorum:
		return true, nil
	case len(r.nodes)-gone < r.quorum:
		return true, driver.ErrGone
	case len(r.nodes)-gone-failed < r.quorum:
		return true, fmt.Errorf("%d of %d nodes did not answer", failed, len(r.nodes))
	}
	return false, nil
}

// Release implements driver.Leaser. It is confirmed when a majority of the nodes don't
// have the lease any more; on others it is undone later.
func (r *redlock) Release(ctx context.Context, l driver.Lease) error {
	return r.majority(ctx, lookBound, func(ctx context.Context, n *node) error {
		if err := r.wait(ctx, l.ID, n); err != nil {
			return err
		}
		return n.release(ctx, l, true)
	}, func(n *node) { r.undo(n, l, false) }, func(done, gone, failed int) (bool, error) {
		settled := done+gone >= r.quorum
		all := done+gone+failed == len(r.nodes)
		switch {
		case settled && done > 0:
			return true, nil
		case settled && all:
			return true, driver.ErrGone
		case all:
			return true, fmt.Errorf("%d of %d nodes did not answer", failed, len(r.nodes))
		}
		return false, nil
	})
}

// majority asks all nodes until verdict says that the matter is settled, which is given
// how many have done it, have said that it is gone, and have failed. Where one has failed,
// later is run.
func (r *redlock) majority(ctx context.Context, bound time.Duration, request func(context.Context, *node) error, later func(*node),
	verdict func(done, gone, failed int) (bool, error),
) error {
	answers := make(chan error, len(r.nodes))
	if !r.each(r.nodes, bound, func(ctx context.Context, n *node) (driver.Lease, error) {
		return driver.Lease{}, request(ctx, n)
	}, func(a answer) {
		answers <- a.err
		if later != nil && a.err != nil && !errors.Is(a.err, driver.ErrGone) {
			later(a.node)
		}
	}) {
		return driver.ErrClosed
	}
	var done, gone, failed int
	var last error
	for {
		select {
		case err := <-answers:
			switch {
			case err == nil:
				done++
			case errors.Is(err, driver.ErrGone):
				gone++
			default:
				failed++
				last = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		if settled, err := verdict(done, gone, failed); settled {
			if err != nil && last != nil && !errors.Is(err, driver.ErrGone) {
				return fmt.Errorf("%w: %w", err, last)
			}
			return err
		}
	}
}
