package zk

import (
	"context"
	"sync"

	gozk "github.com/go-zookeeper/zk"
)

// A watchKind says what a watch waits for.
type watchKind int

const (
	watchData     watchKind = iota // a change of the node's data, or its end
	watchChildren                  // a change of the node's children, or its end
	watchExists                    // that the node is made
)

type watchKey struct {
	kind watchKind
	path string
}

// A watch is one that the server holds for this session until it fires.
type watch struct {
	ready    chan struct{} // closed when the fields below are set
	err      error
	data     []byte   // for watchData, as it was when the watch was set
	names    []string // for watchChildren, likewise
	existing bool     // for watchExists, likewise
	stat     *gozk.Stat

	deleted bool // it fired because the node is gone; set before over ends

	over context.Context // ends when it fired, or the session is over
	fire context.CancelFunc
}

func newWatch() *watch {
	w := &watch{ready: make(chan struct{})}
	w.over, w.fire = context.WithCancel(context.Background())
	return w
}

// fired is closed when the watch fired, or the session is over.
func (w *watch) fired() <-chan struct{} { return w.over.Done() }

// watches are the watches of a link. There is no request to remove one, so each
// is kept until it fires and serves everybody who wants the same in the
// meantime: a wait that was given up leaves a watch that the next wait takes.
type watches struct {
	link *link

	mu   sync.Mutex
	live map[watchKey]*watch
}

// set returns a watch that is set. fresh says that it was set by this call, so
// that its fields are no older than that. An error is that of the request which
// was to set it, and leaves no watch.
func (ws *watches) set(ctx context.Context, kind watchKind, path string) (set *watch, fresh bool, err error) {
	key := watchKey{kind, path}
	ws.mu.Lock()
	w := ws.live[key]
	if fresh = w == nil; fresh {
		w = newWatch()
		if ws.live == nil {
			ws.live = map[watchKey]*watch{}
		}
		ws.live[key] = w
	}
	ws.mu.Unlock()

	if fresh && !ws.link.conn.calls.start(func() { ws.run(key, w) }) {
		w.err = ws.link.check(gozk.ErrClosing)
		ws.drop(key)
		close(w.ready)
		w.fire()
	}
	select {
	case <-w.ready:
		return w, fresh, at("watch", path, w.err)
	case <-ctx.Done():
		return nil, fresh, ctx.Err()
	case <-ws.link.ctx.Done():
		return nil, fresh, context.Cause(ws.link.ctx)
	}
}

// run sets a watch and waits for it.
func (ws *watches) run(key watchKey, w *watch) {
	events, err := ws.request(key, w)
	w.err = ws.link.check(err)
	if w.err != nil {
		ws.drop(key) // first, so that whoever learns of the error and tries again gets a new one
		close(w.ready)
		w.fire()
		return
	}
	close(w.ready)
	select {
	case ev := <-events:
		w.deleted = ev.Type == gozk.EventNodeDeleted
	case <-ws.link.ctx.Done():
	}
	ws.drop(key) // first, so that whoever is woken and looks again gets a new one
	w.fire()
}

func (ws *watches) drop(key watchKey) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.live, key)
}

func (ws *watches) request(key watchKey, w *watch) (events <-chan gozk.Event, err error) {
	zk := ws.link.conn.zk
	switch key.kind {
	case watchData:
		w.data, w.stat, events, err = zk.GetW(key.path)
	case watchChildren:
		w.names, w.stat, events, err = zk.ChildrenW(key.path)
	case watchExists:
		w.existing, w.stat, events, err = zk.ExistsW(key.path)
	}
	return events, err
}

// children lists the children of a node and returns a channel that is closed
// when they are others than those.
func (ws *watches) children(ctx context.Context, path string) ([]string, <-chan struct{}, error) {
	w, fresh, err := ws.set(ctx, watchChildren, path)
	if err != nil {
		return nil, nil, err
	}
	if fresh {
		return w.names, w.fired(), nil
	}
	list, err := ws.link.children(ctx, path) // after the watch was set, so it misses nothing
	return list.names, w.fired(), err
}

// entry reads a node and returns the watch that fires when its data are others
// than those, or it is gone.
func (ws *watches) entry(ctx context.Context, path string) (node, *watch, error) {
	w, fresh, err := ws.set(ctx, watchData, path)
	if err != nil {
		return node{}, nil, err
	}
	if fresh {
		return node{w.data, w.stat}, w, nil
	}
	n, err := ws.link.get(ctx, path) // after the watch was set, so it misses nothing
	return n, w, err
}
