package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	defaultConnectTimeout = 5 * time.Second
	defaultCloseTimeout   = 5 * time.Second
	defaultBreakGrace     = 2 * time.Second
)

// ClientOptions are what every engine's client has in common. A nil
// *ClientOptions means all defaults.
type ClientOptions struct {
	// Owner is how this client presents itself in the queues. Fields that are
	// empty default to those of Self.
	Owner Owner
	// ConnectTimeout bounds the opening of a session, whatever the caller's
	// context allows. Defaults to 5 s.
	ConnectTimeout time.Duration
	// CloseTimeout bounds Close. Defaults to 5 s.
	CloseTimeout time.Duration
	// BreakGrace is for how long Break lets a holder end its work and leave by
	// itself, before Break removes its entry. Defaults to 2 s.
	BreakGrace time.Duration
}

func (o *ClientOptions) withDefaults() (ClientOptions, error) {
	var opts ClientOptions
	if o != nil {
		opts = *o
	}
	self := Self()
	if opts.Owner.Program == "" {
		opts.Owner.Program = self.Program
	}
	if opts.Owner.Host == "" {
		opts.Owner.Host = self.Host
	}
	if opts.Owner.PID == 0 {
		opts.Owner.PID = self.PID
	}
	if opts.Owner.User == "" {
		opts.Owner.User = self.User
	}
	if err := opts.Owner.validate("ClientOptions.Owner"); err != nil {
		return opts, err
	}
	if opts.ConnectTimeout == 0 {
		opts.ConnectTimeout = defaultConnectTimeout
	}
	if opts.CloseTimeout == 0 {
		opts.CloseTimeout = defaultCloseTimeout
	}
	if opts.BreakGrace == 0 {
		opts.BreakGrace = defaultBreakGrace
	}
	if opts.BreakGrace < 0 {
		return opts, &InvalidError{Field: "ClientOptions.BreakGrace", Problem: "is negative"}
	}
	if opts.ConnectTimeout < 0 {
		return opts, &InvalidError{Field: "ClientOptions.ConnectTimeout", Problem: "is negative"}
	}
	if opts.CloseTimeout < 0 {
		return opts, &InvalidError{Field: "ClientOptions.CloseTimeout", Problem: "is negative"}
	}
	return opts, nil
}

// A Client makes recipes on one service. It has one session there, opened when
// first needed, shared by everything made from the client, and renewed until
// the client is closed. When the session is lost, every hold of the client is
// lost with it, and the next call that needs one opens a new session.
//
// Make one with the Open or Dial function of an engine, one per process and
// service. All methods may be called at the same time.
type Client struct {
	store driver.Store
	opts  ClientOptions
	style lockStyle // of locks without options

	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // every goroutine of the client
	work chan func()    // for goroutines that are idle

	mu         sync.Mutex
	closed     bool
	current    *session
	connecting *connection

	closeOnce sync.Once
	closeErr  error
}

// connection is an opening of a session that several callers wait for.
type connection struct {
	done    chan struct{} // closed when session and err are set
	session *session
	err     error
}

// NewClient makes a client over an engine's store, and closes the store when it
// is closed. It sends nothing. Engines call it; others use an engine's Open.
// A nil opts means all defaults. It returns ErrInvalid for options that are out
// of range.
func NewClient(store driver.Store, opts *ClientOptions) (*Client, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{store: store, opts: o, work: make(chan func())}
	c.style = lockStyle{owner: o.Owner, plain: newTemplate(KindMutex, "", o.Owner)}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	return c, nil
}

// Engine is the name of the service: "etcd", "zookeeper" or "memory".
func (c *Client) Engine() string { return c.store.Engine() }

// Owner is how this client presents itself in the queues.
func (c *Client) Owner() Owner { return c.opts.Owner }

// SessionID is the id of the present session as the service's own tools show
// it, or "" while there is none.
func (c *Client) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil || c.current.over() {
		return ""
	}
	return c.current.drv.ID()
}

// Close gives up everything the client holds and waits for, and ends its
// session. Contexts of holds end with a LostError whose reason is LostClosed,
// waiting calls return ErrClosed. It returns an error, within CloseTimeout, if
// the service did not confirm; what is left then goes when the session's TTL has
// passed. Further calls return the same.
func (c *Client) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Client) close() error {
	c.mu.Lock()
	c.closed = true
	current := c.current
	c.mu.Unlock()

	c.stop(ErrClosed)
	var err error
	if current != nil {
		current.lose(&LostError{Reason: LostClosed})
		err = <-current.gone
	}
	c.wg.Wait()
	if closeErr := c.store.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if err != nil {
		return fmt.Errorf("close: %w", fault(err))
	}
	return nil
}

// idleTime is how long a goroutine waits for more work before it ends.
const idleTime = time.Second

// start runs f in a goroutine that Close waits for. It reports false, and runs
// nothing, when the client is closed. A goroutine that has become idle is taken
// if there is one: its stack has grown to what a request needs.
func (c *Client) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	select {
	case c.work <- f:
	default:
		c.wg.Go(func() { c.serve(f) })
	}
	return true
}

// serve runs f, and then what else there is to run, until there is none.
func (c *Client) serve(f func()) {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		f()
		idle.Reset(idleTime)
		select {
		case f = <-c.work:
		case <-idle.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// session returns the live session, opening one if there is none. Its errors
// are this package's.
func (c *Client) session(ctx context.Context) (*session, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if c.current != nil && !c.current.over() {
		defer c.mu.Unlock()
		return c.current, nil
	}
	conn := c.connecting
	if conn == nil {
		conn = &connection{done: make(chan struct{})}
		c.connecting = conn
		c.wg.Go(func() { c.connect(conn) })
	}
	c.mu.Unlock()

	select {
	case <-conn.done:
		return conn.session, conn.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: no session yet: %w", ErrUnavailable, ctx.Err())
	}
}

// connect opens a session on behalf of all who wait for it, and so under no
// caller's context.
func (c *Client) connect(conn *connection) {
	defer close(conn.done)
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.ConnectTimeout)
	defer cancel()
	start := time.Now()
	drv, err := c.store.Connect(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.connecting = nil
	switch {
	case err == nil && c.closed:
		s := newSession(c, drv, start)
		s.lose(&LostError{Reason: LostClosed})
		conn.err = ErrClosed
	case err == nil:
		conn.session = newSession(c, drv, start)
		c.current = conn.session
	case c.closed:
		conn.err = ErrClosed
	default:
		conn.err = fmt.Errorf("open a session: %w", fault(err))
	}
}
