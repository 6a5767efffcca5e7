package etcd_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdserver"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
)

// unreachable are the ways in which a service can fail to answer. Each returns
// an address and what an error about it says.
func unreachable(t *testing.T) map[string]func() (addr, says string) {
	return map[string]func() (string, string){
		"nothing listens": func() (string, string) {
			addr, err := etcdserver.FreeAddr()
			require.NoError(t, err)
			return addr, "connection refused"
		},
		"accepts and never answers": func() (string, string) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, listener.Close()) })
			return listener.Addr().String(), ""
		},
		"stalled": func() (string, string) {
			link, err := faultlink.New(etcdtest.Start(t).Addr())
			require.NoError(t, err)
			t.Cleanup(link.Close)
			link.Stall(faultlink.Both)
			return link.Addr(), ""
		},
	}
}

// credentials are clients without and with a password: the second kind talks to
// the service earlier.
func credentials() []*etcd.Options {
	return []*etcd.Options{{}, {User: "u", Password: "p"}}
}

func TestDialUnreachable(t *testing.T) {
	for name, start := range unreachable(t) {
		t.Run(name, func(t *testing.T) {
			addr, says := start()
			for _, opts := range credentials() {
				opts.Client.ConnectTimeout = 500 * time.Millisecond
				began := time.Now()
				_, err := etcd.Dial(context.Background(), "etcd://"+addr, opts)
				took := time.Since(began)
				require.ErrorIs(t, err, recipes.ErrUnavailable)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, addr)
				require.ErrorContains(t, err, says)
				require.NotContains(t, err.Error(), "rpc error")
				require.GreaterOrEqual(t, took, 500*time.Millisecond, "it tries for the whole time")
				require.Less(t, took, 3*time.Second)
			}
		})
	}
}

func TestDialWithEndedContext(t *testing.T) {
	for name, start := range unreachable(t) {
		t.Run(name, func(t *testing.T) {
			addr, _ := start()
			for _, opts := range credentials() {
				ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
				began := time.Now()
				_, err := etcd.Dial(ctx, "etcd://"+addr, opts)
				require.ErrorIs(t, err, context.DeadlineExceeded, "the context's is shorter")
				require.Less(t, time.Since(began), 3*time.Second)
				cancel()

				ctx, cancel = context.WithCancel(context.Background())
				time.AfterFunc(100*time.Millisecond, cancel)
				began = time.Now()
				_, err = etcd.Dial(ctx, "etcd://"+addr, opts)
				require.ErrorIs(t, err, context.Canceled)
				require.Less(t, time.Since(began), 3*time.Second)

				_, err = etcd.Dial(ctx, "etcd://"+addr, opts)
				require.ErrorIs(t, err, context.Canceled, "ended before")
			}
			noClients(t)
		})
	}
}

// TestDialOneOfSeveral gives the addresses of servers that don't answer besides
// one that does.
func TestDialOneOfSeveral(t *testing.T) {
	urls := "etcd://"
	for _, start := range unreachable(t) {
		addr, _ := start()
		urls += addr + ","
	}
	c := dial(t, urls+etcdtest.Start(t).Addr(), nil)
	unlock(t, lock(t, mutex(t, c, "job")))
}

// TestDialContextEndsLater shows that the context bounds the dialling only.
func TestDialContextEndsLater(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	c, err := etcd.Dial(ctx, "etcd://"+etcdtest.Start(t).Addr(), nil)
	require.NoError(t, err)
	defer c.Close()
	cancel()
	unlock(t, lock(t, mutex(t, c, "job")))
}

// TestCloseUnreachable closes a client that holds a lock while nothing answers.
func TestCloseUnreachable(t *testing.T) {
	link, err := faultlink.New(etcdtest.Start(t).Addr())
	require.NoError(t, err)
	defer link.Close()
	opts := &etcd.Options{TTL: 2 * time.Second}
	opts.Client.CloseTimeout = 500 * time.Millisecond
	c, err := etcd.Dial(context.Background(), "etcd://"+link.Addr(), opts)
	require.NoError(t, err)
	hold := lock(t, mutex(t, c, "job"))
	link.Stall(faultlink.Both)
	began := time.Now()
	require.ErrorIs(t, c.Close(), recipes.ErrUnavailable)
	require.Less(t, time.Since(began), 3*time.Second)
	require.ErrorIs(t, context.Cause(hold.Context()), recipes.ErrClosed)
	link.Cut()
	noClients(t)
}

func openOver(t *testing.T, client *clientv3.Client, ttl time.Duration) *recipes.Client {
	t.Helper()
	c, err := etcd.Open(context.Background(), client, &etcd.Options{TTL: ttl})
	require.NoError(t, err)
	return c
}

// TestOpenLeavesTheClientAlone closes a client over the user's etcd client: that
// one goes on working, and nothing is left on the service.
func TestOpenLeavesTheClientAlone(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	user := server.Client(t)
	ctx := context.Background()
	for range 2 {
		c := openOver(t, user, 20*time.Second)
		lock(t, mutex(t, c, "job"))
		waiting, cancel := context.WithCancel(ctx)
		waiter := lockAside(waiting, mutex(t, c, "job"))
		queued(t, c, 2)
		cancel()
		waiter.wait(t)
		require.NoError(t, c.Close())

		require.Empty(t, keys(t, server, "/"))
		leases, err := user.Leases(ctx)
		require.NoError(t, err)
		require.Empty(t, leases.Leases)
		_, err = user.Put(ctx, "mine", "still works")
		require.NoError(t, err)
		_, err = user.Delete(ctx, "mine")
		require.NoError(t, err)
	}
}

func TestOpenUnreachable(t *testing.T) {
	t.Parallel()
	addr, err := etcdserver.FreeAddr()
	require.NoError(t, err)
	user, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	require.NoError(t, err)
	opts := &etcd.Options{}
	opts.Client.ConnectTimeout = 300 * time.Millisecond
	_, err = etcd.Open(context.Background(), user, opts)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.ErrorContains(t, err, addr)
	require.NoError(t, user.Close())
	_, err = etcd.Open(context.Background(), user, nil)
	require.ErrorIs(t, err, recipes.ErrClosed)
}

// TestUserClosesTheClient closes the etcd client under a holder, a waiter and a
// watch.
func TestUserClosesTheClient(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	user, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	ctx := context.Background()
	c := openOver(t, user, 4*time.Second)
	hold := lock(t, mutex(t, c, "job"))
	waiter := lockAside(ctx, mutex(t, c, "job"))
	queued(t, c, 2)
	watched, live := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		for change, err := range c.Watch(ctx, recipes.Filter{}) {
			if err != nil {
				watched <- err
			}
			if change.Kind == recipes.WatchSynced {
				live <- struct{}{}
			}
		}
	}()
	<-live
	began := time.Now()
	require.NoError(t, user.Close())

	_, err = c.Objects(ctx, recipes.Filter{})
	require.ErrorIs(t, err, recipes.ErrClosed)
	_, err = mutex(t, c, "other").Lock(ctx)
	require.Error(t, err)
	require.ErrorIs(t, <-watched, recipes.ErrClosed)
	<-hold.Context().Done()
	require.ErrorIs(t, hold.Unlock(ctx), recipes.ErrLost)
	waiter.wait(t)
	require.Error(t, waiter.err)
	require.NotErrorIs(t, waiter.err, recipes.ErrHeld)
	require.ErrorIs(t, c.Close(), recipes.ErrClosed)
	require.Less(t, time.Since(began), 10*time.Second)
}
