package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// blind is a service with one entry ahead of whoever enters, which goes when the
// test says so, and on which waiting for that does not work.
type blind struct {
	driver.Store
	driver.Session
	mu   sync.Mutex
	gone bool
}

func (b *blind) Engine() string { return "blind" }

func (b *blind) Connect(context.Context) (driver.Session, error) { return blindSession{b}, nil }

func (b *blind) Close() error { return nil }

func (b *blind) Enter(_ context.Context, q driver.Queue, value []byte) (driver.Entry, *driver.Entry, error) {
	return driver.Entry{Queue: q, ID: "own", Revision: 2, Value: value}, &driver.Entry{Queue: q, ID: "other", Revision: 1}, nil
}

func (b *blind) Ahead(_ context.Context, own driver.Entry) (*driver.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return nil, nil
	}
	return &driver.Entry{Queue: own.Queue, ID: "other", Revision: 1}, nil
}

func (b *blind) Watch(ctx context.Context, _ driver.Scope, _ func(driver.Event)) error {
	<-ctx.Done()
	return ctx.Err()
}

// blindSession is the session's side of blind.
type blindSession struct{ *blind }

func (blindSession) ID() string                                { return "1" }
func (blindSession) TTL() time.Duration                        { return time.Minute }
func (blindSession) Done() <-chan struct{}                     { return nil }
func (blindSession) Renew(context.Context) error               { return nil }
func (blindSession) Leave(context.Context, driver.Entry) error { return nil }
func (blindSession) Close(context.Context) error               { return nil }
func (blindSession) Await(context.Context, driver.Entry) error { return errors.New("no watches today") }

// TestWaitWithoutAwait has an engine on which only Await fails: the lock is granted
// all the same, if later.
func TestWaitWithoutAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &blind{}
		c, err := recipes.NewClient(service, nil)
		require.NoError(t, err)
		defer c.Close()
		time.AfterFunc(10*time.Second, func() {
			service.mu.Lock()
			defer service.mu.Unlock()
			service.gone = true
		})
		start := time.Now()
		hold := lock(t, c, "job")
		require.WithinRange(t, time.Now(), start.Add(10*time.Second), start.Add(12*time.Second))
		require.NoError(t, hold.Unlock(context.Background()))
	})
}
