package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockctl/lockctl/sqldb"
)

// A listeningStore is a Store that tells of releases: a driver.ReleaseWatcher.
type listeningStore struct {
	*sqldb.Store
	listener *listener
}

// Releases implements driver.ReleaseWatcher.
func (s *listeningStore) Releases(ctx context.Context, name string) (<-chan struct{}, error) {
	return s.listener.watch(ctx, name)
}

// Close implements driver.Leaser.
func (s *listeningStore) Close() error {
	s.listener.close()
	return s.Store.Close()
}

// A listener has one connection that listens, while someone wants to know.
type listener struct {
	url     string
	channel string

	mu     sync.Mutex
	live   *listening // nil while nobody wants to know
	closed bool
	wg     sync.WaitGroup // of listenings
}

// A listening is one connection of a listener's.
type listening struct {
	stop  context.CancelFunc
	ready chan struct{} // closed when it listens, or has failed
	err   error         // why it has failed, as of ready

	waiting map[string]map[chan struct{}]struct{} // by name; nil when it has ended. Under listener.mu
	users   int                                   // under listener.mu
}

func newListener(url, channel string) *listener { return &listener{url: url, channel: channel} }

var errListenerClosed = errors.New("listener closed")

// watch has releases of the name told until the context ends, or the connection does.
func (l *listener) watch(ctx context.Context, name string) (<-chan struct{}, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errListenerClosed
	}
	now := l.live
	if now == nil {
		now = l.begin()
	}
	c := make(chan struct{}, 1)
	if now.waiting[name] == nil {
		now.waiting[name] = map[chan struct{}]struct{}{}
	}
	now.waiting[name][c] = struct{}{}
	now.users++
	l.mu.Unlock()

	context.AfterFunc(ctx, func() { l.leave(now, name, c) })
	select {
	case <-now.ready:
		return c, now.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave ends a watch, and the connection with the last one.
func (l *listener) leave(now *listening, name string, c chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := now.waiting[name][c]; ok {
		if delete(now.waiting[name], c); len(now.waiting[name]) == 0 {
			delete(now.waiting, name)
		}
		close(c)
	}
	if now.users--; now.users == 0 {
		now.stop()
		if l.live == now {
			l.live = nil
		}
	}
}

// begin starts a connection. It is called with l.mu held.
func (l *listener) begin() *listening {
	ctx, stop := context.WithCancel(context.Background())
	now := &listening{stop: stop, ready: make(chan struct{}), waiting: map[string]map[chan struct{}]struct{}{}}
	l.live = now
	l.wg.Go(func() {
		defer stop()
		err := l.run(ctx, now)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, channels := range now.waiting {
			for c := range channels {
				close(c)
			}
		}
		now.waiting = nil
		if l.live == now {
			l.live = nil
		}
		select {
		case <-now.ready:
		default:
			now.err = err
			close(now.ready)
		}
	})
	return now
}

// run listens until the context ends or the connection breaks.
func (l *listener) run(ctx context.Context, now *listening) error {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // what it could not say goodbye to is closed all the same
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize()); err != nil {
		return err
	}
	close(now.ready)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		l.mu.Lock()
		for c := range now.waiting[n.Payload] {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		l.mu.Unlock()
	}
}

// close ends the connection, and waits until it has ended.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	if l.live != nil {
		l.live.stop()
	}
	l.mu.Unlock()
	l.wg.Wait()
}
