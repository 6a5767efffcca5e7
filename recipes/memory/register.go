package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// update gives an entry another value, in its place.
func (s *Server) update(own driver.Entry, value []byte) (driver.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := own.Handle.(*entry)
	if l := s.queues[e.at]; !ok || l == nil || !slices.Contains(l.entries, e) {
		return own, driver.ErrGone
	}
	s.version++
	s.count.Commits++
	e.Value, e.Version = slices.Clone(value), s.version
	close(e.done)
	e.done = make(chan struct{})
	s.tell(e, driver.Put)
	return e.Entry, nil
}

// swap makes, replaces or removes the one entry of a register.
func (s *Server) swap(at place, old driver.Entry, value []byte) (driver.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var present *entry
	if l := s.queues[at]; l != nil {
		present = l.entries[0]
	}
	before, _ := old.Handle.(*entry)
	if present != before {
		if present == nil {
			return driver.Entry{Queue: at.queue}, driver.ErrConflict
		}
		return present.Entry, driver.ErrConflict
	}
	s.version++
	s.count.Commits++
	made := driver.Entry{Queue: at.queue, Revision: s.version, Version: s.version}
	if value != nil { // first, so that nobody sees the register empty in between
		made.ID = fmt.Sprintf("value-%d", s.version)
		made.Value, made.Created = slices.Clone(value), time.Now()
		e := &entry{at: at, done: make(chan struct{}), Entry: made}
		e.Handle = e
		made = e.Entry
		if s.queues[at] == nil {
			s.queues[at] = &line{}
		}
		s.queues[at].entries = append(s.queues[at].entries, e)
		s.tell(e, driver.Put)
	}
	if present != nil {
		s.drop(present)
	}
	return made, nil
}

// Update implements driver.Line.
func (s *session) Update(ctx context.Context, own driver.Entry, value []byte) (updated driver.Entry, err error) {
	var result error
	err = s.store.link.call(ctx, func() { updated, result = s.store.server.update(own, value) })
	if err != nil {
		return own, err
	}
	return updated, result
}

// Swap implements driver.Store.
func (s *store) Swap(ctx context.Context, old driver.Entry, value []byte) (entry driver.Entry, err error) {
	at := place{s.root, old.Queue}
	if old.Queue.Raw != "" {
		at.root = ""
	}
	var result error
	err = s.link.call(ctx, func() { entry, result = s.server.swap(at, old, value) })
	if err != nil {
		return driver.Entry{}, err
	}
	return entry, result
}
