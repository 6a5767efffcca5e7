package faultlink_test

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/internal/faultlink"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// sink is a server that keeps what it receives from one connection.
type sink struct {
	received atomic.Value
	done     chan struct{}
}

func startSink(t *testing.T) (*sink, string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &sink{done: make(chan struct{})}
	s.received.Store("")
	go func() {
		defer close(s.done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for buf := make([]byte, 100); ; {
			n, err := conn.Read(buf)
			s.received.Store(s.received.Load().(string) + string(buf[:n]))
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close() // it was open
		<-s.done
	})
	return s, listener.Addr().String()
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 10*time.Second, time.Millisecond)
}

func (s *sink) waitFor(t *testing.T, want string) {
	t.Helper()
	eventually(t, func() bool { return s.received.Load() == want })
}

func TestDeliverWhatWaited(t *testing.T) {
	t.Parallel()
	server, addr := startSink(t)
	link, err := faultlink.New(addr)
	require.NoError(t, err)
	defer link.Close()
	client, err := net.Dial("tcp", link.Addr())
	require.NoError(t, err)
	send := func(text string, waiting int) {
		t.Helper()
		_, err := io.WriteString(client, text)
		require.NoError(t, err)
		eventually(t, func() bool { return link.Waiting() == waiting })
	}
	send("1", 0)
	server.waitFor(t, "1")
	link.Stall(faultlink.Requests)
	send("2", 1)
	send("3", 2)
	link.Mark()
	send("4", 3)
	require.NoError(t, client.Close())
	require.Equal(t, "1", server.received.Load())
	link.Deliver()
	server.waitFor(t, "123")
	require.Equal(t, 1, link.Waiting())
	link.Resume()
	server.waitFor(t, "1234")
	<-server.done
}

func TestCloseWhileStalled(t *testing.T) {
	t.Parallel()
	server, addr := startSink(t)
	link, err := faultlink.New(addr)
	require.NoError(t, err)
	client, err := net.Dial("tcp", link.Addr())
	require.NoError(t, err)
	defer client.Close()
	link.Stall(faultlink.Both)
	_, err = io.WriteString(client, "never")
	require.NoError(t, err)
	eventually(t, func() bool { return link.Waiting() > 0 })
	link.Close()
	<-server.done
	require.Empty(t, server.received.Load())
}

func TestDelayKeepsOrder(t *testing.T) {
	t.Parallel()
	server, addr := startSink(t)
	link, err := faultlink.New(addr)
	require.NoError(t, err)
	defer link.Close()
	client, err := net.Dial("tcp", link.Addr())
	require.NoError(t, err)
	defer client.Close()
	const delay = 50 * time.Millisecond
	link.Delay(delay, delay)
	begin := time.Now()
	_, err = io.WriteString(client, "1")
	require.NoError(t, err)
	eventually(t, func() bool { return link.Waiting() == 1 })
	link.Delay(0, 0)
	_, err = io.WriteString(client, "2") // has no delay, and waits for its turn
	require.NoError(t, err)
	server.waitFor(t, "12")
	require.GreaterOrEqual(t, time.Since(begin), delay)
}

func TestReset(t *testing.T) {
	t.Parallel()
	_, addr := startSink(t)
	link, err := faultlink.New(addr)
	require.NoError(t, err)
	defer link.Close()
	client, err := net.Dial("tcp", link.Addr())
	require.NoError(t, err)
	defer client.Close()
	_, err = io.WriteString(client, "1")
	require.NoError(t, err)
	eventually(t, func() bool {
		link.Reset() // until the link has the connection
		require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err = client.Read(make([]byte, 1))
		return errors.Is(err, syscall.ECONNRESET)
	})
}

func TestServeAndRewrite(t *testing.T) {
	t.Parallel()
	server, addr := startSink(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }() // it was open
	link := faultlink.Over(addr)
	defer link.Close()
	require.Empty(t, link.Addr())
	link.Rewrite(func(first []byte) []byte { return append([]byte("rewritten "), first...) })
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	conn, err := listener.Accept()
	require.NoError(t, err)
	link.Serve(conn)
	_, err = io.WriteString(client, "1")
	require.NoError(t, err)
	server.waitFor(t, "rewritten 1")
	_, err = io.WriteString(client, "2")
	require.NoError(t, err)
	server.waitFor(t, "rewritten 12")
}
