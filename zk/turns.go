package zk

import (
	"context"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// Who is told that the one ahead is gone has to list the queue: others may be ahead
// of that one, and the own node may be gone too. Sessions that take turns at a lock
// as fast as they can save that, because it is in the way of the hand-off. If the
// listing at the time of entering showed one ahead alone, only the own node is in
// doubt, and a watch on that tells. The service tells of changes in the order in
// which they were made, on one connection.

// turnHeat is for how long a session that came through a queue counts as one that
// takes turns there.
const turnHeat = 500 * time.Millisecond

// turns are the queues that a session came through lately, by their nodes.
type turns struct {
	mu   sync.Mutex
	came map[string]time.Time
}

// note notes that the session came through a queue after it had waited.
func (t *turns) note(dir string) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.came == nil {
		t.came = map[string]time.Time{}
	}
	t.came[dir] = now
	const few = 16
	if len(t.came) <= few {
		return
	}
	for d, at := range t.came {
		if now.Sub(at) > turnHeat {
			delete(t.came, d)
		}
	}
}

// hot reports whether the session takes turns at the queue.
func (t *turns) hot(dir string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.came[dir]
	return ok && time.Since(at) < turnHeat
}

// An ownNode is the Handle of an entry that this engine has made.
type ownNode struct {
	path   string
	second *second // nil unless the session takes turns there
}

// A second is a place with one other ahead.
type second struct {
	own   <-chan gozk.Event // receives when the own node has changed
	conns int               // how many connections there were when it was watched
}

// watchOwn reads the own node, and watches it.
func (s *session) watchOwn(ctx context.Context, path string) (*gozk.Stat, *second, error) {
	h := &second{conns: s.link.conn.dialer.conns()}
	stat, err := call(ctx, s.link, func() (*gozk.Stat, error) {
		exists, stat, events, err := s.link.conn.zk.ExistsW(path)
		if err == nil && !exists {
			err = gozk.ErrNoNode
		}
		h.own = events
		return stat, err
	})
	return stat, h, at("watch", path, err)
}

// first reports whether the own node is the first now that the watch on the one
// ahead has fired. On another connection than the one that they were set on,
// watches may fire in any order.
func (h *second) first(ahead *watch, d *dialer) bool {
	if !ahead.deleted || d.conns() != h.conns {
		return false
	}
	select {
	case <-h.own:
		return false
	default:
		return true
	}
}

// Advance implements driver.Advancer.
func (s *session) Advance(ctx context.Context, own, ahead driver.Entry) (*driver.Entry, error) {
	dir, err := s.store.dir(own.Queue)
	if err != nil {
		return nil, err
	}
	if err := s.Await(ctx, ahead); err != nil {
		return nil, err
	}
	h, ok := own.Handle.(*ownNode)
	if w, watched := ahead.Handle.(*watch); ok && h.second != nil && watched && h.second.first(w, s.link.conn.dialer) {
		s.turns.note(dir)
		return nil, nil
	}
	next, err := s.Ahead(ctx, own)
	if err == nil && next == nil {
		s.turns.note(dir)
	}
	return next, err
}
