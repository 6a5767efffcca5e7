package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	// lookEvery is how often a watch looks, without asking anybody, whether the
	// connection stands, and is the one that it began on. The library sets watches
	// again on another one; but if some answer comes in there first, it says that it
	// has seen all up to that, and what changed during the break is never told. A
	// user's connection does not show a break that is over.
	lookEvery = 250 * time.Millisecond
	// listEvery bounds how often a busy queue is listed.
	listEvery = 10 * time.Millisecond
	// listEach is how much longer it takes for each node in a space, before that is
	// listed again.
	listEach = 5 * time.Microsecond
	// deniedEvery is how often a queue is tried again that may not be read.
	deniedEvery = 5 * time.Second
)

var errDisconnected = errors.New("disconnected")

// Watch implements driver.Store. The library has no watches on whole trees, so
// there is one on the space's node, for queues that come and go, one on each
// queue's, and one on each entry's, for its value; and one on the root's for spaces, if
// all are in scope. An entry is read once, and again when its watch says that it has
// changed.
func (s *store) Watch(ctx context.Context, scope driver.Scope, sink func(driver.Event)) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		w := &watcher{
			store: s, scope: scope, sink: sink,
			lists: make(chan spaceList), updates: make(chan update), failed: make(chan error, 1),
			spaces: map[string]*shownSpace{}, shown: map[string]*shownQueue{},
		}
		err := w.run(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, driver.ErrDenied), errors.Is(err, driver.ErrClosed):
			return err
		case w.synced:
			pause = firstPause
		}
		sink(driver.Event{Type: driver.Lost, Err: err})
		sleep(ctx, pause)
	}
}

// A watcher shows everything in scope until the connection breaks. Workers list
// and read; the caller's goroutine alone keeps the picture and calls the sink.
type watcher struct {
	store *store
	link  *link
	conns int // how many connections there were when it began
	scope driver.Scope
	sink  func(driver.Event)

	lists   chan spaceList // from the workers on the root and on spaces
	updates chan update    // from the workers on queues
	failed  chan error
	workers sync.WaitGroup

	spaces  map[string]*shownSpace // by name; "" is the root
	shown   map[string]*shownQueue // by path
	pending int                    // workers that have not reported since the start
	synced  bool
}

// A spaceList is what there is below the root or a space.
type spaceList struct {
	space string // "" for the root
	names []string
}

// A shownSpace is a space, or the root, that has a worker.
type shownSpace struct {
	queues map[string]*shownQueue // by the nodes' names, also of some that are gone; nil for what is not in scope
	lists  int                    // how many there were
	relist chan struct{}
	told   bool // the worker has reported
}

// A shownQueue is what the sink knows of a queue that has a worker.
type shownQueue struct {
	entries map[string]driver.Entry
	told    bool // the worker has reported
	over    bool // the worker has ended
	listed  int  // in which list of its space the queue was last
}

// An update is the state of one queue.
type update struct {
	queue   driver.Queue
	dir     string
	entries []driver.Entry
	gone    bool // the node does not exist, and the worker has ended
}

func (w *watcher) run(ctx context.Context) (err error) {
	if w.link, err = w.store.ready(ctx); err != nil {
		return err
	}
	w.conns = w.link.conns() // before anything is read
	ctx, cancel := context.WithCancel(ctx)
	defer w.workers.Wait()
	defer cancel()

	w.sink(driver.Event{Type: driver.Reset})
	if w.scope.Prefix {
		w.enter(ctx, w.scope.Space)
	} else {
		w.watch(ctx, driver.Queue{Space: w.scope.Space, Name: w.scope.Name, Raw: w.scope.Raw})
	}
	return w.loop(ctx)
}

