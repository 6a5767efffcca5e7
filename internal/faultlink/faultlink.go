// Package faultlink is a TCP proxy that misbehaves on command, for tests: it
// stalls, delays, swallows replies and cuts connections between a client and a
// server on this machine.
package faultlink

import (
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Direction is a direction of traffic, or both.
type Direction int

// The directions.
const (
	Requests Direction = 1 << iota // from the client to the server
	Replies                        // from the server to the client
	Both     = Requests | Replies
)

// swallowFor is how long a link in the state after LoseReply goes on delivering
// requests and discarding replies, counted from the first discarded byte.
const swallowFor = 50 * time.Millisecond

// A Link forwards TCP connections to one target. New links forward faithfully.
// All methods may be called at the same time.
type Link struct {
	target   string
	listener net.Listener // nil for a link whose connections are given to Serve
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	stalled Direction
	losing  time.Duration // for how long the next reply and what follows is discarded, or 0
	delay   time.Duration // of everything
	jitter  time.Duration // at most so much more
	closed  bool
	pairs   map[*pair]struct{}
	observe func(conn int, dir Direction, data []byte)
	rewrite func(first []byte) []byte
	count   int
}

// pair is a client's connection and the one to the server that serves it.
type pair struct {
	id             int
	client, server net.Conn
	swallowing     bool
	closed         bool
	requests       flow
	replies        flow
}

// flow is one direction of a pair: what was read and not yet written.
type flow struct {
	dir    Direction
	chunks []chunk // as they arrived
	begun  bool    // a chunk has been forwarded
	ended  bool    // nothing follows: the sender has hung up
	marked int     // this many chunks waited at the last Mark
	free   int     // this many chunks may pass although the link stalls
}

// chunk is what was read at once.
type chunk struct {
	data []byte
	due  time.Time // not to be forwarded before
}

// New starts a link to the target address, on a free port of 127.0.0.1.
func New(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := Over(target)
	l.listener = listener
	l.wg.Go(l.accept)
	return l, nil
}

// Over makes a link to the target address that does not listen: its owner accepts
// the connections and gives them to Serve.
func Over(target string) *Link {
	l := &Link{target: target, pairs: map[*pair]struct{}{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Addr is the address for clients to connect to, "" if the link does not listen.
func (l *Link) Addr() string {
	if l.listener == nil {
		return ""
	}
	return l.listener.Addr().String()
}

// Rewrite has f replace the first data that the client of each connection sends,
// for protocols that begin with an address. Call it before the first connection.
func (l *Link) Rewrite(f func(first []byte) []byte) {
	l.set(func() { l.rewrite = f })
}

// Observe has f called with all data as it is forwarded, in order within each
// connection and direction. Connections are numbered from 1. Call it before the
// first connection. f must not keep the data or call the link.
func (l *Link) Observe(f func(conn int, dir Direction, data []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observe = f
}

// Stall stops forwarding in the given directions. Connections stay open and
// what is sent waits in the link.
func (l *Link) Stall(dir Direction) {
	l.set(func() { l.stalled |= dir })
}

// Delay has everything that is read from now on arrive later, by the given time and
// up to jitter more. What was sent in order arrives in order. Zero ends it.
func (l *Link) Delay(delay, jitter time.Duration) {
	l.set(func() { l.delay, l.jitter = delay, jitter })
}

// Resume ends all stalls; what has waited is delivered.
func (l *Link) Resume() {
	l.set(func() { l.stalled = 0 })
}

// Release ends stalls in the given directions only.
func (l *Link) Release(dir Direction) {
	l.set(func() { l.stalled &^= dir })
}

// Mark remembers what waits at present; see Deliver.
func (l *Link) Mark() {
	l.set(func() { l.eachFlow(func(f *flow) { f.marked = len(f.chunks) }) })
}

// Deliver delivers what waited at the last Mark, and goes on stalling. So a request
// can be delivered without what its client did since: cancelled it, or hung up.
func (l *Link) Deliver() {
	l.set(func() { l.eachFlow(func(f *flow) { f.free, f.marked = f.marked, 0 }) })
}

// Waiting is how many bytes wait in the link.
func (l *Link) Waiting() int {
	n := 0
	l.set(func() {
		l.eachFlow(func(f *flow) {
			for _, c := range f.chunks {
				n += len(c.data)
			}
		})
	})
	return n
}

func (l *Link) eachFlow(do func(*flow)) {
	for p := range l.pairs {
		do(&p.requests)
		do(&p.replies)
	}
}

// LoseReply discards what the server next sends, goes on delivering requests for
// a moment, then cuts that connection; so the request was delivered and its
// reply is lost. Connections made after that are forwarded faithfully.
func (l *Link) LoseReply() { l.Lose(swallowFor) }

// Lose is LoseReply, which delivers requests and discards replies for so long.
func (l *Link) Lose(d time.Duration) {
	l.set(func() { l.losing = d })
}

// Cut closes all present connections.
func (l *Link) Cut() {
	l.set(func() {
		for p := range l.pairs {
			p.close()
		}
	})
}

// Reset is Cut, but both sides see their connections reset, not ended.
func (l *Link) Reset() {
	l.set(func() {
		for p := range l.pairs {
			for _, conn := range []net.Conn{p.client, p.server} {
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // of a connection that has ended it doesn't matter
				}
			}
			p.close()
		}
	})
}

// Close ends the link and waits for its goroutines.
func (l *Link) Close() {
	l.set(func() { l.closed = true })
	if l.listener != nil {
		_ = l.listener.Close() // it was open
	}
	l.Cut()
	l.wg.Wait()
}

func (l *Link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.changed.Broadcast()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.Serve(client)
	}
}

// Serve forwards a connection of a client, which the link then owns. It must not be
// called after Close.
func (l *Link) Serve(client net.Conn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		_ = client.Close() // the client sees that the server is away
		return
	}
	p := &pair{client: client, server: server, requests: flow{dir: Requests}, replies: flow{dir: Replies}}
	l.mu.Lock()
	if l.closed {
		p.close()
	}
	l.count++
	p.id = l.count
	l.pairs[p] = struct{}{}
	l.mu.Unlock()
	l.wg.Go(func() { l.read(&p.requests, client) })
	l.wg.Go(func() { l.read(&p.replies, server) })
	l.wg.Go(func() { l.write(p, &p.requests, server) })
	l.wg.Go(func() { l.write(p, &p.replies, client) })
}

// close is called with the link locked.
func (p *pair) close() {
	p.closed = true
	_ = p.client.Close() // errors of closing don't matter to a link
	_ = p.server.Close()
}

func (l *Link) read(f *flow, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		l.set(func() {
			if n > 0 {
				f.chunks = append(f.chunks, chunk{slices.Clone(buf[:n]), l.due()})
			}
			f.ended = err != nil
		})
		if err != nil {
			return
		}
	}
}

// due is when what is read now may be forwarded. The link is locked.
func (l *Link) due() time.Time {
	if l.delay == 0 && l.jitter == 0 {
		return time.Time{}
	}
	return time.Now().Add(l.delay + rand.N(l.jitter+1))
}

func (l *Link) write(p *pair, f *flow, to net.Conn) {
	defer l.set(func() {
		p.close()
		delete(l.pairs, p)
	})
	for {
		chunk, ok := l.next(p, f)
		if !ok {
			return
		}
		if l.pass(p, f.dir, chunk) {
			// A receiver that has hung up ends the pair when that is its turn, behind
			// what it has sent before.
			_, _ = to.Write(chunk)
		}
	}
}

// next waits until something may be forwarded. It reports false when nothing will
// be any more. A sender's hanging up is traffic too.
func (l *Link) next(p *pair, f *flow) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		mayPass := l.stalled&f.dir == 0
		switch {
		case l.closed || p.closed:
			return nil, false
		case len(f.chunks) > 0 && (mayPass || f.free > 0):
			first := f.chunks[0]
			if wait := time.Until(first.due); wait > 0 {
				timer := time.AfterFunc(wait, l.changed.Broadcast)
				l.changed.Wait()
				timer.Stop()
				continue
			}
			f.chunks, f.free, f.marked = f.chunks[1:], max(0, f.free-1), max(0, f.marked-1)
			if f.dir == Requests && !f.begun && l.rewrite != nil {
				first.data = l.rewrite(first.data)
			}
			f.begun = true
			return first.data, true
		case len(f.chunks) == 0 && f.ended && mayPass:
			return nil, false
		}
		l.changed.Wait()
	}
}

// pass reports whether the data is to be forwarded.
func (l *Link) pass(p *pair, dir Direction, data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if dir == Replies && l.losing > 0 {
		lost := l.losing
		l.losing = 0
		p.swallowing = true
		l.wg.Go(func() {
			time.Sleep(lost)
			l.set(p.close)
		})
	}
	if dir == Replies && p.swallowing {
		return false
	}
	if l.observe != nil {
		l.observe(p.id, dir, data)
	}
	return true
}
