package recipes

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	defaultLeaseTTL  = 15 * time.Second
	leastLeaseTTL    = 100 * time.Millisecond
	defaultLeasePoll = time.Second
	leastLeasePoll   = time.Millisecond
)

// LeaseOptions adjust a LeaseClient. A nil *LeaseOptions means all defaults.
type LeaseOptions struct {
	// TTL is for how long a lock outlives its holder, 100 ms at the least. It is
	// renewed after a quarter of it. Defaults to 15 s.
	TTL time.Duration
	// Poll is how often the store is asked whether a lock is free, at the most, by who
	// waits for it; the first times sooner, and later where the store tells of
	// releases. It is how often Watch asks, too. Defaults to 1 s.
	Poll time.Duration
	// Client has what all clients have in common. Its ConnectTimeout bounds each
	// request to the store.
	Client ClientOptions
}

func (o *LeaseOptions) withDefaults() (LeaseOptions, error) {
	var opts LeaseOptions
	if o != nil {
		opts = *o
	}
	if opts.TTL == 0 {
		opts.TTL = defaultLeaseTTL
	}
	if opts.TTL < leastLeaseTTL {
		return opts, &InvalidError{Field: "LeaseOptions.TTL", Problem: fmt.Sprintf("is less than %v", leastLeaseTTL)}
	}
	if opts.Poll == 0 {
		opts.Poll = defaultLeasePoll
	}
	if opts.Poll < leastLeasePoll {
		return opts, &InvalidError{Field: "LeaseOptions.Poll", Problem: fmt.Sprintf("is less than %v", leastLeasePoll)}
	}
	return opts, nil
}

// A LeaseClient makes locks on a store of leases: a database, Redis, DynamoDB. Such a
// store has no queues, so the client has no recipes that need order, and who waits for
// a lock gets it in any order. Each lock that is held is a lease of its own, renewed
// until it is released.
//
// Make one with the Open or Dial function of a store's package, one per process and
// store. All methods may be called at the same time.
type LeaseClient struct {
	*leaseCore
}

// NewLeaseClient makes a client over a store whose leases have fencing tokens, and
// closes the store when it is closed. It sends nothing. Packages of stores call it. A
// nil opts means all defaults. It returns ErrInvalid for options that are out of range.
func NewLeaseClient(leaser driver.Leaser, opts *LeaseOptions) (*LeaseClient, error) {
	core, err := newLeaseCore(leaser, opts)
	if err != nil {
		return nil, err
	}
	return &LeaseClient{core}, nil
}

// leaseCore is what clients of leases have in common.
type leaseCore struct {
	leaser driver.Leaser
	ttl    time.Duration
	poll   time.Duration
	client *Client // over the leases as if they were entries: for reading, goroutines and options

	mu       sync.Mutex
	sessions map[*session]struct{} // of the leases that are held
	freed    map[string]*freed     // by name, for those who wait

	closeOnce sync.Once
	closeErr  error
}

func newLeaseCore(leaser driver.Leaser, opts *LeaseOptions) (*leaseCore, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	store := &leaseStore{leaser: leaser, poll: o.Poll}
	client, err := NewClient(store, &o.Client)
	if err != nil {
		return nil, err
	}
	store.timeout = client.opts.ConnectTimeout
	return &leaseCore{
		leaser: leaser, ttl: o.TTL, poll: o.Poll, client: client,
		sessions: map[*session]struct{}{}, freed: map[string]*freed{},
	}, nil
}

// Engine is the name of the store, such as "postgres".
func (c *leaseCore) Engine() string { return c.leaser.Engine() }

// Owner is how this client presents itself.
func (c *leaseCore) Owner() Owner { return c.client.Owner() }

// TTL is for how long a lock outlives its holder.
func (c *leaseCore) TTL() time.Duration { return c.ttl }

// Objects lists the locks that are held, see Client.Objects. Who waits isn't known to
// the store.
func (c *leaseCore) Objects(ctx context.Context, filter Filter) ([]Object, error) {
	return c.client.Objects(ctx, filter)
}

