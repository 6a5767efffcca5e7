package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/status"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// The pauses between attempts to connect. The library's own grow to 2 min, and an
// attempt may take 20 s; sessions don't last that long.
const (
	firstReconnect = 100 * time.Millisecond
	lastReconnect  = 3 * time.Second
)

// repeatRead is the pause before the client library repeats a read that a member
// has refused. The library's own is 25 ms, which presses members that have no
// leader.
const repeatRead = 200 * time.Millisecond

// dial makes the store's own client.
func (s *store) dial(ctx context.Context, servers []string, o Options) error {
	s.servers = servers
	base, stop := context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, stop)() // with a user, New talks to the service
	options := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(s.noteError),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstReconnect, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastReconnect},
			MinConnectTimeout: lastReconnect,
		}),
	}
	if o.TLS != nil {
		options = append(options, grpc.WithTransportCredentials(newTLSCredentials(o.TLS, func(err error) { s.alert.Store(&err) })))
	}
	client, err := clientv3.New(clientv3.Config{
		Context:              base,
		Endpoints:            servers,
		DialTimeout:          o.Client.ConnectTimeout,
		BackoffWaitBetween:   repeatRead,
		DialKeepAliveTime:    pingInterval,
		DialKeepAliveTimeout: pingTimeout,
		DialOptions:          options,
		TLS:                  o.TLS,
		Username:             o.User,
		Password:             o.Password,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return translate(err)
	}
	s.client, s.stop = client, stop
	// The client library ignores this one, and goes on without authentication.
	if err := s.noted(); o.User != "" && errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return translate(err)
	}
	return nil
}

// noteError remembers the last error of a request. The client library replaces it
// by the context's when that has ended, although only the error tells why there
// is no connection.
func (s *store) noteError(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if err != nil {
		s.lastError.Store(&err)
	}
	return err
}

// noted is the last error of a request, or nil.
func (s *store) noted() error {
	if err := s.lastError.Load(); err != nil {
		return rpctypes.Error(*err)
	}
	return nil
}

// dialError says what went wrong, with which servers, in the terms of recipes.
func (s *store) dialError(err error) error {
	kind := recipes.ErrUnavailable
	switch {
	case errors.Is(err, driver.ErrDenied):
		kind = recipes.ErrDenied
	case errors.Is(err, driver.ErrClosed):
		kind = recipes.ErrClosed
	}
	at := "etcd at " + strings.Join(s.servers, ",")
	if why := s.whyNoConnection(); why != "" && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: %s: %w", at, kind, why, err)
	}
	return fmt.Errorf("%s: %w: %w", at, kind, err)
}

// whyNoConnection says why the last attempt to connect has failed, if it is known.
func (s *store) whyNoConnection() string {
	if alert := s.alert.Load(); alert != nil {
		return (*alert).Error()
	}
	err := s.noted()
	if err == nil {
		return ""
	}
	// The gRPC library wraps the reason twice.
	_, why, _ := strings.Cut(status.Convert(err).Message(), "latest balancer error: ")
	if inner, found := strings.CutPrefix(why, "connection error: desc = "); found {
		why = strings.ReplaceAll(strings.Trim(inner, `"`), `\"`, `"`)
	}
	return strings.TrimPrefix(why, "transport: ")
}
