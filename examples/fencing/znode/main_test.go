package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/examples/fencing/internal/demo"
	"github.com/lockctl/lockctl/examples/fencing/internal/pausetest"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
)

func TestMain(m *testing.M) { pausetest.Main(m, main) }

// calm is the session timeout of connections whose sessions are not to expire.
const calm = 60 * time.Second

// TestServer runs what needs a server, each test on a znode and a lock of its own.
func TestServer(t *testing.T) {
	t.Parallel()
	server, backend := pausetest.ZooKeeper(t)
	for _, test := range []struct {
		name   string
		stored bool
		run    func(t *testing.T, w *world)
	}{
		{"PausedHolderHeld", false, testPausedHolder},
		{"PausedHolderStored", true, testPausedHolder},
		{"LateRequestHeld", false, testLateRequest},
		{"LateRequestStored", true, testLateRequest},
		{"Version", false, testVersion},
		{"Tokens", true, testTokens},
		{"AtOnce", true, testAtOnce},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newWorld(t, server, backend, "/"+test.name, test.stored))
		})
	}
}

type writer = func(ctx context.Context, hold *recipes.Hold, value string) error

// world is a znode under a lock, and one of the two ways to write it.
type world struct {
	pausetest.Resource
	addr   string
	conn   *gozk.Conn
	path   string
	stored bool
}

func newWorld(t *testing.T, server *zkserver.Server, backend, path string, stored bool) *world {
	w := &world{addr: server.Addrs()[0], path: path, stored: stored}
	w.conn = connect(t, w.addr)
	_, err := versionOf(context.Background(), w.conn, path) // makes it
	require.NoError(t, err)
	w.Resource = pausetest.Resource{
		Backend: backend,
		Lock:    path,
		Args:    []string{"-servers", w.addr, "-path", path, "-ttl", pausetest.TTL.String()},
		Write:   w.writer(w.conn),
		Read: func() string {
			data, _, err := w.conn.Get(path)
			require.NoError(t, err)
			return string(data)
		},
		Refused: ErrNotHeld,
	}
	if stored {
		w.Args = append(w.Args, "-stored")
		w.Refused = ErrStale
		w.Read = func() string {
			data, _, err := w.conn.Get(path)
			require.NoError(t, err)
			_, value, err := decode(data)
			require.NoError(t, err)
			return value
		}
		w.Enter = func(_ context.Context, hold *recipes.Hold) error {
			_, err := Read(w.conn, hold.Token(), path)
			return err
		}
	}
	return w
}

func (w *world) writer(conn *gozk.Conn) writer {
	return func(_ context.Context, hold *recipes.Hold, value string) error {
		if w.stored {
			return Write(conn, hold.Token(), w.path, value)
		}
		return WriteHeld(conn, hold, w.path, value, -1)
	}
}

func connect(t *testing.T, addr string) *gozk.Conn {
	t.Helper()
	conn, events, err := gozk.Connect([]string{addr}, calm, gozk.WithLogger(quiet{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the library has ended
			continue
		}
	})
	return conn
}

func testPausedHolder(t *testing.T, w *world) { pausetest.PausedHolder(t, w.Resource) }

func testLateRequest(t *testing.T, w *world) {
	link := pausetest.Through(t, w.addr)
	err := pausetest.LateRequest(t, w.Resource, link, w.writer(connect(t, link.Addr())))
	require.ErrorIs(t, err, w.Refused)
	require.Equal(t, "of the next", w.Read())
}

// testVersion has someone write who did not ask for the lock.
func testVersion(t *testing.T, w *world) {
	client, err := demo.Dial(context.Background(), w.Backend)
	require.NoError(t, err)
	mutex, err := client.Mutex(w.Lock, nil)
	require.NoError(t, err)
	hold, err := mutex.Lock(context.Background())
	require.NoError(t, err)
	version, err := versionOf(context.Background(), w.conn, w.path)
	require.NoError(t, err)
	_, err = w.conn.Set(w.path, []byte("of another"), -1)
	require.NoError(t, err)
	err = WriteHeld(w.conn, hold, w.path, "of the holder", version)
	require.ErrorIs(t, err, gozk.ErrBadVersion)
	require.NotErrorIs(t, err, ErrNotHeld)
	require.Equal(t, "of another", w.Read())
	require.NoError(t, WriteHeld(w.conn, hold, w.path, "of the holder", version+1))
	require.NoError(t, hold.Unlock(context.Background()))
	require.ErrorIs(t, WriteHeld(w.conn, hold, w.path, "of a former", -1), ErrNotHeld)
	require.NoError(t, client.Close())
}

// testTokens writes with tokens as they come, the largest too.
func testTokens(t *testing.T, w *world) {
	value, err := Read(w.conn, 1, w.path)
	require.NoError(t, err)
	require.Empty(t, value, "a new znode")
	for _, token := range []uint64{9, 9, 10, 1<<63 - 1, 1<<63 - 1} {
		require.NoError(t, Write(w.conn, token, w.path, "of the present\n"))
	}
	for _, token := range []uint64{0, 9, 1<<63 - 2} {
		require.ErrorIs(t, Write(w.conn, token, w.path, "of a former"), ErrStale)
		_, err := Read(w.conn, token, w.path)
		require.ErrorIs(t, err, ErrStale)
	}
	value, err = Read(w.conn, 1<<63-1, w.path)
	require.NoError(t, err)
	require.Equal(t, "of the present\n", value)

	_, err = w.conn.Set(w.path, []byte("something else"), -1)
	require.NoError(t, err)
	require.ErrorContains(t, Write(w.conn, 1, w.path, "value"), "does not begin with a token")
}

// testAtOnce has many holders write at the same time: what stays is the last one's.
func testAtOnce(t *testing.T, w *world) {
	const holders = 20
	var wg sync.WaitGroup
	for token := range uint64(holders) {
		wg.Go(func() {
			err := Write(w.conn, token, w.path, fmt.Sprint(token))
			if !errors.Is(err, ErrStale) {
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	value, err := Read(w.conn, holders, w.path)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(holders-1), value)
}

func TestWrongInput(t *testing.T) {
	t.Parallel()
	pausetest.Rejected(t, 2, "give one VALUE to write, not 0")
	pausetest.Rejected(t, 2, `invalid value "soon" for flag -ttl`, "-ttl", "soon", "value")
	pausetest.Rejected(t, 1, "Options.TTL is not between", "-ttl", "-1s", "value")
	pausetest.Rejected(t, 1, "connection refused", "-servers", "127.0.0.1:1", "value")
	server, _ := pausetest.ZooKeeper(t)
	pausetest.Rejected(t, 1, "make znode report", "-servers", server.Addrs()[0], "-path", "report", "value")
	pausetest.Rejected(t, 1, "make znode /a/b: zk: node does not exist", "-servers", server.Addrs()[0], "-path", "/a/b", "value")
}
