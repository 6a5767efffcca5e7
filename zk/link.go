package zk

import (
	"context"
	"errors"
	"fmt"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A link is one ZooKeeper session, on a connection. After an expiry go-zookeeper
// makes a new session on the same connection without asking, so every answer
// counts only if the connection still has the link's session id when it is in.
// The id never goes back to an earlier one.
type link struct {
	conn *conn
	id   int64         // 0 while the link is being opened
	ttl  time.Duration // see ttlOf
	root string        // what sync is asked about

	ctx context.Context // ends with the session; its cause is a driver error
	end context.CancelCauseFunc

	watches watches
	taken   bool // a driver.Session was made of it; guarded by the store
}

func newLink(c *conn, root string) *link {
	l := &link{conn: c, root: root}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.watches.link = l
	return l
}

// ttlOf is what is left of a session's timeout for driver.Session.TTL.
//
// What counts is the leader's clock. A follower passes on that it heard from a
// session when the leader next pings it, which is every half tick. A session is
// renewed before its TTL has passed since the last renewal, and the leader knows
// of the renewal half a tick later. So it doesn't end the session in between if
// the timeout is at least the TTL and half a tick. The shortest timeout that a
// server grants is two ticks, unless it is configured otherwise, so half a tick
// is at most a quarter of the timeout.
func ttlOf(timeout time.Duration) time.Duration { return timeout * 3 / 4 }

// nameOf is a session id as ZooKeeper's own tools show it.
func nameOf(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }

// call runs a request of the library. When a context ends first the request goes
// on, and what it does then is not known.
func call[T any](ctx context.Context, l *link, request func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	var none T
	if !l.conn.calls.start(func() {
		v, err := request()
		answers <- answer{v, err}
	}) {
		return none, l.check(driver.ErrClosed)
	}
	select {
	case a := <-answers:
		if err := l.check(a.err); err != nil {
			return none, err
		}
		return a.v, nil
	case <-ctx.Done():
		return none, ctx.Err()
	case <-l.ctx.Done():
		return none, context.Cause(l.ctx)
	}
}

// check is to be called when an answer is in. Whatever it says, it says nothing
// about this session if the connection has another one by now.
func (l *link) check(err error) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if l.id != 0 && l.conn.zk.SessionID() != l.id {
		return fmt.Errorf("%w: the connection has another one", driver.ErrSessionOver)
	}
	return translate(err)
}

// at says what was attempted on which node.
func at(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, path, err)
}

type listing struct {
	names []string
	stat  *gozk.Stat
}

type node struct {
	data []byte
	stat *gozk.Stat
}

// sync returns when the leader has answered and this server has caught up to the
// moment at which it did. It proves that the session is alive: the leader checks
// that. A ping proves nothing, because a follower that is cut off from its
// leader answers it too.
func (l *link) sync(ctx context.Context) error {
	_, err := call(ctx, l, func() (string, error) { return l.conn.zk.Sync(l.root) })
	return at("sync", l.root, err)
}

func (l *link) children(ctx context.Context, path string) (listing, error) {
	v, err := call(ctx, l, func() (v listing, err error) {
		v.names, v.stat, err = l.conn.zk.Children(path)
		return v, err
	})
	return v, at("list", path, err)
}

func (l *link) get(ctx context.Context, path string) (node, error) {
	v, err := call(ctx, l, func() (v node, err error) {
		v.data, v.stat, err = l.conn.zk.Get(path)
		return v, err
	})
	return v, at("read", path, err)
}

// stat returns gozk.ErrNoNode if there is no such node.
func (l *link) stat(ctx context.Context, path string) (*gozk.Stat, error) {
	v, err := call(ctx, l, func() (*gozk.Stat, error) {
		exists, stat, err := l.conn.zk.Exists(path)
		if err == nil && !exists {
			err = gozk.ErrNoNode
		}
		return stat, err
	})
	return v, at("look at", path, err)
}

func (l *link) delete(ctx context.Context, path string) error {
	_, err := call(ctx, l, func() (struct{}, error) { return struct{}{}, l.conn.zk.Delete(path, -1) })
	return at("delete", path, err)
}

// sentinel sets a watch on the one node that always exists and that nobody
// changes: it is there to be told when the session is over.
func (l *link) sentinel(ctx context.Context) (<-chan gozk.Event, error) {
	fired, err := call(ctx, l, func() (<-chan gozk.Event, error) {
		_, _, fired, err := l.conn.zk.ExistsW("/")
		return fired, err
	})
	return fired, at("watch", "/", err)
}

// begin waits for the connection to have a session, and makes the link stand for
// it. The session was alive at some moment after begin was called.
func (l *link) begin(ctx context.Context) (<-chan gozk.Event, error) {
	l.id = 0
	if err := l.sync(ctx); err != nil {
		return nil, err
	}
	l.id = l.conn.zk.SessionID()
	fired, err := l.sentinel(ctx) // compares the ids
	if l.conn.dialer == nil {
		err = resumable(err) // the user's connection has a new one
	}
	return fired, err
}

// guard ends the link when its session is over. It uses a watch, because the
// library drops events when their channel is full, and the channel of the user's
// connection is the user's. loss, if not nil, is closed when a disconnect is to
// count as the end.
func (l *link) guard(fired <-chan gozk.Event, loss <-chan struct{}) {
	for {
		select {
		case ev := <-fired:
			if ev.Type == gozk.EventNotWatching {
				l.end(fmt.Errorf("connection: %w", translate(ev.Err)))
				return
			}
		case <-loss:
			l.end(fmt.Errorf("%w: disconnected", driver.ErrSessionOver))
			return
		case <-l.ctx.Done():
			return
		}
		var err error
		fired, err = insist(l.ctx, func() (<-chan gozk.Event, error) { return l.sentinel(l.ctx) })
		if err != nil {
			if errors.Is(err, driver.ErrDenied) || refused(err) { // which this request is not, by ZooKeeper's rules
				err = fmt.Errorf("%w: %w", driver.ErrSessionOver, err)
			}
			l.end(err)
			return
		}
	}
}

// alive reports whether nothing is known of the session's end.
func (l *link) alive() bool {
	return l.ctx.Err() == nil && l.conn.zk.SessionID() == l.id
}

// connected reports whether a server is connected and knows the session.
func (l *link) connected() bool {
	return l.conn.zk.State() == gozk.StateHasSession
}

// conns is how many connections were begun for the session; the user's connection does not
// tell.
func (l *link) conns() int {
	if l.conn.dialer == nil {
		return 0
	}
	return l.conn.dialer.conns()
}

// errEnded is the cause of the end of a session that we have ended ourselves.
var errEnded = fmt.Errorf("%w: closed", driver.ErrSessionOver)

// close ends a session of our own. It returns nil when the service has confirmed
// that, by whatever way, and may be called again after an error.
func (l *link) close(ctx context.Context) error {
	l.end(errEnded)
	if l.conn.close(ctx); l.conn.dialer.isOver() {
		return nil
	}
	return l.conn.dialer.endSession(ctx)
}
