package zk

import (
	"context"
	"encoding/binary"
	"sync"
)

// The server carries out the requests of one connection in the order in which
// they were sent. So the listing that tells where a new node stands need not wait
// for the answer to the request that makes it: it only has to be sent after it.
// The library doesn't promise an order between calls, but our own connections
// see what is sent. This saves one round trip of every Enter.

const opCreate = int32(1)

// departures tells when a request to create a path was sent.
type departures struct {
	mu      sync.Mutex
	awaited map[string]chan struct{}
}

// expect returns a channel that is closed when a request to create the path has
// been sent. forget is to be called when that does not matter any more.
func (d *departures) expect(path string) (sent <-chan struct{}, forget func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.awaited == nil {
		d.awaited = map[string]chan struct{}{}
	}
	c := make(chan struct{})
	d.awaited[path] = c
	return c, func() { d.take(path) }
}

func (d *departures) take(path string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.awaited[path]
	delete(d.awaited, path)
	return c
}

// sent looks at a packet that was sent: its length, xid and operation, and for
// the creation of a node the length of the path and the path.
func (d *departures) sent(packet []byte) {
	const head = 16
	if len(packet) < head || int32(binary.BigEndian.Uint32(packet[8:])) != opCreate {
		return
	}
	size := int(binary.BigEndian.Uint32(packet[12:]))
	if size < 0 || size > len(packet)-head {
		return
	}
	if c := d.take(string(packet[head : head+size])); c != nil {
		close(c)
	}
}

// An early listing is one that was asked for together with the creation of a node.
type early struct {
	done chan struct{} // closed when list and err are set
	list listing
	err  error
}

// listEarly lists the queue right after the request to create the path was sent,
// unless answered is closed before it was. It returns nil where it can't.
func (s *session) listEarly(ctx context.Context, dir, path string, answered <-chan struct{}) *early {
	d := s.link.conn.dialer
	if d == nil {
		return nil
	}
	sent, forget := d.departures.expect(path)
	e := &early{done: make(chan struct{})}
	if !s.link.conn.calls.start(func() {
		defer close(e.done)
		defer forget()
		select {
		case <-sent:
		case <-answered: // as it was not sent, or because it was answered so soon
		case <-ctx.Done():
		}
		select {
		case <-sent:
			e.list.names, e.list.stat, e.err = s.link.conn.zk.Children(dir)
		default:
			e.err = errNotListed
		}
	}) {
		forget()
		return nil
	}
	return e
}

// line is what the listing says of the queue, if it saw the own node and the
// numbers tell the order. If not, the queue has to be listed again: the two
// requests were sent on different connections, or the node is gone.
func (e *early) line(ctx context.Context, own string) ([]contender, listing, bool) {
	if e == nil {
		return nil, listing{}, false
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return nil, listing{}, false
	}
	if e.err != nil {
		return nil, listing{}, false
	}
	line := contenders(e.list.names)
	return line, e.list, find(line, own) >= 0 && !ambiguous(line)
}
