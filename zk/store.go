package zk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// store implements driver.Store. It has one link at a time, for its session and
// for everything that needs none.
type store struct {
	opts    Options
	user    *conn                           // the user's connection; nil with Dial
	servers []string                        // with Dial
	order   func(servers []string) []string // in which a link tries them

	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	sweeps group // removals in the background
	others group // what ends by itself, or with ctx

	opening chan struct{} // has a value while someone opens a link, and after Close

	mu      sync.Mutex
	current *link // the last one opened; changed by who fills opening
}

var errRefused = errors.New("no server accepts connections")

func newStore(user *conn, servers []string, o Options) *store {
	s := &store{opts: o, user: user, servers: servers, order: shuffled, opening: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// shuffled has the clients of a service divide themselves among its servers, those of one
// that fails too.
func shuffled(servers []string) []string {
	servers = slices.Clone(servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return servers
}

// Engine implements driver.Store.
func (s *store) Engine() string { return "zookeeper" }

// Connect implements driver.Store. With Dial each session gets a link that no
// earlier one had; on the user's connection they share its link.
func (s *store) Connect(ctx context.Context) (driver.Session, error) {
	for {
		l, err := s.link(ctx, true)
		if err != nil {
			return nil, err
		}
		// The link may be old. Only a sync from now proves what TTL promises.
		_, err = insist(ctx, func() (struct{}, error) { return struct{}{}, l.sync(ctx) })
		switch {
		case err == nil:
			return &session{store: s, link: l, entries: map[string]struct{}{}}, nil
		case s.user == nil:
			s.discard(l)
		}
		if !errors.Is(err, driver.ErrSessionOver) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// discard closes, in the background, a link of our own that never had an entry.
// Whether the server confirms that does not matter.
func (s *store) discard(l *link) {
	l.end(errEnded)
	shut := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		l.conn.close(ctx)
	}
	if !s.others.start(shut) {
		shut() // the store is closed
	}
}

// link returns the live link, opening one if there is none. A link that is taken
// for a session is closed by that session; with Dial it is not taken twice.
func (s *store) link(ctx context.Context, take bool) (*link, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, driver.ErrClosed
	}
	if s.ctx.Err() != nil {
		return nil, driver.ErrClosed
	}
	s.mu.Lock()
	old := s.current
	usable := old != nil && old.alive() && (!take || !old.taken || s.user != nil)
	if usable {
		old.taken = old.taken || take
	}
	s.mu.Unlock()
	switch {
	case usable:
		return old, nil
	case s.user != nil && old != nil && errors.Is(context.Cause(old.ctx), driver.ErrClosed):
		return nil, context.Cause(old.ctx) // the user has closed the connection, for good
	}

	fresh, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh.taken = take
	s.current = fresh
	if old != nil && s.user == nil && !old.taken {
		s.discard(old)
	}
	return fresh, nil
}

// open opens a link. The context bounds it, and Close ends it. The first one
// fails at once if all servers refuse; later ones wait for servers to come back.
func (s *store) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(driver.ErrClosed) })()

	if s.user != nil {
		l := newLink(s.user, s.opts.Root)
		l.ttl = ttlOf(s.opts.TTL)
		return l, s.begin(ctx, l, nil)
	}
	c, err := dialConn(s.order(s.servers), s.opts.TTL, s.opts.TLS)
	if err != nil {
		return nil, err
	}
	if s.current == nil {
		s.others.start(func() {
			select {
			case <-c.dialer.refused:
				cancel(errRefused)
			case <-ctx.Done():
			}
		})
	}
	var loss <-chan struct{}
	if s.opts.DisconnectIsLoss {
		loss = c.dialer.lost
	}
	l := newLink(c, s.opts.Root)
	if err := s.begin(ctx, l, loss); err != nil {
		s.discard(l)
		if last := c.dialer.lastErr(); last != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
		return nil, err
	}
	return l, nil
}

// begin finds out the session that the link is to stand for, proves that it is
// alive, and guards it.
func (s *store) begin(ctx context.Context, l *link, loss <-chan struct{}) error {
	fired, err := insist(ctx, func() (<-chan gozk.Event, error) {
		if err := l.conn.authorize(ctx, l, s.opts.User, s.opts.Password); err != nil {
			return nil, err
		}
		return l.begin(ctx)
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return err
	}
	if d := l.conn.dialer; d != nil {
		l.ttl = ttlOf(d.timeoutGranted())
	}
	if !l.conn.calls.start(func() { l.guard(fired, loss) }) {
		return driver.ErrClosed
	}
	return nil
}

// probe opens a link and asks for the root, to find out what stands in the way.
func (s *store) probe(ctx context.Context) error {
	l, err := s.link(ctx, false)
	if err != nil {
		return err
	}
	_, err = insist(ctx, func() (listing, error) { return l.children(ctx, s.opts.Root) })
	if errors.Is(err, gozk.ErrNoNode) {
		return nil
	}
	return err
}

// Close implements driver.Store. Removals that go on in the background get
// CloseTimeout to finish; a call to List that still runs is ended.
func (s *store) Close() error {
	err := s.finishSweeps()
	s.stop()
	s.opening <- struct{}{} // nobody opens a link any more
	l := s.current
	switch {
	case s.user != nil:
		if l != nil {
			l.end(driver.ErrClosed)
		}
		s.user.leave()
	case l != nil && !l.taken:
		s.discard(l)
	}
	s.others.close()
	s.others.wait()
	return err
}

func (s *store) finishSweeps() error {
	s.sweeps.close()
	done := make(chan struct{})
	go func() { // ends before Close does, which waits for it or stops the sweeps
		s.sweeps.wait()
		close(done)
	}()
	timer := time.NewTimer(s.opts.Client.CloseTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		s.stop()
		<-done
		return errors.New("entries of an earlier session may be left in the present session of the user's connection")
	}
}

// dir is the path of a queue's node.
func (s *store) dir(q driver.Queue) (string, error) {
	if q.Raw == "" {
		return s.opts.Root + "/" + q.Space + "/" + driver.Escape(q.Name), nil
	}
	if problem := pathProblem(q.Raw); problem != "" {
		return "", invalid("MutexOptions.Path", problem)
	}
	return q.Raw, nil
}

// pathProblem says what is wrong with a path that a user gave, or "".
func pathProblem(path string) string {
	if !strings.HasPrefix(path, "/") || path == "/" {
		return `does not begin with "/" and a name`
	}
	for element := range strings.SplitSeq(path[1:], "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Sprintf("has an element %q", element)
		}
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff }) {
		return "has a character that ZooKeeper does not allow"
	}
	return ""
}

// created is a node's time of creation by the service's clock.
func created(stat *gozk.Stat) time.Time { return time.UnixMilli(stat.Ctime) }
