package etcd_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
)

// TestInteropWithConcurrency has etcd's own mutexes and ours contend for one path.
func TestInteropWithConcurrency(t *testing.T) {
	t.Parallel()
	const each, cycles = 3, 20
	server := etcdtest.Start(t)
	var inside, ours, theirs atomic.Int32
	counter := 0 // guarded by the lock under test
	work := func(count *atomic.Int32) {
		if n := inside.Add(1); n != 1 {
			t.Errorf("%d holders at once", n)
		}
		counter++
		count.Add(1)
		inside.Add(-1)
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	for range each {
		m := mutexAt(t, dial(t, "etcd://"+server.Addr(), nil), "/shared/path")
		wg.Go(func() {
			for range cycles {
				if err := m.Do(ctx, func(context.Context, *recipes.Hold) error { work(&ours); return nil }); err != nil {
					t.Error(err)
				}
			}
		})
		session, err := concurrency.NewSession(server.Client(t), concurrency.WithTTL(60))
		require.NoError(t, err)
		foreign := concurrency.NewMutex(session, "/shared/path")
		wg.Go(func() {
			for range cycles {
				if err := foreign.Lock(ctx); err != nil {
					t.Error(err)
					return
				}
				work(&theirs)
				if err := foreign.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
		})
		t.Cleanup(func() { require.NoError(t, session.Close()) })
	}
	wg.Wait()
	require.Equal(t, 2*each*cycles, counter)
	require.EqualValues(t, each*cycles, ours.Load())
	require.EqualValues(t, each*cycles, theirs.Load())
	require.Empty(t, keys(t, server, "/shared/"))
}

// TestInteropHeldByConcurrency looks at each side while the other holds.
func TestInteropHeldByConcurrency(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	m := mutexAt(t, dial(t, "etcd://"+server.Addr(), nil), "/shared/path")
	session, err := concurrency.NewSession(server.Client(t))
	require.NoError(t, err)
	defer session.Close()
	ctx := context.Background()
	foreign := concurrency.NewMutex(session, "/shared/path")

	require.NoError(t, foreign.Lock(ctx))
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	require.ErrorContains(t, err, "held by another", "its holder is not known")
	waiter := lockAside(ctx, m)
	eventually(t, "the waiter to be in line", func() bool { return len(keys(t, server, "/shared/path/")) == 2 })
	require.NoError(t, foreign.Unlock(ctx))
	hold := waiter.granted(t)

	require.ErrorIs(t, foreign.TryLock(ctx), concurrency.ErrLocked)
	unlock(t, hold)
	require.NoError(t, foreign.TryLock(ctx))
	require.NoError(t, foreign.Unlock(ctx))
}

// TestInteropKeysFurtherDown has a lock on a path below another lock's path, and
// foreign keys there: none blocks the other.
func TestInteropKeysFurtherDown(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client(t)
	ctx := context.Background()
	lease, err := client.Grant(ctx, 60)
	require.NoError(t, err)
	for _, key := range []string{"/shared/path/1/2", "/shared/path/abc", "/shared/path", "/shared/pathology/1"} {
		var opts []clientv3.OpOption
		if strings.HasSuffix(key, "2") {
			opts = append(opts, clientv3.WithLease(lease.ID))
		}
		_, err = client.Put(ctx, key, "", opts...)
		require.NoError(t, err)
	}
	session, err := concurrency.NewSession(client)
	require.NoError(t, err)
	defer session.Close()
	below := concurrency.NewMutex(session, "/shared/path/1a")
	require.NoError(t, below.Lock(ctx))

	c := dial(t, "etcd://"+server.Addr(), nil)
	upper, lower := lock(t, mutexAt(t, c, "/shared/path")), lock(t, mutexAt(t, c, "/shared/path/1b"))
	_, err = mutexAt(t, c, "/shared/path").TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	waiter := lockAside(ctx, mutexAt(t, c, "/shared/path"))
	unlock(t, upper)
	unlock(t, waiter.granted(t))
	unlock(t, lower)
}

// ctl is a running "etcdctl lock".
type ctl struct {
	cmd  *exec.Cmd
	held chan struct{} // closed when it has printed the key that it holds
	done chan struct{} // closed when it has ended
}

func startCtl(t testing.TB, addr, prefix string) *ctl {
	t.Helper()
	path, err := exec.LookPath("etcdctl")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("etcdctl is not installed")
		}
		t.Skip("etcdctl is not installed")
	}
	c := &ctl{cmd: exec.Command(path, "--endpoints="+addr, "lock", prefix), held: make(chan struct{}), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), prefix+"/") {
				close(c.held)
			}
		}
		_ = c.cmd.Wait() // it ends by a signal
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // unless it has ended
		<-c.done
	})
	return c
}

func (c *ctl) waitFor(t testing.TB, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-c.done:
		t.Fatalf("etcdctl ended while the test waited for %s", what)
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
}

func TestInteropWithEtcdctl(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	m := mutexAt(t, dial(t, "etcd://"+server.Addr(), nil), "/shared/path")
	ctx := context.Background()
	inLine := func() bool { return len(keys(t, server, "/shared/path/")) == 2 }

	other := startCtl(t, server.Addr(), "/shared/path")
	other.waitFor(t, "etcdctl to hold the lock", other.held)
	_, err := m.TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	waiter := lockAside(ctx, m)
	eventually(t, "the waiter to be in line", inLine)
	require.NoError(t, other.cmd.Process.Signal(os.Interrupt))
	hold := waiter.granted(t)

	other = startCtl(t, server.Addr(), "/shared/path")
	eventually(t, "etcdctl to be in line", inLine)
	select {
	case <-other.held:
		t.Fatal("etcdctl holds the lock that we hold")
	default:
	}
	unlock(t, hold)
	other.waitFor(t, "etcdctl to hold the lock", other.held)
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
}
