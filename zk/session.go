package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// session implements driver.Session: a ZooKeeper session of our own, or a part in
// the one of the user's connection.
type session struct {
	store *store
	link  *link
	turns turns

	entering gate // calls to Enter, which Close waits for

	mu        sync.Mutex
	entries   map[string]struct{} // of the user's connection: paths of the nodes that were made and not removed
	undecided []*attempt          // to make nodes of which it is not known whether they exist
}

// ID implements driver.Session.
func (s *session) ID() string { return nameOf(s.link.id) }

// TTL implements driver.Session.
func (s *session) TTL() time.Duration { return s.link.ttl }

// Done implements driver.Session.
func (s *session) Done() <-chan struct{} { return s.link.ctx.Done() }

// Renew implements driver.Session. A server on whose connection nothing comes in
// meanwhile may be paused or cut off; another may be well. The library would
// notice after two thirds of the timeout, when it is too late for the holds.
func (s *session) Renew(ctx context.Context) error {
	start := time.Now()
	err := s.link.sync(ctx)
	if d := s.link.conn.dialer; d != nil && errors.Is(err, context.DeadlineExceeded) {
		d.drop(start)
	}
	return err
}

// Leave implements driver.Session. The name of a node is never used twice, so
// deleting it can't hit another's.
func (s *session) Leave(ctx context.Context, own driver.Entry) error {
	dir, err := s.store.dir(own.Queue)
	if err != nil {
		return err
	}
	return s.remove(ctx, dir+"/"+own.ID)
}

func (s *session) remove(ctx context.Context, path string) error {
	err := s.link.delete(ctx, path)
	gone := errors.Is(err, gozk.ErrNoNode)
	if err == nil || gone {
		s.mu.Lock()
		delete(s.entries, path)
		s.mu.Unlock()
	}
	if gone {
		return driver.ErrGone
	}
	return err
}

// Ahead implements driver.Session.
func (s *session) Ahead(ctx context.Context, own driver.Entry) (*driver.Entry, error) {
	dir, err := s.store.dir(own.Queue)
	if err != nil {
		return nil, err
	}
	line, _, err := s.line(ctx, dir)
	if err != nil {
		return nil, err
	}
	i := find(line, own.ID)
	if i < 0 { // removed by someone, or with the session, which the server may not have told yet
		if err := s.link.sync(ctx); err != nil {
			return nil, err
		}
		return nil, driver.ErrGone
	}
	return s.nearest(ctx, own.Queue, dir, line[:i])
}

// Await implements driver.Session. The watch is on the node's data, because such
// a watch is refused when there is no node; one that waits for existence would
// stay behind for a node that never comes back.
func (s *session) Await(ctx context.Context, other driver.Entry) error {
	w, ok := other.Handle.(*watch)
	if !ok {
		dir, err := s.store.dir(other.Queue)
		if err != nil {
			return err
		}
		w, _, err = s.link.watches.set(ctx, watchData, dir+"/"+other.ID)
		switch {
		case errors.Is(err, gozk.ErrNoNode):
			return nil
		case err != nil:
			return err
		}
	}
	if uint64(w.stat.Mzxid) != other.Version {
		return nil
	}
	select {
	case <-w.fired():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// line lists those who stand in line at a node, in order.
func (s *session) line(ctx context.Context, dir string) ([]contender, listing, error) {
	list, err := s.link.children(ctx, dir)
	if err != nil {
		if errors.Is(err, gozk.ErrNoNode) {
			err = nil // a node without children may be removed at any time
		}
		return nil, list, err
	}
	line := contenders(list.names)
	if ambiguous(line) {
		line, err = s.link.byCreation(ctx, dir, line)
	}
	return line, list, err
}

// nearest returns the last of the contenders that still exists, with a watch on
// it. Nobody can join in front of others, so a contender that is gone needs no
// new listing: the one before is next.
func (s *session) nearest(ctx context.Context, q driver.Queue, dir string, line []contender) (*driver.Entry, error) {
	for i := len(line) - 1; i >= 0; i-- {
		w, _, err := s.link.watches.set(ctx, watchData, dir+"/"+line[i].name)
		if errors.Is(err, gozk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entry := entryOf(q, line[i].name, node{w.data, w.stat})
		entry.Handle = w
		return &entry, nil
	}
	return nil, nil
}

// entryOf describes a contender's node.
func entryOf(q driver.Queue, name string, n node) driver.Entry {
	entry := driver.Entry{
		Queue: q, ID: name, Revision: uint64(n.stat.Czxid), Version: uint64(n.stat.Mzxid), Value: n.data, Created: created(n.stat),
	}
	if n.stat.EphemeralOwner != 0 {
		entry.Session = nameOf(n.stat.EphemeralOwner)
	}
	return entry
}

// Close implements driver.Session. On the user's connection it knows what there is to
// remove when each Enter has returned, as each does when its own context ends.
func (s *session) Close(ctx context.Context) error {
	if s.store.user == nil {
		return s.link.close(ctx)
	}
	select {
	case <-s.entering.shut():
	case <-ctx.Done():
		return fmt.Errorf("wait for who enters a queue: %w", ctx.Err())
	}
	s.mu.Lock()
	undecided := s.undecided
	paths := make([]string, 0, len(s.entries))
	for p := range s.entries {
		paths = append(paths, p)
	}
	s.mu.Unlock()
	if s.link.ctx.Err() != nil {
		s.abandon(undecided)
		return nil
	}
	return s.clear(ctx, paths, undecided)
}

// clear removes what is left of a session that lives on.
func (s *session) clear(ctx context.Context, paths []string, undecided []*attempt) error {
	for _, p := range paths {
		_, err := insist(ctx, func() (struct{}, error) { return struct{}{}, s.remove(ctx, p) })
		switch {
		case err == nil, errors.Is(err, driver.ErrGone):
		case errors.Is(err, driver.ErrSessionOver), errors.Is(err, driver.ErrClosed):
			s.abandon(undecided)
			return nil
		default:
			return at("give up", path.Dir(p), err)
		}
	}
	for _, a := range undecided {
		_, err := insist(ctx, func() (struct{}, error) { return struct{}{}, resumable(s.store.sweep(ctx, a)) })
		if err != nil && !errors.Is(err, driver.ErrClosed) { // with the connection the session ends
			return err
		}
	}
	return nil
}
