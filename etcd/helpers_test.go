package etcd_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
)

// patience bounds everything that must happen; reaching it is a failure.
const patience = 60 * time.Second

// dial makes a client that is closed, successfully, when the test ends.
func dial(t testing.TB, url string, opts *etcd.Options) *recipes.Client {
	t.Helper()
	var o etcd.Options
	if opts != nil {
		o = *opts
	}
	if o.Client.ConnectTimeout == 0 {
		o.Client.ConnectTimeout = time.Minute // a busy machine is not what is tested
	}
	if o.Client.CloseTimeout == 0 {
		o.Client.CloseTimeout = time.Minute
	}
	c, err := etcd.Dial(context.Background(), url, &o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func mutex(t testing.TB, c *recipes.Client, name string) *recipes.Mutex {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	return m
}

func mutexAt(t testing.TB, c *recipes.Client, path string) *recipes.Mutex {
	t.Helper()
	m, err := c.Mutex("raw", &recipes.MutexOptions{Path: path})
	require.NoError(t, err)
	return m
}

func lock(t testing.TB, m *recipes.Mutex) *recipes.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := m.Lock(ctx)
	require.NoError(t, err)
	return h
}

func unlock(t testing.TB, h *recipes.Hold) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, h.Unlock(ctx))
}

// attempt is a call to Lock that runs while the test goes on.
type attempt struct {
	hold *recipes.Hold
	err  error
	done chan struct{}
}

func lockAside(ctx context.Context, m *recipes.Mutex) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.hold, a.err = m.Lock(ctx)
	}()
	return a
}

func (a *attempt) wait(t testing.TB) *attempt {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(patience):
		t.Fatalf("waited %v for Lock to return", patience)
	}
	return a
}

// granted waits for the call to return with the lock.
func (a *attempt) granted(t testing.TB) *recipes.Hold {
	t.Helper()
	require.NoError(t, a.wait(t).err)
	return a.hold
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // between looks; nothing depends on how long
	}
}

// queued waits until the queue of the lock has n entries.
func queued(t testing.TB, c *recipes.Client, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d entries in the queue of the lock job", n), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		l, err := c.Lock(ctx, "job")
		require.NoError(t, err)
		return len(l.Entries) == n
	})
}

// keys are the keys on the server that begin with the prefix.
func keys(t testing.TB, server *etcdtest.Server, prefix string) []string {
	t.Helper()
	c := server.Client(t)
	resp, err := c.Get(context.Background(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	var found []string
	for _, kv := range resp.Kvs {
		found = append(found, string(kv.Key))
	}
	return found
}

// noClients waits until no goroutine of a client runs, neither ours nor one of the
// client library. Servers in the process have goroutines of their own. It is for
// tests that are not parallel.
func noClients(t testing.TB) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	eventually(t, "all goroutines of clients to end", func() bool {
		text := string(stacks[:runtime.Stack(stacks, true)])
		for _, where := range []string{"etcd/client/v3.(", "lockctl/etcd.(", "lockctl/recipes.("} {
			if strings.Contains(text, where) {
				return false
			}
		}
		return true
	})
}
