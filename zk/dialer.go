package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

var errShut = errors.New("the connection was shut")

// A dialer makes the network connections of one go-zookeeper connection, and
// through them knows what the library doesn't tell: what the server has granted,
// that it has ended the session, that it has confirmed the closing.
//
// It never lets the library begin a second session, so one connection is one
// session. It is also the library's list of servers: the library's own pauses
// for a second before it reconnects to a server that is alone, and dials
// addresses where TLS needs names.
type dialer struct {
	servers []string
	tls     *tls.Config // nil without TLS
	timeout time.Duration

	ctx     context.Context // ends when no connection is wanted any more
	stop    context.CancelFunc
	release chan struct{} // closed when the library may leave its connecting loop
	parked  chan struct{} // closed when the library waits for that in its loop

	refused   chan struct{} // closed when each server has refused to connect, before there was a session
	lost      chan struct{} // closed when a connection with a session has ended
	confirmed chan struct{} // closed when the server has confirmed the closing of the session

	departures departures

	mu       sync.Mutex
	next     int
	attempts int // since a connection last had a session
	refusals int // among them: servers that are not there, or are something else
	granted  greeting
	over     bool // the server said that the session is over
	current  *wire
	err      error // of the last attempt that failed
}

func newDialer(servers []string, timeout time.Duration, config *tls.Config) *dialer {
	d := &dialer{
		servers: servers, tls: config, timeout: timeout,
		release: make(chan struct{}), parked: make(chan struct{}),
		refused: make(chan struct{}), lost: make(chan struct{}), confirmed: make(chan struct{}),
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Init implements gozk.HostProvider. The servers and their order are known already.
func (d *dialer) Init([]string) error { return nil }

// Len implements gozk.HostProvider.
func (d *dialer) Len() int { return len(d.servers) }

// Next implements gozk.HostProvider. Its second result has the library answer
// the requests that it has not sent, pause for a second, and look whether it was
// closed; so it is kept for the end.
func (d *dialer) Next() (server string, retryStart bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	server = d.servers[d.next%len(d.servers)]
	d.next++
	return server, isClosed(d.release)
}

// conns is how many connections were begun.
func (d *dialer) conns() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next
}

// Connected implements gozk.HostProvider.
func (d *dialer) Connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts = 0
}

// dial is the library's gozk.Dialer. It paces the attempts.
func (d *dialer) dial(network, address string, _ time.Duration) (net.Conn, error) {
	if err := d.pace(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.handshakeTime())
	defer cancel()
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		d.failed(err)
		d.refusal(err)
		return nil, err
	}
	w := newWire(conn, d, d.handshakeTime())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		_ = d.current.Close() // the library leaves it open when a session is over
	}
	d.current = w
	if d.ctx.Err() != nil {
		_ = conn.Close() // shut in the meantime; the library finds out by reading
	}
	return w, nil
}

func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || d.tls == nil {
		return conn, err
	}
	config := d.tls
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(address) // it was dialled
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the first error is the one to report
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return secure, nil
}

// handshakeTime bounds the connecting, and again the wait for the server's
// greeting. The library waits ten times its read timeout for a server that
// accepts and never answers, such as one that is paused; the session would be
// over by then. With several servers there must be time for more than one try.
func (d *dialer) handshakeTime() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	timeout := d.timeout
	if d.granted.session != 0 {
		timeout = d.granted.timeout
	}
	if len(d.servers) > 1 {
		return timeout / 6
	}
	return timeout / 3
}

// pace waits before an attempt, longer with each round through all servers. It
// waits for the end when there is nothing to connect to any more.
func (d *dialer) pace() error {
	d.mu.Lock()
	round := d.attempts / len(d.servers)
	d.attempts++
	over := d.over
	d.mu.Unlock()

	switch {
	case over:
		<-d.ctx.Done()
	case round > 0:
		sleep(d.ctx, min(firstPause<<min(round, 10), lastPause))
	}
	if d.ctx.Err() == nil {
		return nil
	}
	if !isClosed(d.parked) { // there is one connecting loop
		close(d.parked)
	}
	<-d.release
	return errShut
}

func (d *dialer) failed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// refusal counts an attempt after which it is of no use to wait for the server.
func (d *dialer) refusal(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return
	}
	if d.refusals++; d.refusals == len(d.servers) && d.attempts == d.refusals {
		close(d.refused)
	}
}

// lastErr is why the last attempt failed.
func (d *dialer) lastErr() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// timeoutGranted is the session timeout that the server has granted.
func (d *dialer) timeoutGranted() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.granted.timeout
}

// greeted takes note of a server's greeting.
func (d *dialer) greeted(g greeting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case g.session != 0 && d.granted.session == 0:
		d.granted = g
	case g.session == 0 && d.granted.session != 0:
		d.over = true
	}
}

// isOver reports whether the service has no session of this dialer.
func (d *dialer) isOver() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over || d.granted.session == 0 && d.ctx.Err() != nil || isClosed(d.confirmed)
}

// event is the library's callback. Its channel drops events when it is full.
func (d *dialer) event(ev gozk.Event) {
	if ev.Type != gozk.EventSession || ev.State != gozk.StateDisconnected {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.granted.session != 0 && !isClosed(d.lost) {
		close(d.lost)
	}
}

// drop breaks a connection on which nothing has come in since the given time, so
// that the library turns to the next server.
func (d *dialer) drop(since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil && d.current.lastRead().Before(since) {
		_ = d.current.Close() // the library finds out by reading
	}
}

// shut ends all traffic; the library's loop then waits in pace, or ends if the
// library was closed.
func (d *dialer) shut() {
	d.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		_ = d.current.Close() // the library finds out by reading
	}
}

// endSession has the service end the session, through a connection of its own.
func (d *dialer) endSession(ctx context.Context) error {
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		for _, server := range d.servers {
			if d.isOver() {
				return nil
			}
			if last = d.endAt(ctx, server); last == nil {
				return nil
			}
			if ctx.Err() != nil {
				return fmt.Errorf("end session: %w: %w", ctx.Err(), last)
			}
		}
		sleep(ctx, pause)
	}
}

func (d *dialer) endAt(ctx context.Context, server string) error {
	ctx, cancel := context.WithTimeout(ctx, d.handshakeTime())
	defer cancel()
	conn, err := d.connect(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	d.mu.Lock()
	granted := d.granted
	d.mu.Unlock()
	if err := endSession(ctx, conn, granted); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
