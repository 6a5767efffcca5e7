package zk

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// A wire is a network connection under go-zookeeper that listens in: to the
// greeting, and to the answer to the closing of the session. Until the greeting
// is complete it bounds all reading and writing.
type wire struct {
	net.Conn
	dialer *dialer
	limit  time.Time // for the handshake

	packets packets // used by Read alone
	greeted atomic.Bool
	closing atomic.Int64 // 1 + xid of the request to close the session
	read    atomic.Int64 // when Read last returned data, or else the connection was made, in Unix nanoseconds
}

func newWire(conn net.Conn, d *dialer, handshake time.Duration) *wire {
	now := time.Now()
	w := &wire{Conn: conn, dialer: d, limit: now.Add(handshake)}
	w.read.Store(now.UnixNano())
	return w
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.read.Store(time.Now().UnixNano())
		w.packets.feed(b[:n], w.incoming)
	}
	if err != nil && !w.greeted.Load() {
		w.dialer.failed(fmt.Errorf("%s does not answer as a ZooKeeper server in service: %w", w.RemoteAddr(), err))
	}
	return n, err
}

func (w *wire) incoming(packet []byte) {
	if !w.greeted.Load() {
		if g, ok := readGreeting(packet); ok {
			w.dialer.greeted(g)
		}
		w.greeted.Store(true)
		return
	}
	if xid := w.closing.Load(); xid != 0 && len(packet) >= 4 && int64(binary.BigEndian.Uint32(packet)) == xid-1 {
		if w.closing.Swap(0) != 0 {
			close(w.dialer.confirmed)
		}
	}
}

// Write implements net.Conn. The library writes one packet at a time.
func (w *wire) Write(b []byte) (int, error) {
	if w.greeted.Load() && len(b) >= 12 && int32(binary.BigEndian.Uint32(b[8:])) == opCloseSession {
		w.closing.Store(1 + int64(binary.BigEndian.Uint32(b[4:])))
	}
	n, err := w.Conn.Write(b)
	if err == nil && w.greeted.Load() {
		w.dialer.departures.sent(b)
	}
	return n, err
}

// SetReadDeadline implements net.Conn.
func (w *wire) SetReadDeadline(t time.Time) error { return w.Conn.SetReadDeadline(w.bound(t)) }

// SetWriteDeadline implements net.Conn.
func (w *wire) SetWriteDeadline(t time.Time) error { return w.Conn.SetWriteDeadline(w.bound(t)) }

func (w *wire) bound(t time.Time) time.Time {
	if !w.greeted.Load() && (t.IsZero() || t.After(w.limit)) {
		return w.limit
	}
	return t
}

func (w *wire) lastRead() time.Time { return time.Unix(0, w.read.Load()) }