// Watch reports locks as Client.Watch does. It asks the store again and again, after
// LeaseOptions.Poll, so it may miss a holder that was quick.
func (c *leaseCore) Watch(ctx context.Context, filter Filter) iter.Seq2[Change, error] {
	return c.client.Watch(ctx, filter)
}

// Lock returns the lock called name; it has no entries if nobody holds it.
func (c *leaseCore) Lock(ctx context.Context, name string) (Object, error) {
	return c.client.Lock(ctx, name)
}

// Break takes a lock from who holds it: it removes the lease as it was seen by Lock,
// Objects or Watch, and never another. The holder learns of it when it next renews the
// lease, a quarter of its TTL later at the most: its context ends then, with a
// *LostError whose reason is LostUnknown. Until then it goes on, so that only a resource
// that checks the token refuses its work.
//
// It returns nil when the store has confirmed; ErrConflict, and touches nothing, if the
// lease is not there any more; ErrInvalid, ErrDenied or ErrClosed; and ErrUnavailable
// or the context's error, after which the lease may or may not be gone.
func (c *leaseCore) Break(ctx context.Context, name string, entry Entry) error {
	if err := validateName(name); err != nil {
		return err
	}
	if entry.ID == "" {
		return &InvalidError{Field: "entry", Problem: "has no ID"}
	}
	if c.client.ctx.Err() != nil {
		return ErrClosed
	}
	unsettled := false
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		attempt, cancel := context.WithTimeout(ctx, c.client.opts.ConnectTimeout)
		err := c.leaser.Release(attempt, driver.Lease{Name: name, ID: entry.ID, Token: entry.Token})
		cancel()
		switch {
		case err == nil, unsettled && errors.Is(err, driver.ErrGone):
			return nil
		case errors.Is(err, driver.ErrGone):
			return fmt.Errorf("break lock %q: %w: lease %s is not there any more", name, ErrConflict, entry.ID)
		case permanent(err), ctx.Err() != nil:
			return fmt.Errorf("break lock %q: %w", name, fault(err))
		}
		unsettled = true
		pause(ctx, jitter(backoff))
	}
}

// Close gives up everything the client holds and waits for. Contexts of holds end with
// a LostError whose reason is LostClosed, waiting calls return ErrClosed. It returns an
// error, within CloseTimeout, if the store did not confirm; what is left then goes when
// its TTL has passed. Further calls return the same.
func (c *leaseCore) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *leaseCore) close() error {
	c.client.stop(ErrClosed)
	c.mu.Lock()
	sessions := c.sessions
	c.sessions = nil
	c.mu.Unlock()
	for s := range sessions {
		s.lose(&LostError{Reason: LostClosed})
	}
	var err error
	for s := range sessions {
		err = errors.Join(err, <-s.gone)
	}
	if err != nil {
		err = fmt.Errorf("close: %w", fault(err))
	}
	return errors.Join(err, c.client.Close())
}

// freed is what goroutines of this client wait for beside each other.
type freed struct {
	waiting int           // so many calls
	now     chan struct{} // closed when this client releases the name
}

// expect notes that a call waits for the name, until it calls done.
func (c *leaseCore) expect(name string) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.freed[name]
	if f == nil {
		f = &freed{now: make(chan struct{})}
		c.freed[name] = f
	}
	f.waiting++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.waiting--; f.waiting == 0 {
			delete(c.freed, name)
		}
	}
}

// await returns a channel that is closed when this client releases a name that is waited
// for.
func (c *leaseCore) await(name string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed[name].now
}

// free wakes those of this client who wait for the name.
func (c *leaseCore) free(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.freed[name]; f != nil {
		close(f.now)
		f.now = make(chan struct{})
	}
}

// begin supervises a lease that was asked for at start. It is called in a goroutine of
// the client. If that is closed, the session is over at once.
func (c *leaseCore) begin(lease driver.Lease, start time.Time) *session {
	s := newSession(c.client, &leaseSession{core: c, lease: lease}, start)
	s.listening.Do(func() {}) // there are no inboxes
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		s.lose(&LostError{Reason: LostClosed})
		return s
	}
	c.sessions[s] = struct{}{}
	context.AfterFunc(s.ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sessions, s)
	})
	return s
}
