package zk

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// A conn is a go-zookeeper connection: the user's, or one of our own.
//
// The library's calls take no context, so each runs in a goroutine. It ends when
// the connection answers or is closed. Our own connections are closed, and all
// calls waited for, when they are not needed any more; how long a call to the
// user's connection lasts is up to that.
type conn struct {
	zk     *gozk.Conn
	dialer *dialer       // nil for a user's connection
	ended  chan struct{} // closed when the library's loop has ended; nil for a user's connection

	authorized bool // used by who opens a link

	closing sync.Once
	calls   group
}

// silent is a logger for the library.
type silent struct{}

func (silent) Printf(string, ...any) {}

// dialConn begins to connect to one of the servers, in their order, until it is closed.
func dialConn(servers []string, timeout time.Duration, config *tls.Config) (*conn, error) {
	d := newDialer(servers, timeout, config)
	zk, events, err := gozk.Connect(servers, timeout, gozk.WithHostProvider(d), gozk.WithDialer(d.dial),
		gozk.WithEventCallback(d.event), gozk.WithLogger(silent{}), gozk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	c := &conn{zk: zk, dialer: d, ended: make(chan struct{})}
	go func() { // ends with the library's loop, which close waits for
		defer close(c.ended)
		for range events {
			continue // the callback has seen it
		}
	}()
	return c, nil
}

// authorize adds digest credentials, once; the library repeats them whenever it
// connects. Servers take any credentials: whether they help is seen when an ACL
// asks for them.
func (c *conn) authorize(ctx context.Context, l *link, user, password string) error {
	if user == "" || c.authorized {
		return nil
	}
	_, err := call(ctx, l, func() (struct{}, error) {
		return struct{}{}, c.zk.AddAuth("digest", []byte(user+":"+password))
	})
	c.authorized = err == nil
	return err
}

// leave gives up the user's connection. Calls that it has not answered within a
// moment are left to it.
func (c *conn) leave() {
	c.calls.close()
	done := make(chan struct{})
	go func() { // ends with the last call
		c.calls.wait()
		close(done)
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

const (
	closeWait = time.Second            // for the server to confirm; the library waits as long
	parkWait  = 200 * time.Millisecond // for the library's loop to notice that it was shut
	queueWait = 5 * time.Millisecond   // for the library to queue its last request
)

// close closes a connection of our own and waits until nothing of it runs. If it
// is connected, the server ends the session; the dialer knows if it confirmed.
// It does nothing when called again.
func (c *conn) close(ctx context.Context) {
	c.closing.Do(func() { c.shut(ctx) })
}

func (c *conn) shut(ctx context.Context) {
	c.calls.close()
	closed := make(chan struct{})
	end := func() {
		c.zk.Close()
		close(closed)
	}
	if c.zk.State() == gozk.StateHasSession {
		go end() // waited for below
		timer := time.NewTimer(closeWait)
		defer timer.Stop()
		select {
		case <-c.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
		c.dialer.shut()
		close(c.dialer.release)
	} else {
		// The library's Close waits in vain for an answer to its last request, unless
		// its connecting loop runs and finds the request among those it has not sent.
		c.dialer.shut()
		select {
		case <-c.dialer.parked:
		case <-time.After(parkWait):
		}
		go end()              // waited for below
		time.Sleep(queueWait) // if it is too short, Close takes a second
		close(c.dialer.release)
	}
	<-closed
	<-c.ended
	c.calls.wait()
}
