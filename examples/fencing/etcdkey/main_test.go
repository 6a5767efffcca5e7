package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/examples/fencing/internal/demo"
	"github.com/lockctl/lockctl/examples/fencing/internal/pausetest"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
)

func TestMain(m *testing.M) { pausetest.Main(m, main) }

// TestServer runs what needs a server, each test on a key and a lock of its own.
func TestServer(t *testing.T) {
	t.Parallel()
	server, backend := pausetest.Etcd(t)
	client := server.Client(t)
	for _, test := range []struct {
		name   string
		stored bool
		run    func(t *testing.T, w *world)
	}{
		{"PausedHolderHeld", false, testPausedHolder},
		{"PausedHolderStored", true, testPausedHolder},
		{"LateRequestHeld", false, testLateRequest},
		{"LateRequestStored", true, testLateRequest},
		{"Tokens", true, testTokens},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newWorld(t, server, client, backend, "/"+test.name, test.stored))
		})
	}
}

type writer = func(ctx context.Context, hold *recipes.Hold, value string) error

// world is a key under a lock, and one of the two ways to write it.
type world struct {
	pausetest.Resource
	server *etcdtest.Server
	client *clientv3.Client
	key    string
	stored bool
}

func newWorld(t *testing.T, server *etcdtest.Server, client *clientv3.Client, backend, key string, stored bool) *world {
	w := &world{server: server, client: client, key: key, stored: stored}
	w.Resource = pausetest.Resource{
		Backend: backend,
		Lock:    key,
		Args:    []string{"-endpoints", server.Addr(), "-key", key, "-ttl", pausetest.TTL.String()},
		Write:   w.writer(client),
		Read: func() string {
			resp, err := client.Get(context.Background(), key)
			require.NoError(t, err)
			require.Len(t, resp.Kvs, 1)
			return string(resp.Kvs[0].Value)
		},
		Refused: ErrNotHeld,
	}
	if stored {
		w.Args = append(w.Args, "-stored")
		w.Refused = ErrStale
		w.Enter = func(ctx context.Context, hold *recipes.Hold) error {
			_, err := Read(ctx, client, hold.Token(), key)
			return err
		}
	}
	return w
}

func (w *world) writer(client *clientv3.Client) writer {
	return func(ctx context.Context, hold *recipes.Hold, value string) error {
		if w.stored {
			return Write(ctx, client, hold.Token(), w.key, value)
		}
		return WriteHeld(ctx, client, hold, w.key, value)
	}
}

func testPausedHolder(t *testing.T, w *world) { pausetest.PausedHolder(t, w.Resource) }

func testLateRequest(t *testing.T, w *world) {
	link := pausetest.Through(t, w.server.Addr())
	slow, err := clientv3.New(clientv3.Config{Endpoints: []string{link.Addr()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	err = pausetest.LateRequest(t, w.Resource, link, w.writer(slow))
	require.NoError(t, slow.Close())
	require.ErrorIs(t, err, w.Refused)
	require.Equal(t, "of the next", w.Read())
}

// testTokens writes with tokens as they come, the largest too.
func testTokens(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	value, err := Read(ctx, w.client, 1, w.key)
	require.NoError(t, err)
	require.Empty(t, value, "there is no key, and the token is stored all the same")
	for _, token := range []uint64{9, 9, 10, 1<<63 - 1, 1<<63 - 1} {
		require.NoError(t, Write(ctx, w.client, token, w.key, "of the present"))
	}
	for _, token := range []uint64{0, 9, 1<<63 - 2} {
		require.ErrorIs(t, Write(ctx, w.client, token, w.key, "of a former"), ErrStale)
		_, err := Read(ctx, w.client, token, w.key)
		require.ErrorIs(t, err, ErrStale)
	}
	value, err = Read(ctx, w.client, 1<<63-1, w.key)
	require.NoError(t, err)
	require.Equal(t, "of the present", value)
}

// TestCost counts what the two ways to write cost: one commit.
func TestCost(t *testing.T) {
	t.Parallel()
	server, backend := pausetest.Etcd(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	locks, err := demo.Dial(ctx, backend)
	require.NoError(t, err)
	mutex, err := locks.Mutex("cost", nil)
	require.NoError(t, err)
	hold, err := mutex.Lock(ctx)
	require.NoError(t, err)
	client := server.Client(t)
	for _, stored := range []bool{false, true} {
		w := newWorld(t, server, client, backend, "/cost", stored)
		require.NoError(t, w.Write(ctx, hold, "first"))
		before := server.Counts(t)
		require.NoError(t, w.Write(ctx, hold, "counted"))
		after := server.Counts(t)
		require.Equal(t, before.Proposals+1, after.Proposals, "stored=%v", stored)
		require.Equal(t, before.Calls["Range"], after.Calls["Range"], "stored=%v", stored)
	}
	require.NoError(t, hold.Unlock(ctx))
	require.NoError(t, locks.Close())
}

func TestWrongInput(t *testing.T) {
	t.Parallel()
	pausetest.Rejected(t, 2, "give one VALUE to write, not 0")
	pausetest.Rejected(t, 2, `invalid value "soon" for flag -ttl`, "-ttl", "soon", "value")
	pausetest.Rejected(t, 1, "Options.TTL is not between", "-ttl", "-1s", "value")
	pausetest.Rejected(t, 1, "etcd at 127.0.0.1:1: service unavailable", "-endpoints", "127.0.0.1:1", "value")
}