func (w *watcher) loop(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		if w.pending == 0 && !w.synced {
			w.synced = true
			w.sink(driver.Event{Type: driver.Synced})
		}
		select {
		case l := <-w.lists:
			w.list(ctx, l)
		case u := <-w.updates:
			w.update(u)
		case err := <-w.failed:
			return err
		case <-look.C:
			if !w.link.connected() || w.link.conns() != w.conns {
				return errDisconnected
			}
		case <-w.link.ctx.Done():
			return fmt.Errorf("%w: %w", errDisconnected, context.Cause(w.link.ctx))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enter starts a worker for a space, or the root, that has none.
func (w *watcher) enter(ctx context.Context, name string) {
	if w.spaces[name] != nil {
		return
	}
	space := &shownSpace{relist: make(chan struct{}, 1)}
	w.spaces[name] = space
	w.pending++
	w.workers.Go(func() { w.watchSpace(ctx, name, space.relist) })
}

// list starts a worker for each queue of a space, or space of the root, that has
// none.
func (w *watcher) list(ctx context.Context, l spaceList) {
	space := w.spaces[l.space]
	if !space.told {
		space.told = true
		w.pending--
	}
	if l.space == "" {
		for _, name := range l.names {
			w.enter(ctx, name)
		}
		return
	}
	w.look(ctx, l, space)
}

// look starts a worker for each queue of a list that has none. A space may be large and
// change all the time, so what was seen before has to cost little.
func (w *watcher) look(ctx context.Context, l spaceList, space *shownSpace) {
	if len(space.queues) > 2*len(l.names) { // most of them are gone
		space.queues = nil
	}
	if space.queues == nil {
		space.queues = make(map[string]*shownQueue, len(l.names))
	}
	space.lists++
	for _, name := range l.names {
		queue, known := space.queues[name]
		if !known || queue != nil && queue.over {
			queue = nil
			if q := queuesOf([]string{name}, l.space, w.scope); len(q) > 0 {
				queue = w.watch(ctx, q[0])
			}
			space.queues[name] = queue
		}
		if queue != nil {
			queue.listed = space.lists
		}
	}
}

// watch starts a worker for a queue that has none. It returns nil, and the watch ends, if
// there can be none.
func (w *watcher) watch(ctx context.Context, q driver.Queue) *shownQueue {
	dir, err := w.store.dir(q)
	if err != nil {
		w.fail(err)
		return nil
	}
	if w.shown[dir] == nil {
		w.shown[dir] = &shownQueue{}
		w.pending++
		w.workers.Go(func() { w.watchQueue(ctx, newQueueView(w.link, q, dir)) })
	}
	return w.shown[dir]
}

// update tells the sink what is different.
func (w *watcher) update(u update) {
	shown := w.shown[u.dir]
	if !shown.told {
		shown.told = true
		w.pending--
	}
	now := make(map[string]driver.Entry, len(u.entries))
	for _, e := range u.entries {
		now[e.ID] = e
		if old, ok := shown.entries[e.ID]; !ok || old.Version != e.Version {
			w.sink(driver.Event{Type: driver.Put, Entry: e})
		}
	}
	for id, e := range shown.entries {
		if _, ok := now[id]; !ok {
			w.sink(driver.Event{Type: driver.Delete, Entry: driver.Entry{Queue: e.Queue, ID: id}})
		}
	}
	shown.entries = now
	if !u.gone {
		return
	}
	delete(w.shown, u.dir)
	shown.over = true
	if space := w.spaces[u.queue.Space]; shown.listed == space.lists { // it may have been made again, or the list is older
		select {
		case space.relist <- struct{}{}:
		default:
		}
	}
}

func (w *watcher) fail(err error) {
	select {
	case w.failed <- err:
	default: // one is enough
	}
}

// watchSpace reports what there is below a space, or the root, and again when that
// changes.
func (w *watcher) watchSpace(ctx context.Context, space string, relist <-chan struct{}) {
	path := w.store.space(space)
	for {
		names, changed, err := w.link.watches.children(ctx, path)
		if errors.Is(err, gozk.ErrNoNode) {
			names = nil
			changed, err = w.awaitNode(ctx, path)
		}
		retry := time.Duration(0)
		if errors.Is(err, driver.ErrDenied) && space != "" && w.scope.Space == "" {
			err, retry = nil, deniedEvery // another application's; see the package's comment
		}
		if err != nil {
			w.fail(err)
			return
		}
		select {
		case w.lists <- spaceList{space, names}:
		case <-ctx.Done():
			return
		}
		if retry > 0 {
			sleep(ctx, retry)
			continue
		}
		select {
		case <-changed:
		case <-relist:
		case <-ctx.Done():
			return
		}
		sleep(ctx, listEvery+time.Duration(len(names))*listEach)
	}
}

// awaitNode returns a channel that is closed when the node exists.
func (w *watcher) awaitNode(ctx context.Context, path string) (<-chan struct{}, error) {
	set, fresh, err := w.link.watches.set(ctx, watchExists, path)
	if err != nil {
		return nil, err
	}
	exists := set.existing
	if !fresh {
		_, err = w.link.stat(ctx, path)
		exists = err == nil
		if errors.Is(err, gozk.ErrNoNode) {
			err = nil
		}
	}
	if exists {
		now := make(chan struct{})
		close(now)
		return now, err
	}
	return set.fired(), err
}

// watchQueue reports the entries of a queue, and again when they change. It ends
// when the node is gone, unless the queue is all that is wanted.
func (w *watcher) watchQueue(ctx context.Context, v *queueView) {
	defer v.clear()
	for {
		entries, changed, err := v.read(ctx)
		gone := errors.Is(err, gozk.ErrNoNode)
		if gone && !w.scope.Prefix {
			gone = false
			changed, err = w.awaitNode(ctx, v.dir)
		}
		retry := time.Duration(0)
		if errors.Is(err, driver.ErrDenied) && w.scope.Prefix {
			err, retry = nil, deniedEvery // another application's; see the package's comment
		}
		if err != nil && !gone {
			w.fail(err)
			return
		}
		select {
		case w.updates <- update{v.queue, v.dir, entries, gone}:
		case <-ctx.Done():
			return
		}
		if gone {
			return
		}
		if retry > 0 {
			sleep(ctx, retry)
			continue
		}
		select {
		case <-changed:
		case <-v.fired:
		case <-ctx.Done():
			return
		}
		sleep(ctx, listEvery)
	}
}
