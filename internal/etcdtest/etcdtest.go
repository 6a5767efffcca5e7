// Package etcdtest runs etcd servers for tests and benchmarks, and counts what
// they do.
package etcdtest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/lockctl/lockctl/internal/etcdserver"
)

// startTimeout bounds the start of a server on a busy machine.
const startTimeout = time.Minute

// A Server is an etcd for one test.
type Server struct {
	options etcdserver.Options
	server  *etcdserver.Server
	counter counter
	clients []*clientv3.Client
}

// Start runs a server with Options until the test ends.
func Start(t testing.TB) *Server {
	return StartWith(t, Options())
}

// Options are what tests start servers with: leases can be as short as 1 s.
func Options() etcdserver.Options {
	return etcdserver.Options{NoSync: true, Tick: 50 * time.Millisecond}
}

// StartWith runs a server with the given options; its directory is the test's.
func StartWith(t testing.TB, o etcdserver.Options) *Server {
	t.Helper()
	s := newServer(t, o)
	const attempts = 5 // another process can take the port that was found free
	for attempt := 1; ; attempt++ {
		err := s.start()
		if err == nil {
			return s
		}
		if attempt == attempts || o.Listen != "" || !strings.Contains(err.Error(), "address already in use") {
			require.NoError(t, err)
		}
		s.options.Dir = t.TempDir()
	}
}

// newServer prepares a server that is not started yet.
func newServer(t testing.TB, o etcdserver.Options) *Server {
	t.Helper()
	s := &Server{options: o}
	s.options.Dir = t.TempDir()
	s.options.GRPC = append(slices.Clone(o.GRPC), grpc.StatsHandler(&s.counter))
	t.Cleanup(func() {
		for _, c := range s.clients {
			_ = c.Close() // at the end of a test
		}
		s.Stop()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

func (s *Server) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := etcdserver.Start(ctx, s.options)
	if err != nil {
		return err
	}
	s.server = server
	s.options.Listen = server.Addr() // the same when it is started again
	return nil
}

// Start starts a server that was stopped, with the same data and address.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	require.NoError(t, s.start())
}

// Stop stops the server without a word to others, and waits for it, if it runs.
func (s *Server) Stop() {
	if s.server != nil {
		s.server.Kill()
		s.server = nil
	}
}

// Addr is the address for clients.
func (s *Server) Addr() string { return s.options.Listen }

// Restart stops the server and starts it again with the same data and address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.Start(t)
}

// Client makes a client that is closed when the test ends.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return s.ClientAt(t, s.Addr())
}

// ClientAt makes a client of other addresses, such as that of a proxy.
func (s *Server) ClientAt(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, DialTimeout: startTimeout, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	s.clients = append(s.clients, client)
	return client
}

// Counts says what a server has done so far.
type Counts struct {
	Proposals int            // entries that raft has applied
	Calls     map[string]int // requests by the method's name; for streams, messages
	Events    int            // watch responses with events
}

// Calls returns how often each method was called, see Counts. It asks nothing.
func (s *Server) Calls() map[string]int { return s.counter.counts().Calls }

// Counts returns what the server has done so far.
func (s *Server) Counts(t testing.TB) Counts {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	status, err := client.Status(ctx, s.Addr())
	for err == nil && status.RaftAppliedIndex < status.RaftIndex { // a reply goes before the count
		time.Sleep(time.Millisecond) // between looks
		status, err = client.Status(ctx, s.Addr())
	}
	require.NoError(t, err)
	counts := s.counter.counts()
	counts.Proposals = int(status.RaftAppliedIndex)
	return counts
}

// counter counts messages as the gRPC server sees them.
type counter struct {
	mu     sync.Mutex
	calls  map[string]int
	events int
}

func (c *counter) counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := make(map[string]int, len(c.calls))
	for method, n := range c.calls {
		calls[method] = n
	}
	return Counts{Calls: calls, Events: c.events}
}

type methodKey struct{}

// TagRPC implements stats.Handler.
func (c *counter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, info.FullMethodName[strings.LastIndexByte(info.FullMethodName, '/')+1:])
}

// HandleRPC implements stats.Handler.
func (c *counter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s := s.(type) {
	case *stats.InPayload:
		if c.calls == nil {
			c.calls = map[string]int{}
		}
		method, _ := ctx.Value(methodKey{}).(string)
		if request, ok := s.Payload.(*pb.WatchRequest); ok {
			switch {
			case request.GetCancelRequest() != nil:
				method = "WatchCancel"
			case request.GetProgressRequest() != nil:
				method = "WatchProgress"
			}
		}
		c.calls[method]++
	case *stats.OutPayload:
		if response, ok := s.Payload.(*pb.WatchResponse); ok && len(response.Events) > 0 {
			c.events++
		}
	}
}

// TagConn implements stats.Handler.
func (c *counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (c *counter) HandleConn(context.Context, stats.ConnStats) {}
