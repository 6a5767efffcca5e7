package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Server is a coordination service in memory. The zero value is not usable;
// NewServer makes one. All methods may be called at the same time.
type Server struct {
	mu       sync.Mutex
	version  uint64
	sessions map[string]*record
	queues   map[place]*line
	watches  map[*watch]struct{}
	restart  chan struct{} // closed by Restart, then replaced
	count    Counts
}

// place is where a queue is: under a client's root, or by a raw path.
type place struct {
	root  string
	queue driver.Queue
}

// line is a queue on the server.
type line struct {
	entries []*entry // in order of revision
}

type entry struct {
	driver.Entry
	at   place
	done chan struct{} // closed when the entry is removed or updated, then replaced
}

// record is what the server knows of a session.
type record struct {
	id    string
	ttl   time.Duration
	timer *time.Timer
	over  chan struct{} // closed when the session is over
	own   map[*entry]struct{}
}

// watch is a subscription to the changes in a scope.
type watch struct {
	root    string
	scope   driver.Scope
	wake    chan struct{}
	pending []driver.Event
}

// Counts says what the server has done so far.
type Counts struct {
	Commits  int // changes
	Reads    int // lists and positions read
	Watches  int // subscriptions made
	Renewals int // renewals of sessions
	Events   int // notifications sent
}

// NewServer makes a server without sessions or entries.
func NewServer() *Server {
	return &Server{
		sessions: map[string]*record{},
		queues:   map[place]*line{},
		watches:  map[*watch]struct{}{},
		restart:  make(chan struct{}),
	}
}

// Expire ends a session as if its TTL had passed.
func (s *Server) Expire(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.sessions[sessionID]; r != nil {
		s.end(r)
	}
}

// Restart breaks off all requests that wait for something. Sessions and entries
// stay.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.restart)
	s.restart = make(chan struct{})
}

// Remove deletes the first entry of the queue of the lock called name.
func (s *Server) Remove(root, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.queues[place{root, driver.Queue{Space: driver.SpaceLock, Name: name}}]
	if l != nil && len(l.entries) > 0 {
		s.remove(l.entries[0])
	}
}

// Counts returns what the server has done so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Left describes the entries below the root, and the open sessions if root is
// "".
func (s *Server) Left(root string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for at, l := range s.queues {
		for _, e := range l.entries {
			if root == "" || at.root == root {
				left = append(left, fmt.Sprintf("%s %s %s", at.root, at.queue.Name, e.ID))
			}
		}
	}
	if root == "" {
		left = slices.AppendSeq(left, maps.Keys(s.sessions))
	}
	slices.Sort(left)
	return left
}

// connect makes a session.
func (s *Server) connect(ttl time.Duration) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.count.Commits++
	r := &record{
		id: fmt.Sprintf("%x", s.version), ttl: ttl, over: make(chan struct{}),
		own: map[*entry]struct{}{},
	}
	r.timer = time.AfterFunc(ttl, func() { s.Expire(r.id) })
	s.sessions[r.id] = r
	return r
}

func (s *Server) endSession(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(r)
}

// end removes a session and its entries, as one change.
func (s *Server) end(r *record) {
	if s.sessions[r.id] == nil {
		return
	}
	delete(s.sessions, r.id)
	r.timer.Stop()
	s.version++
	s.count.Commits++
	for e := range r.own {
		s.drop(e)
	}
	close(r.over)
}

// renew gives the session a fresh TTL.
func (s *Server) renew(r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Renewals++
	if s.sessions[r.id] == nil {
		return driver.ErrSessionOver
	}
	r.timer.Reset(r.ttl)
	return nil
}

// enter adds an entry to the end of a queue, unless the session has it already.
func (s *Server) enter(r *record, at place, id string, value []byte) (driver.Entry, *driver.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[r.id] == nil {
		return driver.Entry{}, nil, driver.ErrSessionOver
	}
	l := s.queues[at]
	if l == nil {
		l = &line{}
		s.queues[at] = l
	}
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.ID == id })
	if i < 0 {
		s.version++
		s.count.Commits++
		e := &entry{at: at, done: make(chan struct{}), Entry: driver.Entry{
			Queue: at.queue, ID: id, Revision: s.version, Version: s.version, Session: r.id,
			Value: slices.Clone(value), Created: time.Now(),
		}}
		e.Handle = e
		i = len(l.entries)
		l.entries = append(l.entries, e)
		r.own[e] = struct{}{}
		s.tell(e, driver.Put)
	}
	own := l.entries[i].Entry
	if i == 0 {
		return own, nil, nil
	}
	ahead := l.entries[i-1].Entry
	return own, &ahead, nil
}

