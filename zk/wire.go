package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The parts of ZooKeeper's protocol that go-zookeeper keeps to itself: the
// handshake, which tells the session's password and real timeout, and the end of
// a session. Packets are a length of four bytes and that many bytes; all numbers
// are big-endian.

const (
	opCloseSession = int32(-11)
	maxPacket      = 64 // of an answer to what is sent here
)

// A greeting is the server's answer to a connect request.
type greeting struct {
	timeout  time.Duration
	session  int64 // 0 says that the session asked for is over
	password []byte
}

func readGreeting(packet []byte) (greeting, bool) {
	if len(packet) < 20 {
		return greeting{}, false
	}
	g := greeting{
		timeout: time.Duration(binary.BigEndian.Uint32(packet[4:])) * time.Millisecond,
		session: int64(binary.BigEndian.Uint64(packet[8:])),
	}
	size := int(binary.BigEndian.Uint32(packet[16:]))
	if size < 0 || 20+size > len(packet) {
		return greeting{}, false
	}
	g.password = append(g.password, packet[20:20+size]...)
	return g, true
}

// endSession attaches to a session on a new connection and closes it. nil means
// that the server says it is over.
//
// The request to close follows the handshake without waiting for the answer,
// which the server allows: to attach alone would make the session live longer,
// again and again if only the answers are lost.
func endSession(ctx context.Context, conn net.Conn, g greeting) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // unblocks what follows
	const xid = 1
	op := opCloseSession
	hello := binary.BigEndian.AppendUint32(nil, 0)  // version of the protocol
	hello = binary.BigEndian.AppendUint64(hello, 0) // the last zxid seen
	hello = binary.BigEndian.AppendUint32(hello, uint32(g.timeout.Milliseconds()))
	hello = binary.BigEndian.AppendUint64(hello, uint64(g.session))
	hello = binary.BigEndian.AppendUint32(hello, uint32(len(g.password)))
	hello = append(hello, g.password...)
	closing := binary.BigEndian.AppendUint32(nil, xid)
	closing = binary.BigEndian.AppendUint32(closing, uint32(op))
	if _, err := conn.Write(append(packet(hello), packet(closing)...)); err != nil {
		return err
	}

	answer, err := readPacket(conn)
	if err != nil {
		return err
	}
	switch back, ok := readGreeting(answer); {
	case !ok:
		return errors.New("bad answer to a connect request")
	case back.session == 0:
		return nil
	}
	answer, err = readPacket(conn)
	if err != nil {
		return err
	}
	if len(answer) < 16 || binary.BigEndian.Uint32(answer) != xid {
		return errors.New("bad answer to a request to close a session")
	}
	return nil
}

func packet(content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), content...)
}

func readPacket(conn net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxPacket {
		return nil, fmt.Errorf("answer of %d bytes", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// packets cuts a stream into packets and shows the beginning of each.
type packets struct {
	head []byte // of the packet being read: its length, then up to maxPacket bytes
	rest int    // bytes still to come after the head
}

func (p *packets) feed(data []byte, show func(packet []byte)) {
	for len(data) > 0 {
		if len(p.head) == 4+p.want() && p.rest > 0 { // skip what is not kept
			n := min(p.rest, len(data))
			p.rest -= n
			data = data[n:]
			if p.rest == 0 {
				p.done(show)
			}
			continue
		}
		p.head = append(p.head, data[0])
		data = data[1:]
		if len(p.head) >= 4 && len(p.head) == 4+p.want() {
			p.rest = p.size() - p.want()
			if p.rest == 0 {
				p.done(show)
			}
		}
	}
}

func (p *packets) done(show func([]byte)) {
	show(p.head[4:])
	p.head = p.head[:0]
}

func (p *packets) size() int { return int(binary.BigEndian.Uint32(p.head)) }

// want is how many bytes of the packet are kept; 0 before its length is known.
func (p *packets) want() int {
	if len(p.head) < 4 {
		return 0
	}
	return min(p.size(), maxPacket)
}
