package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/ratelimit/grpclimit"
	"github.com/lockctl/lockctl/recipes/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServer limits a real server's calls and streams, each method by itself.
func TestServer(t *testing.T) {
	client, err := memory.Open(memory.NewServer(), nil)
	require.NoError(t, err)
	defer client.Close()
	l, err := ratelimit.New(client, "api", &ratelimit.Options{
		Config: ratelimit.Config{Rate: ratelimit.Rate{Tokens: 1, Per: time.Hour}, Burst: 2},
	})
	require.NoError(t, err)
	byMethod := func(_ context.Context, method string) string { return method }
	server := grpc.NewServer(grpc.UnaryInterceptor(grpclimit.Unary(l, byMethod)), grpc.StreamInterceptor(grpclimit.Stream(l, byMethod)))
	checks := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, checks)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		checks.Shutdown()
		server.Stop()
		require.NoError(t, <-done)
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	api := grpc_health_v1.NewHealthClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var trailer metadata.MD
	for _, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		_, err := api.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Trailer(&trailer))
		require.Equal(t, want, status.Code(err), "%v", err)
	}
	require.Regexp(t, `^\d+$`, trailer.Get("retry-after")[0])
	for _, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		streaming, end := context.WithCancel(ctx)
		stream, err := api.Watch(streaming, &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, want, status.Code(err), "%v", err)
		end()
	}
	require.NoError(t, l.Close(ctx))
	_, err = api.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
}
