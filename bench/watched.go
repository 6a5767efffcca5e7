package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/lockctl/lockctl/bench/internal/report"
	"github.com/lockctl/lockctl/internal/freeport"
	"github.com/lockctl/lockctl/recipes"
)

const (
	watchedLocks   = 10_000
	changesPerTick = 10
	tick           = 10 * time.Millisecond // so 1,000 changes in a second
	viewers        = 4
)

// The figures of a console.
const (
	consoleCPU     = "console CPU, % of a core"
	consoleWatches = "watches"
	changesRate    = "changes/s"
	unseenChanges  = "changes not seen"
)

// The metrics of the watches that a service has.
const (
	etcdWatchers = "etcd_debugging_mvcc_watcher_total"
	zkWatches    = "zk_watch_count"
)

// A watched console shows many locks that change all the time, to a few viewers. What is
// measured is how long it takes from the request that makes a change until the last of
// the viewers has the frame that shows it.
type watched struct {
	crew
	service service
	site    string // the console's address
	console *process
	locks   []*watchedLock // in the order in which they change
	byName  map[string]*watchedLock
	next    int // the lock that changes next
	viewers []*watcher
	watches float64 // that the console has made

	busy    time.Duration // CPU that the console used
	span    time.Duration // during which
	changes int
	unseen  int // by some viewer
}

// A watchedLock is locked and unlocked in turn.
type watchedLock struct {
	mutex *recipes.Mutex
	hold  *recipes.Hold // nil while it is free

	mu      sync.Mutex
	start   time.Time // when the last change was asked for
	pending bool      // it has not returned yet
	shows   string    // what the row then has, "" for no row
	rows    [viewers]seenRow
}

// A seenRow is what a viewer has got of a lock since the last change was asked for.
type seenRow struct {
	html string
	at   time.Time // zero if it got none
}

// shown reports whether the row shows the last change.
func (l *watchedLock) shown(r seenRow) bool {
	return !r.at.IsZero() && (l.shows == "") == (r.html == "") && strings.Contains(r.html, l.shows)
}

func (w *watched) spans() {}

func (w *watched) cpu() (time.Duration, bool) { return w.console.cpu() }

// watchedOf shows n locks on a console.
func watchedOf(n int, dial dialer, backend func(at site) string, watches string) func(ctx context.Context, at site) (runner, error) {
	return func(ctx context.Context, at site) (runner, error) {
		w := &watched{service: at.service, byName: map[string]*watchedLock{}}
		if err := w.open(ctx, at, n, dial, backend(at), watches); err != nil {
			_ = w.close() // the first error is the one to report
			return nil, err
		}
		return w, nil
	}
}

func (w *watched) open(ctx context.Context, at site, n int, dial dialer, backend, watches string) error {
	client, err := dial(ctx, at, sessionTTL)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, client.Close)
	if err := w.fill(ctx, client, at.name, n); err != nil {
		return err
	}
	before, err := w.service.sum(ctx, watches)
	if err != nil {
		return err
	}
	if err := w.serve(ctx, at, backend); err != nil {
		return err
	}
	for i := range viewers {
		v, err := w.view(ctx, i)
		if err != nil {
			return err
		}
		w.viewers = append(w.viewers, v)
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	after, err := w.service.sum(ctx, watches)
	w.watches = after - before
	return err
}

// fill makes the locks, of which every other one is held.
func (w *watched) fill(ctx context.Context, client *recipes.Client, name string, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range n {
		mutex, err := client.Mutex(fmt.Sprintf("%s-%d", name, i), nil)
		if err != nil {
			return err
		}
		lock := &watchedLock{mutex: mutex}
		w.locks = append(w.locks, lock)
		w.byName[mutex.Name()] = lock
		if i%2 == 0 {
			g.Go(func() (err error) {
				lock.hold, err = mutex.Lock(ctx)
				return err
			})
		}
	}
	rand.Shuffle(n, func(i, j int) { w.locks[i], w.locks[j] = w.locks[j], w.locks[i] })
	return g.Wait()
}

// serve starts the console, as a process of its own.
func (w *watched) serve(ctx context.Context, at site, backend string) error {
	lockctl, err := at.workspace.lockctl(ctx)
	if err != nil {
		return err
	}
	if w.site, err = freeport.Addr(); err != nil {
		return err
	}
	if w.console, err = startProcess(exec.Command(lockctl, "console", "--backend", backend, "--listen", w.site)); err != nil {
		return err
	}
	w.closers = append(w.closers, w.console.interrupt)
	return nil
}

// settle waits until all viewers have all locks.
func (w *watched) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	for _, v := range w.viewers {
		for int(v.known.Load()) < len(w.locks)/2 {
			if v.ended() {
				return fmt.Errorf("a viewer's stream: %w", v.err)
			}
			if err := sleep(ctx, 20*time.Millisecond); err != nil {
				return fmt.Errorf("a viewer has %d of %d locks: %w", v.known.Load(), len(w.locks)/2, err)
			}
		}
	}
	return nil
}

