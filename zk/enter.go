package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// An attempt is a series of requests to make one node. All carry the same
// prefix, by which the node is found if an answer was lost.
type attempt struct {
	dir     string
	prefix  string
	pending chan made // of the last request, if its answer was not awaited
	early   *early    // the queue as of the last request, where it could be listed with it
}

type made struct {
	path string
	err  error
}

// Enter implements driver.Session: it makes a node and looks where it stands.
func (s *session) Enter(ctx context.Context, q driver.Queue, value []byte) (driver.Entry, *driver.Entry, error) {
	var none driver.Entry
	dir, err := s.store.dir(q)
	if err != nil {
		return none, nil, err
	}
	if !s.entering.enter() {
		return none, nil, errEnded
	}
	defer s.entering.leave()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		made, list, err := s.create(ctx, dir, value)
		if err != nil {
			return none, nil, fmt.Errorf("enter queue: %w", err)
		}
		own := driver.Entry{Queue: q, ID: path.Base(made), Session: s.ID(), Value: value, Handle: &ownNode{path: made}}
		ahead, err := insist(ctx, func() (*driver.Entry, error) { return s.place(ctx, dir, &own, list) })
		switch {
		case err == nil:
			return own, ahead, nil
		case errors.Is(err, driver.ErrGone): // someone removed it before it counted for anything
			if err = s.unlisted(ctx, made, pause); err == nil {
				continue
			}
		case ctx.Err() == nil: // we may not look, so the node must go; Close does it if this fails
			_, _ = insist(ctx, func() (struct{}, error) { return struct{}{}, s.remove(ctx, made) })
		}
		return none, nil, fmt.Errorf("enter queue: %w", err)
	}
}

// mostAbsent is how often a queue's node can be missing right after it was made.
const mostAbsent = 3

// errBehind says that a server does not have what the others have.
var errBehind = errors.New("the server does not show what it has made: it has lost what others have kept")

// unlisted sees to a node that the server did not list after it had made it. If nobody has
// removed it, the server's own copy of the data is not what the leader has, which happens
// after a member has lost transactions, and stays so. Then the session goes on with
// another server. Nothing is left behind in any case.
func (s *session) unlisted(ctx context.Context, path string, pause time.Duration) error {
	_, err := insist(ctx, func() (struct{}, error) { return struct{}{}, s.remove(ctx, path) })
	switch {
	case errors.Is(err, driver.ErrGone):
		return nil
	case err != nil:
		return err
	case !s.move():
		return errBehind
	}
	sleep(ctx, pause)
	return ctx.Err()
}

// move has the session go on with another server. It reports false if the connection is
// the user's.
func (s *session) move() bool {
	if s.link.conn.dialer == nil {
		return false
	}
	s.link.conn.dialer.drop(time.Now())
	return true
}

// place fills in own's revision and returns the entry ahead.
//
// Alone in the queue, the last change of the node's children is the revision: it
// is our own creation or later, and whoever enters after the listing changes
// them later still. This saves reading the own node.
func (s *session) place(ctx context.Context, dir string, own *driver.Entry, before *early) (*driver.Entry, error) {
	line, list, ok := before.line(ctx, own.ID)
	if !ok {
		var err error
		if line, list, err = s.line(ctx, dir); err != nil {
			return nil, err
		}
	}
	i := find(line, own.ID)
	switch {
	case i < 0:
		return nil, driver.ErrGone
	case len(line) == 1:
		own.Revision, own.Version = uint64(list.stat.Pzxid), uint64(list.stat.Pzxid)
		return nil, nil
	}
	var (
		ahead    *driver.Entry
		aheadErr error
		wg       sync.WaitGroup
	)
	wg.Go(func() { ahead, aheadErr = s.nearest(ctx, own.Queue, dir, line[:i]) })
	var (
		stat    *gozk.Stat
		err     error
		watched *second // nil again if an earlier attempt had one
	)
	if i == 1 && s.link.conn.dialer != nil && s.turns.hot(dir) {
		stat, watched, err = s.watchOwn(ctx, dir+"/"+own.ID)
	} else {
		stat, err = s.link.stat(ctx, dir+"/"+own.ID)
	}
	wg.Wait()
	switch {
	case errors.Is(err, gozk.ErrNoNode):
		return nil, driver.ErrGone
	case err != nil:
		return nil, err
	case aheadErr != nil:
		return nil, aheadErr
	}
	own.Handle.(*ownNode).second = watched
	own.Revision, own.Version, own.Created = uint64(stat.Czxid), uint64(stat.Mzxid), created(stat)
	return ahead, nil
}

// create makes a node at the end of a queue, exactly one however many answers
// are lost, and returns its path, and a listing of the queue that may have been
// made with it. On error there is none and will be none, or it is among the
// undecided.
func (s *session) create(ctx context.Context, dir string, value []byte) (string, *early, error) {
	a := &attempt{dir: dir, prefix: newPrefix()}
	absent := 0 // how often there was nothing to make the node in, although that was made
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		m, err := s.request(ctx, a, value)
		if err == nil && !refused(m.err) {
			err = s.link.check(m.err)
		}
		switch {
		case err != nil && (ctx.Err() != nil || final(err)):
			s.suspend(a)
			return "", nil, err
		case err == nil && m.err == nil:
			s.enlist(m.path)
			return m.path, a.early, nil
		case errors.Is(m.err, gozk.ErrNoNode) && absent == mostAbsent:
			absent = 0 // someone removes it all the time, or this server does not have what others have
			s.move()
		case errors.Is(m.err, gozk.ErrNoNode):
			err := s.store.makeDir(ctx, s.link, dir)
			switch {
			case err == nil:
				absent++ // it may have been empty, and removed
				continue
			case final(err) || ctx.Err() != nil:
				return "", nil, err
			}
		case refused(m.err):
			return "", nil, at("create in", dir, translate(m.err))
		}
		sleep(ctx, pause)
		path, err := s.settle(ctx, a)
		switch {
		case err != nil:
			s.suspend(a)
			return "", nil, err
		case path != "":
			s.enlist(path)
			return path, nil, nil
		}
	}
}

