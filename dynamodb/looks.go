package dynamodb

import (
	"context"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// lookTimeout bounds a look that nobody has bounded.
const lookTimeout = 5 * time.Second

// Looks are reads of items that are shared by all who want to know the same at the same
// time: those who wait for a lock, of which there can be many in a process. A look
// begins after who shares it has asked for it, so nobody is told what is older.
type looks struct {
	ctx  context.Context // ends when the store is closed
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	all    map[string]*look // on their way, by name
	wg     sync.WaitGroup
}

// A look is one read.
type look struct {
	deadline time.Time
	done     chan struct{} // closed when it has ended
	item     item
	found    bool
	err      error
	next     *look // begins when this one has ended; guarded by looks.mu

	turn  chan struct{} // has a value while one of those who share it tries to get the lock
	taken *driver.Lease // what the others need not try to get; guarded by turn
}

func newLooks() *looks {
	l := &looks{all: map[string]*look{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// at reads the item, or has another read it.
func (l *looks) at(ctx context.Context, name string, get func(context.Context, string) (item, bool, error)) (*look, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, driver.ErrClosed
	}
	mine := &look{done: make(chan struct{}), turn: make(chan struct{}, 1), deadline: time.Now().Add(lookTimeout)}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(mine.deadline) {
		mine.deadline = deadline
	}
	switch now := l.all[name]; {
	case now == nil:
		l.all[name] = mine
		l.wg.Go(func() { l.run(name, mine, get) })
	case now.next == nil:
		now.next = mine
	default:
		mine = now.next
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine, mine.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run carries out a look, and those that were asked for meanwhile.
func (l *looks) run(name string, now *look, get func(context.Context, string) (item, bool, error)) {
	for now != nil {
		ctx, cancel := context.WithDeadline(l.ctx, now.deadline)
		now.item, now.found, now.err = get(ctx, name)
		cancel()
		l.mu.Lock()
		close(now.done)
		if now = now.next; now != nil {
			l.all[name] = now
		} else {
			delete(l.all, name)
		}
		l.mu.Unlock()
	}
}

func (l *looks) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
}
