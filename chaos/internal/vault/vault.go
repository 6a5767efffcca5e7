//go:build linux

// Package vault is what the locks of a run protect: registers outside of the
// cluster, each with a twin that is not fenced.
//
// A register remembers the largest token that it was opened or written under, and
// refuses smaller ones. Its twin takes everything, and counts what the register
// refused: what would have been written too late.
package vault

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// A Request is an access to a register.
type Request struct {
	Name  string `json:"name"`
	Write bool   `json:"write,omitempty"` // or else it is opened, which reads it
	Token uint64 `json:"token"`
	Value int64  `json:"value,omitempty"`
	By    string `json:"by"` // the process
}

// A Reply is what became of a Request.
type Reply struct {
	Value   int64 `json:"value"`
	Refused bool  `json:"refused,omitempty"`
}

// A Register is the state of one register and of its twin.
type Register struct {
	Token  uint64
	Value  int64
	Writes int // that were accepted

	Late int   // writes that were refused
	Twin int64 // what the twin has
	Lost int   // values that the twin lost, because a late write went over them
}

// A Server keeps registers.
type Server struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu        sync.Mutex
	registers map[string]*Register
	conns     map[net.Conn]struct{}
	closed    bool
}

// Serve makes a server for the connections of the listener, which it then owns.
func Serve(listener net.Listener) *Server {
	s := &Server{listener: listener, registers: map[string]*Register{}, conns: map[net.Conn]struct{}{}}
	s.wg.Go(s.accept)
	return s
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = struct{}{}
		closed := s.closed
		s.mu.Unlock()
		if closed {
			_ = conn.Close() // it has been used for nothing
			return
		}
		s.wg.Go(func() {
			_ = s.answer(conn) // the worker has died, or hung up
			_ = conn.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, conn)
		})
	}
}

func (s *Server) answer(conn io.ReadWriter) error {
	requests, replies := json.NewDecoder(bufio.NewReader(conn)), json.NewEncoder(conn)
	for {
		var r Request
		if err := requests.Decode(&r); err != nil {
			return err
		}
		if err := replies.Encode(s.do(r)); err != nil {
			return err
		}
	}
}

func (s *Server) do(r Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	reg := s.registers[r.Name]
	if reg == nil {
		reg = &Register{}
		s.registers[r.Name] = reg
	}
	late := r.Token < reg.Token
	if r.Write {
		if late {
			reg.Late++
		}
		if r.Value <= reg.Twin {
			reg.Lost++
		}
		reg.Twin = r.Value
	}
	if late {
		return Reply{Refused: true}
	}
	reg.Token = r.Token
	if r.Write {
		reg.Value = r.Value
		reg.Writes++
	}
	return Reply{Value: reg.Value}
}

// Registers are copies of all registers.
func (s *Server) Registers() map[string]Register {
	s.mu.Lock()
	defer s.mu.Unlock()
	registers := map[string]Register{}
	for name, r := range s.registers {
		registers[name] = *r
	}
	return registers
}

// Close hangs up and waits.
func (s *Server) Close() {
	_ = s.listener.Close() // it was open
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// A Client is one process's connection. All methods may be called at the same time.
type Client struct {
	mu      sync.Mutex
	conn    net.Conn
	in      *json.Decoder
	out     *json.Encoder
	by      string
	history *history.Log
}

// Dial connects the process called by to the server at a unix socket. What it does is
// recorded.
func Dial(socket, by string, log *history.Log) (*Client, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, in: json.NewDecoder(bufio.NewReader(conn)), out: json.NewEncoder(conn), by: by, history: log}, nil
}

// ErrRefused says that the token was smaller than one seen before.
var ErrRefused = errors.New(history.RefusedByFence)

// Open reads a register under a token, on behalf of the operation op.
func (c *Client) Open(op history.Event, name string, token uint64) (int64, error) {
	return c.access(op, history.Opening, history.Opened, Request{Name: name, Token: token})
}

// Write writes a register under a token, on behalf of the operation op.
func (c *Client) Write(op history.Event, name string, token uint64, value int64) error {
	_, err := c.access(op, history.Writing, history.Wrote, Request{Name: name, Token: token, Value: value, Write: true})
	return err
}

func (c *Client) access(op history.Event, before, after history.What, r Request) (int64, error) {
	r.By = c.by
	e := history.Event{Loop: op.Loop, Op: op.Op, Kind: history.Register, Name: r.Name, Token: r.Token, Value: r.Value, What: before}
	c.history.Add(e)
	reply, err := c.ask(r)
	switch {
	case err == nil && reply.Refused:
		err = ErrRefused
	case err == nil:
		e.Value = reply.Value
	}
	if err != nil {
		e.Err = err.Error()
	}
	e.What = after
	c.history.Add(e)
	return reply.Value, err
}

func (c *Client) ask(r Request) (reply Reply, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.out.Encode(r); err == nil {
		err = c.in.Decode(&reply)
	}
	return reply, err
}

// Close hangs up.
func (c *Client) Close() error { return c.conn.Close() }
