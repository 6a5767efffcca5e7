package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// ErrUnset says that nothing is stored of a limiter, and that its user did not say what it
// should allow. Decisions return it.
var ErrUnset = errors.New("no limit is set")

// A Limiter is one process's part in a limit that all processes share. It is made by New,
// sends nothing until it is used, and is closed by Close, which gives back what is
// unspent. All methods may be called at the same time. Most callers want Allow, or Wait.
//
// A limiter has keys: one for each tenant, say, each with a budget of its own. The key ""
// is the limiter's own budget, and any other is the limiter "name/key".
type Limiter struct {
	client *recipes.Client
	name   string
	opts   Options
	who    string
	start  time.Time // moments are counted from here

	base    *bucket  // of the key ""
	buckets sync.Map // *bucket by key, without base

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	wg    sync.WaitGroup
	awake atomic.Bool // tend runs

	mu     sync.Mutex
	count  int // of buckets
	closed bool
}

// New makes a limiter called name, by the rules of recipes.Client.Mutex. It sends nothing.
// It returns ErrInvalid for a bad name, or an option that is out of range.
func New(c *recipes.Client, name string, opts *Options) (*Limiter, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, fmt.Errorf("limiter %q: %w", name, err)
	}
	l := &Limiter{client: c, name: name, opts: o, who: c.Owner().String(), start: time.Now()}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if l.base, err = l.newBucket(""); err != nil {
		return nil, err
	}
	return l, nil
}

// Name is the name of the limiter.
func (l *Limiter) Name() string { return l.name }

// now is the present moment.
func (l *Limiter) now() int64 { return int64(time.Since(l.start)) }

// registerName is where a key's budget is stored. A key that can't be part of a name,
// perhaps because someone sent it, goes by its hash.
func registerName(name, key string) string {
	if key == "" {
		return name
	}
	if len(name)+1+len(key) > driver.MaxName || !utf8.ValidString(key) || slices.ContainsFunc([]rune(key), unicode.IsControl) {
		sum := sha256.Sum256([]byte(key))
		key = "sha256:" + hex.EncodeToString(sum[:])
	}
	return name + "/" + key
}

func register(c *recipes.Client, name string) (*recipes.Register[record], error) {
	r, err := recipes.NewRegisterIn[record](c, driver.SpaceRate, name)
	if err != nil {
		return nil, fmt.Errorf("limiter: %w", err)
	}
	return r, nil
}

// bucket is the bucket of a key.
func (l *Limiter) bucket(key string) (*bucket, error) {
	if key == "" {
		return l.base, nil
	}
	if b, ok := l.buckets.Load(key); ok {
		return b.(*bucket), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, l.errClosed()
	}
	if b, ok := l.buckets.Load(key); ok {
		return b.(*bucket), nil
	}
	if l.count >= l.opts.MaxKeys {
		l.evict()
	}
	b, err := l.newBucket(key)
	if err != nil {
		return nil, err
	}
	l.buckets.Store(key, b)
	l.count++
	return b, nil
}

// evict forgets the keys that were not used for longest: a sixteenth of them at a time,
// as it has to look at all. Keys that someone waits for, or has reserved tokens of, stay.
// Called with the mutex.
func (l *Limiter) evict() {
	var all []*bucket
	l.buckets.Range(func(_, b any) bool {
		all = append(all, b.(*bucket))
		return true
	})
	slices.SortFunc(all, func(a, b *bucket) int { return int(min(max(a.used()-b.used(), -1), 1)) })
	most := max(len(all)/16, 1)
	for _, b := range all {
		if !b.endIfUnused() {
			continue
		}
		l.buckets.Delete(b.key)
		l.count--
		l.launch(b.retire)
		if most--; most == 0 {
			return
		}
	}
}

// run runs f in a goroutine that Close waits for, unless the limiter is closed.
func (l *Limiter) run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.launch(f)
}

// launch is run for who has the mutex.
func (l *Limiter) launch(f func()) bool {
	if l.closed {
		return false
	}
	l.wg.Go(f)
	return true
}

// all are the buckets.
func (l *Limiter) all() []*bucket {
	all := []*bucket{l.base}
	l.buckets.Range(func(_, b any) bool {
		all = append(all, b.(*bucket))
		return true
	})
	return all
}

// Close gives back what is unspent, and ends what the limiter has started. Calls that wait
// return ErrClosed. The context, and Options.Timeout for each of a few at a time, bound
// it; what could not be given back is void when its lease is over. It returns
// ErrUnavailable if there is such. Further calls do nothing.
func (l *Limiter) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	room := make(chan struct{}, 16)
	for _, b := range l.all() {
		b.end()
		if !b.holds() {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := b.giveAllBack(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return fmt.Errorf("limiter %q: give back what is unspent: %w", l.name, failed)
	}
	return nil
}

func (l *Limiter) errClosed() error { return fmt.Errorf("limiter %q: %w", l.name, recipes.ErrClosed) }