// ahead returns what is directly ahead of an entry of the session.
func (s *Server) ahead(r *record, own driver.Entry) (*driver.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Reads++
	if s.sessions[r.id] == nil {
		return nil, driver.ErrSessionOver
	}
	e := own.Handle.(*entry)
	l := s.queues[e.at]
	if l == nil {
		return nil, driver.ErrGone
	}
	i := slices.Index(l.entries, e)
	switch {
	case i < 0:
		return nil, driver.ErrGone
	case i == 0:
		return nil, nil
	}
	ahead := l.entries[i-1].Entry
	return &ahead, nil
}

// leave removes an entry.
func (s *Server) leave(own driver.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := own.Handle.(*entry)
	if !ok || !s.remove(e) {
		return driver.ErrGone
	}
	return nil
}

// remove deletes an entry as one change, and reports whether it was there.
func (s *Server) remove(e *entry) bool {
	if !s.drop(e) {
		return false
	}
	s.version++
	s.count.Commits++
	return true
}

func (s *Server) drop(e *entry) bool {
	l := s.queues[e.at]
	if l == nil {
		return false
	}
	i := slices.Index(l.entries, e)
	if i < 0 {
		return false
	}
	l.entries = slices.Delete(l.entries, i, i+1)
	if len(l.entries) == 0 {
		delete(s.queues, e.at)
	}
	if r := s.sessions[e.Session]; r != nil {
		delete(r.own, e)
	}
	close(e.done)
	s.tell(e, driver.Delete)
	return true
}

// list returns the entries in scope.
func (s *Server) list(root string, scope driver.Scope) []driver.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Reads++
	return s.entries(root, scope)
}

func (s *Server) entries(root string, scope driver.Scope) []driver.Entry {
	var entries []driver.Entry
	for at, l := range s.queues {
		if (at.queue.Raw == "" && at.root != root) || !scope.Has(at.queue) {
			continue
		}
		for i, e := range l.entries {
			if i > 0 && scope.First {
				break
			}
			entries = append(entries, e.Entry)
		}
	}
	return entries
}

// subscribe makes a watch that begins with what there is.
func (s *Server) subscribe(root string, scope driver.Scope) *watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Watches++
	w := &watch{root: root, scope: scope, wake: make(chan struct{}, 1)}
	w.pending = append(w.pending, driver.Event{Type: driver.Reset})
	for _, e := range s.entries(root, scope) {
		w.pending = append(w.pending, driver.Event{Type: driver.Put, Entry: e})
	}
	w.pending = append(w.pending, driver.Event{Type: driver.Synced})
	w.wake <- struct{}{}
	s.watches[w] = struct{}{}
	return w
}

func (s *Server) unsubscribe(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
}

// take returns the events that a watch has not seen yet.
func (s *Server) take(w *watch) []driver.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := w.pending
	w.pending = nil
	return events
}

// tell adds an event to the watches that it concerns.
func (s *Server) tell(e *entry, what driver.EventType) {
	for w := range s.watches {
		if (e.at.queue.Raw == "" && e.at.root != w.root) || !w.scope.Has(e.at.queue) {
			continue
		}
		s.count.Events++
		w.pending = append(w.pending, driver.Event{Type: what, Entry: e.Entry})
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// await waits until the entry is gone or updated.
func (s *Server) await(ctx context.Context, other driver.Entry) error {
	s.mu.Lock()
	s.count.Watches++
	restart := s.restart
	e := other.Handle.(*entry)
	done, same := e.done, e.Version == other.Version
	s.mu.Unlock()
	if !same {
		return nil
	}
	select {
	case <-done:
		s.mu.Lock()
		s.count.Events++
		s.mu.Unlock()
		return nil
	case <-restart:
		return errCut
	case <-ctx.Done():
		return ctx.Err()
	}
}