// measure makes changes for d, and then waits until they are seen.
func (w *watched) measure(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	g, changing := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	before, _ := w.cpu()
	start := time.Now()
	var changed []*watchedLock
	for n := 0; time.Since(start) < d && len(changed)+changesPerTick <= len(w.locks); n++ { // each lock once
		for range changesPerTick {
			lock := w.locks[w.next]
			w.next = (w.next + 1) % len(w.locks)
			changed = append(changed, lock)
			g.Go(func() error { return lock.change(changing) })
		}
		if err := sleep(changing, time.Until(start.Add(time.Duration(n+1)*tick))); err != nil {
			break // a change has failed, or all is over
		}
	}
	w.span += time.Since(start)
	after, _ := w.cpu()
	w.busy += after - before
	w.changes += len(changed)
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return w.collect(ctx, changed)
}

// change locks or unlocks.
func (l *watchedLock) change(ctx context.Context) (err error) {
	l.mu.Lock()
	l.start, l.pending, l.rows = time.Now(), true, [viewers]seenRow{}
	l.mu.Unlock()
	shows := ""
	if l.hold != nil {
		err = l.hold.Unlock(ctx)
		l.hold = nil
	} else if l.hold, err = l.mutex.Lock(ctx); err == nil {
		shows = strconv.FormatUint(l.hold.Token(), 10)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.shows = false, shows
	return err
}

// unseenAfter is when a change that was not seen counts as never seen.
const unseenAfter = 3 * time.Second

// collect returns how long each change took until the last viewer saw it.
func (w *watched) collect(ctx context.Context, changed []*watchedLock) ([]time.Duration, error) {
	deadline := time.Now().Add(unseenAfter)
	spans := make([]time.Duration, 0, len(changed))
	for _, lock := range changed {
		last, seen := lock.seen()
		for !seen && time.Now().Before(deadline) {
			for _, v := range w.viewers {
				if v.ended() {
					return nil, fmt.Errorf("a viewer's stream: %w", v.err)
				}
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
			last, seen = lock.seen()
		}
		if seen {
			spans = append(spans, last)
		} else {
			w.unseen++
		}
	}
	return spans, nil
}

// seen is how long it took until the last viewer saw the last change, and whether all
// have.
func (l *watchedLock) seen() (last time.Duration, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.rows {
		if !l.shown(r) {
			return 0, false
		}
		last = max(last, r.at.Sub(l.start))
	}
	return last, true
}

func (w *watched) survey(context.Context, time.Duration) error { return nil }

func (w *watched) figures() []report.Count {
	found := []report.Count{
		{What: consoleWatches, Each: w.watches},
		{What: changesRate, Each: math.Round(float64(w.changes) / w.span.Seconds())},
		{What: unseenChanges, Each: float64(w.unseen)},
	}
	if _, known := w.cpu(); known {
		found = append(found, report.Count{What: consoleCPU, Each: math.Round(1000*w.busy.Seconds()/w.span.Seconds()) / 10})
	}
	return found
}

// A watcher is a viewer of the console.
type watcher struct {
	conn  *websocket.Conn
	known atomic.Int64 // rows that it has
	done  chan struct{}
	err   error // set before done is closed
}

// view connects a viewer, as soon as the console serves.
func (w *watched) view(ctx context.Context, i int) (*watcher, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	origin := http.Header{"Origin": {"http://" + w.site}}
	for {
		conn, resp, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+w.site+"/socket?view=list", origin)
		if err == nil {
			v := &watcher{conn: conn, done: make(chan struct{})}
			w.closers = append(w.closers, v.close)
			go v.read(func(row row) { w.saw(i, v, row) })
			return v, nil
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
		if late := sleep(ctx, 20*time.Millisecond); late != nil {
			return nil, fmt.Errorf("connect a viewer: %w", err)
		}
	}
}

func (v *watcher) close() error {
	err := v.conn.Close()
	<-v.done
	return err
}

func (v *watcher) ended() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// A row is one lock in a frame.
type row struct {
	Key, HTML string
	name      string
	at        time.Time
}

// read takes frames until the connection is closed.
func (v *watcher) read(saw func(row)) {
	defer close(v.done)
	for {
		_, data, err := v.conn.ReadMessage()
		at := time.Now()
		var m struct{ Rows []row }
		if err == nil {
			err = json.Unmarshal(data, &m)
		}
		for i := 0; i < len(m.Rows) && err == nil; i++ {
			r := m.Rows[i]
			r.at = at
			if r.name, err = url.QueryUnescape(r.Key[strings.LastIndexByte(r.Key, '/')+1:]); err == nil {
				saw(r)
			}
		}
		if err != nil {
			v.err = err
			return
		}
	}
}

// saw notes that a viewer has a row.
func (w *watched) saw(i int, v *watcher, r row) {
	v.known.Add(1)
	lock := w.byName[r.name]
	if lock == nil {
		return
	}
	lock.mu.Lock()
	defer lock.mu.Unlock()
	if !lock.start.IsZero() && (lock.pending || !lock.shown(lock.rows[i])) {
		lock.rows[i] = seenRow{r.HTML, r.at}
	}
}