// request asks the server to make the node. Its error says that the answer was
// not awaited.
func (s *session) request(ctx context.Context, a *attempt, value []byte) (made, error) {
	answers, answered := make(chan made, 1), make(chan struct{})
	zk, path := s.link.conn.zk, a.dir+"/"+a.prefix
	a.early = s.listEarly(ctx, a.dir, path, answered)
	if !s.link.conn.calls.start(func() {
		defer close(answered)
		path, err := zk.Create(path, value, gozk.FlagEphemeralSequential, s.store.opts.ACL)
		answers <- made{path, coded(err)}
	}) {
		close(answered)
		return made{}, driver.ErrClosed
	}
	var err error
	select {
	case m := <-answers:
		return m, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.link.ctx.Done():
		err = context.Cause(s.link.ctx)
	}
	a.pending = answers
	return made{}, err
}

// settle finds out whether a request whose answer was lost, or can't be relied on, has made
// the node; it returns "" if not. If several have, it removes all but the first.
//
// The answer is decisive. The request was sent on a connection that is broken
// now, and the session has moved to another one: the old server has closed its
// end if it is the same, and if it is another the leader refuses what still comes
// from there, because the session has a new owner. So a request that was not
// applied before the sync never is.
func (s *session) settle(ctx context.Context, a *attempt) (string, error) {
	return insist(ctx, func() (string, error) {
		if err := s.link.sync(ctx); err != nil {
			return "", err
		}
		names, err := s.link.made(ctx, a)
		if err != nil || len(names) == 0 {
			return "", err
		}
		stat, err := s.link.stat(ctx, names[0])
		switch {
		case errors.Is(err, gozk.ErrNoNode):
			return "", nil
		case err != nil:
			return "", err
		case stat.EphemeralOwner != s.link.id: // a session that is dying, or a newer one
			return "", fmt.Errorf("%w: the node belongs to session %s", driver.ErrSessionOver, nameOf(stat.EphemeralOwner))
		}
		for _, more := range names[1:] {
			if err := s.remove(ctx, more); err != nil && !errors.Is(err, driver.ErrGone) {
				return "", err
			}
		}
		return names[0], nil
	})
}

// made lists the paths of the nodes that an attempt has made.
func (l *link) made(ctx context.Context, a *attempt) ([]string, error) {
	list, err := l.children(ctx, a.dir)
	if errors.Is(err, gozk.ErrNoNode) {
		return nil, nil
	}
	var paths []string
	for _, name := range list.names {
		if strings.HasPrefix(name, a.prefix) {
			paths = append(paths, a.dir+"/"+name)
		}
	}
	return paths, err
}

// enlist notes a node for Close to remove. The end of a session of our own removes all
// that it has.
func (s *session) enlist(path string) {
	if s.store.user == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[path] = struct{}{}
}

// suspend leaves an attempt for Close to clear up. The end of a session of our
// own clears up everything; that of the user's connection does not, because a
// request that waited through an expiry is done in the connection's next session.
func (s *session) suspend(a *attempt) {
	if s.store.user == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undecided = append(s.undecided, a)
}

// makeDir makes the node of a queue, and those above it that are missing. The
// queue's own is a container, which the server removes some time after it became
// empty. From the bottom up: whoever may use a root need not have the right to
// make it.
func (s *store) makeDir(ctx context.Context, l *link, dir string) error {
	err := l.makeNode(ctx, dir, gozk.FlagContainer, s.opts.ACL)
	if errors.Is(err, gozk.ErrNoNode) {
		if err = s.makeParent(ctx, l, path.Dir(dir)); err == nil {
			err = l.makeNode(ctx, dir, gozk.FlagContainer, s.opts.ACL)
		}
	}
	return err
}

func (s *store) makeParent(ctx context.Context, l *link, dir string) error {
	err := l.makeNode(ctx, dir, gozk.FlagPersistent, s.opts.ACL)
	if errors.Is(err, gozk.ErrNoNode) && dir != "/" {
		if err = s.makeParent(ctx, l, path.Dir(dir)); err == nil {
			err = l.makeNode(ctx, dir, gozk.FlagPersistent, s.opts.ACL)
		}
	}
	return err
}

func (l *link) makeNode(ctx context.Context, path string, flag int32, acl []gozk.ACL) error {
	_, err := call(ctx, l, func() (string, error) {
		if flag == gozk.FlagContainer {
			return l.conn.zk.CreateContainer(path, nil, flag, acl)
		}
		return l.conn.zk.Create(path, nil, flag, acl)
	})
	if errors.Is(err, gozk.ErrNodeExists) {
		return nil
	}
	return at("create", path, err)
}
