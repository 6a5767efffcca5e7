package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

const defaultTTL = 15 * time.Second

// Options adjust a client. A nil *Options means all defaults.
type Options struct {
	// Root separates the locks of clients with different roots. Defaults to
	// "/lockctl".
	Root string
	// TTL is how long the server keeps a session without a renewal. Defaults to
	// 15 s.
	TTL time.Duration
	// Link is the connection to the server. Defaults to one that always works.
	Link *Link
	// Client has the options that all engines share.
	Client recipes.ClientOptions
}

// Open makes a client of the server. A nil opts means all defaults. It returns
// ErrInvalid for options that are out of range.
func Open(server *Server, opts *Options) (*recipes.Client, error) {
	var client recipes.ClientOptions
	if opts != nil {
		client = opts.Client
	}
	store, err := NewStore(server, opts)
	if err != nil {
		return nil, err
	}
	return recipes.NewClient(store, &client)
}

// NewStore makes the store of a client, for tests that put something between the two.
// Options.Client is not used. It returns ErrInvalid for options that are out of range.
func NewStore(server *Server, opts *Options) (driver.Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if server == nil {
		return nil, &recipes.InvalidError{Field: "server", Problem: "is nil"}
	}
	if o.Root == "" {
		o.Root = "/lockctl"
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.TTL < 0 {
		return nil, &recipes.InvalidError{Field: "Options.TTL", Problem: "is negative"}
	}
	if o.Link == nil {
		o.Link = &Link{}
	}
	return &store{server: server, root: o.Root, ttl: o.TTL, link: o.Link}, nil
}

// store implements driver.Store.
type store struct {
	server *Server
	root   string
	ttl    time.Duration
	link   *Link
}

func (s *store) Engine() string { return "memory" }

func (s *store) Close() error { return nil }

func (s *store) Connect(ctx context.Context) (driver.Session, error) {
	var r *record
	err := s.link.call(ctx, func() { r = s.server.connect(s.ttl) })
	if err != nil {
		return nil, err // a session that was made all the same expires
	}
	sess := &session{store: s, record: r, done: make(chan struct{})}
	sess.ctx, sess.stop = context.WithCancel(context.Background())
	sess.wg.Go(sess.listen)
	return sess, nil
}

func (s *store) List(ctx context.Context, scope driver.Scope) ([]driver.Entry, error) {
	for { // reading again does no harm
		var entries []driver.Entry
		err := s.link.call(ctx, func() { entries = s.server.list(s.root, scope) })
		if !errors.Is(err, errCut) {
			return entries, err
		}
	}
}

func (s *store) Watch(ctx context.Context, scope driver.Scope, sink func(driver.Event)) error {
	if err := s.link.wait(ctx, &s.link.requests); err != nil {
		return err
	}
	w := s.server.subscribe(s.root, scope)
	defer s.server.unsubscribe(w)
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		for {
			err := s.link.wait(ctx, &s.link.replies)
			if err == nil {
				break
			}
			if !errors.Is(err, errCut) {
				return err
			}
		}
		for _, ev := range s.server.take(w) {
			sink(ev)
		}
	}
}

// session implements driver.Session.
type session struct {
	store  *store
	record *record
	done   chan struct{}

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup
}

func (s *session) ID() string            { return s.record.id }
func (s *session) TTL() time.Duration    { return s.record.ttl }
func (s *session) Done() <-chan struct{} { return s.done }

// listen hears of the end of the session, as far as the link lets it.
func (s *session) listen() {
	select {
	case <-s.ctx.Done():
		return
	case <-s.record.over:
	}
	for {
		switch err := s.store.link.wait(s.ctx, &s.store.link.replies); {
		case err == nil:
			close(s.done)
			return
		case s.ctx.Err() != nil:
			return
		}
	}
}

func (s *session) Renew(ctx context.Context) error {
	var result error
	if err := s.store.link.call(ctx, func() { result = s.store.server.renew(s.record) }); err != nil {
		return err
	}
	return result
}

func (s *session) Enter(ctx context.Context, queue driver.Queue, value []byte) (own driver.Entry, ahead *driver.Entry, err error) {
	at := place{s.store.root, queue}
	if queue.Raw != "" {
		at.root = ""
	}
	id := rand.Text()
	for { // the entry's ID settles a lost reply
		var result error
		err = s.store.link.call(ctx, func() {
			own, ahead, result = s.store.server.enter(s.record, at, id, value)
		})
		if err == nil {
			return own, ahead, result
		}
		if !errors.Is(err, errCut) {
			return own, nil, err
		}
	}
}

func (s *session) Ahead(ctx context.Context, own driver.Entry) (ahead *driver.Entry, err error) {
	var result error
	err = s.store.link.call(ctx, func() { ahead, result = s.store.server.ahead(s.record, own) })
	if err != nil {
		return nil, err
	}
	return ahead, result
}

func (s *session) Await(ctx context.Context, other driver.Entry) error {
	if err := s.store.link.wait(ctx, &s.store.link.requests); err != nil {
		return err
	}
	if err := s.store.server.await(ctx, other); err != nil {
		return err
	}
	return s.store.link.wait(ctx, &s.store.link.replies)
}

func (s *session) Leave(ctx context.Context, own driver.Entry) error {
	var result error
	if err := s.store.link.call(ctx, func() { result = s.store.server.leave(own) }); err != nil {
		return err
	}
	return result
}

func (s *session) Close(ctx context.Context) error {
	s.stop()
	s.wg.Wait()
	return s.store.link.call(ctx, func() { s.store.server.endSession(s.record) })
}
