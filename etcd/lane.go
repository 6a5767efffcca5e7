package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes/driver"
)

// Who waits for a key of its own has to make a watch, read, and read again when it
// fires. That is right for those who wait for long. For sessions that take turns
// at one lock as fast as they can it is most of the work, and the last read is in
// the way of the hand-off. These keep one watch on all removals from the queue,
// its lane. It tells, in the order in which they happened, of everything that was
// ahead and of the own entry too, so nothing has to be read.
//
// The price is that each of them hears of every removal. So a session has a lane
// only while it comes back to a queue within moments, and stands in it only where
// few are ahead.

const (
	// laneHeat is for how long a session that came through a queue counts as one
	// that takes turns there, and how long a lane outlasts that.
	laneHeat = 500 * time.Millisecond
	// laneDepth is how many may be ahead of who stands in a lane.
	laneDepth = 3
	// laneMemory is how many removals a lane remembers. Who entered before the oldest
	// of them reads the queue.
	laneMemory = 512
)

// lanes are the queues that a session takes turns at, by their prefixes.
type lanes struct {
	mu    sync.Mutex
	lanes map[string]*lane
}

// A lane is what a session knows of a queue that it takes turns at.
type lane struct {
	prefix string
	stop   context.CancelFunc // ends the watch; nil before there is one
	cool   *time.Timer        // forgets the lane when it was not used for a while
	users  int                // guarded by lanes, as are the above

	made chan struct{} // closed when since is set
	over chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	since   int64            // removals after this revision are known
	gone    map[string]int64 // the revisions of removals, by key
	order   []string         // their keys, the oldest first
	changed chan struct{}    // closed at each removal, then replaced
}

// came notes that the session came through a queue, after it had waited.
func (s *session) came(prefix string) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if s.lanes.lanes == nil {
		s.lanes.lanes = map[string]*lane{}
	}
	l := s.lanes.lanes[prefix]
	if l == nil {
		l = &lane{prefix: prefix, gone: map[string]int64{}, changed: make(chan struct{}),
			made: make(chan struct{}), over: make(chan struct{})}
		s.lanes.lanes[prefix] = l
		l.cool = time.AfterFunc(laneHeat, func() { s.cool(l) })
	}
	if l.stop == nil { // one that is watched outlasts its last user
		l.cool.Reset(laneHeat)
	}
}

// cool forgets a lane that was not used for a while.
func (s *session) cool(l *lane) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if l.users == 0 {
		s.drop(l)
	}
}

// drop ends a lane. It is called with s.lanes.mu held.
func (s *session) drop(l *lane) {
	l.cool.Stop()
	if l.stop != nil {
		l.stop()
	}
	if s.lanes.lanes[l.prefix] == l {
		delete(s.lanes.lanes, l.prefix)
	}
}

// join returns the lane of a queue for as long as the caller waits there, or nil
// if the session does not take turns at it.
func (s *session) join(prefix string) *lane {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	l := s.lanes.lanes[prefix]
	if l == nil {
		return nil
	}
	if l.stop == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		if !s.start(func() { s.watchLane(ctx, l) }) {
			cancel()
			return nil
		}
		l.stop = cancel
	}
	l.users++
	return l
}

func (s *session) quit(l *lane) {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	if l.users--; l.users == 0 {
		l.cool.Reset(laneHeat)
	}
}

// watchLane notes removals until the lane is dropped, or the watch fails.
func (s *session) watchLane(ctx context.Context, l *lane) {
	defer func() {
		s.lanes.mu.Lock()
		s.drop(l)
		s.lanes.mu.Unlock()
		close(l.over)
	}()
	stream := s.store.onStream(ctx, s.store.streams.Load())
	for resp := range s.store.client.Watch(stream, l.prefix,
		clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify()) {
		switch {
		case resp.Err() != nil:
			return
		case resp.Created:
			l.since = resp.Header.Revision
			close(l.made)
		default:
			s.see(resp.Header.Revision)
			l.note(resp.Events)
		}
	}
}

func (l *lane) note(events []*clientv3.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ev := range events {
		if ev.Type != mvccpb.Event_DELETE {
			continue
		}
		key := string(ev.Kv.Key)
		l.gone[key] = ev.Kv.ModRevision
		l.order = append(l.order, key)
	}
	for len(l.order) > laneMemory {
		oldest := l.order[0]
		l.order = l.order[1:]
		l.since = max(l.since, l.gone[oldest])
		delete(l.gone, oldest)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Advance implements driver.Advancer.
func (s *session) Advance(ctx context.Context, own, ahead driver.Entry) (*driver.Entry, error) {
	prefix := s.store.prefix(own.Queue)
	if h := own.Handle.(*handle); h.complete && len(h.line) <= laneDepth {
		first, err := s.advanceInLane(ctx, prefix, own)
		if first || err != nil {
			return nil, err
		}
	}
	if err := s.Await(ctx, ahead); err != nil {
		return nil, err
	}
	next, err := s.Ahead(ctx, own)
	if err == nil && next == nil {
		s.came(prefix)
	}
	return next, err
}

// advanceInLane waits in the queue's lane, and reports whether own is the first. If
// not, nothing is known: there is no lane, it has ended, or the wait is too long
// for one.
func (s *session) advanceInLane(ctx context.Context, prefix string, own driver.Entry) (first bool, err error) {
	l := s.join(prefix)
	if l == nil {
		return false, nil
	}
	defer s.quit(l)
	select {
	case <-l.made:
	case <-l.over:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	h := own.Handle.(*handle)
	line, asOf, ok, err := s.inLine(ctx, l, own)
	if !ok || err != nil {
		return false, err
	}
	long := time.NewTimer(laneHeat)
	defer long.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		known := l.since <= asOf
		removed := l.gone[h.key] > h.created
		line = slices.DeleteFunc(line, func(key string) bool { return l.gone[key] > asOf })
		l.mu.Unlock()
		switch {
		case !known:
			return false, nil
		case removed:
			return false, s.missing(ctx)
		case len(line) == 0:
			return true, nil
		}
		select {
		case <-changed:
		case <-l.over:
			return false, nil
		case <-long.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// inLine returns the keys ahead of own as of a revision from which on the lane knows
// of removals. ok is false if they are too many.
func (s *session) inLine(ctx context.Context, l *lane, own driver.Entry) (line []string, asOf int64, ok bool, err error) {
	h := own.Handle.(*handle)
	l.mu.Lock()
	since := l.since
	l.mu.Unlock()
	if h.complete && since <= h.created {
		return slices.Clone(h.line), h.created, true, nil
	}
	resp, err := s.read(ctx, since, l.prefix, clientv3.WithPrefix(), clientv3.WithLimit(lineLimit))
	if err != nil || resp.More {
		return nil, 0, false, err
	}
	found := false
	for _, kv := range resp.Kvs {
		found = found || string(kv.Key) == h.key
		if _, ours := s.store.entry(kv, own.Queue); ours && kv.CreateRevision < h.created {
			line = append(line, string(kv.Key))
		}
	}
	if !found {
		return nil, 0, false, s.missing(ctx)
	}
	return line, resp.Header.Revision, true, nil
}
