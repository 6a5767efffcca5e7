package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
)

// viewer follows a watch in the background.
type viewer struct {
	mu     sync.Mutex
	locks  map[string]int // entries by name
	synced int
	lost   int
}

func view(t testing.TB, c *recipes.Client) *viewer {
	t.Helper()
	v := &viewer{locks: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	go func() {
		for change, err := range c.Watch(ctx, recipes.Filter{}) {
			if err != nil {
				ended <- err
				return
			}
			v.apply(change)
		}
		ended <- nil
	}()
	v.until(t, "the watch to be live", func() bool { return v.synced > 0 })
	return v
}

func (v *viewer) apply(change recipes.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch change.Kind {
	case recipes.ObjectChanged:
		v.locks[change.Object.Name] = len(change.Object.Entries)
	case recipes.WatchSynced:
		v.synced++
	case recipes.WatchLost:
		v.lost++
	}
}

// until waits for a condition on what was seen.
func (v *viewer) until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	eventually(t, what, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return condition()
	})
}

// TestWatchTellsOfAnOutage stops the service for longer than a watch is patient.
func TestWatchTellsOfAnOutage(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	c := dial(t, "etcd://"+server.Addr(), &etcd.Options{TTL: time.Minute})
	v := view(t, c)
	hold := lock(t, mutex(t, c, "job"))
	v.until(t, "the lock", func() bool { return v.locks["job"] == 1 })
	server.Stop()
	stopped := time.Now()
	v.until(t, "the watch to tell", func() bool { return v.lost > 0 })
	require.Less(t, time.Since(stopped), 15*time.Second)
	synced := v.synced
	server.Start(t)
	v.until(t, "the watch to be live again", func() bool { return v.synced > synced })
	unlock(t, hold)
	v.until(t, "the lock to be free", func() bool { return v.locks["job"] == 0 })
}

// TestWatchTellsOfSilence stalls the watch's connection, which stays open.
func TestWatchTellsOfSilence(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	link := newLink(t, server)
	a := dial(t, "etcd://"+server.Addr(), nil)
	v := view(t, dial(t, "etcd://"+link.Addr(), nil))
	link.Stall(faultlink.Replies)
	hold := lock(t, mutex(t, a, "job"))
	v.until(t, "the watch to tell", func() bool { return v.lost > 0 })
	link.Resume()
	v.until(t, "the lock", func() bool { return v.locks["job"] == 1 })
	unlock(t, hold)
	v.until(t, "the lock to be free", func() bool { return v.locks["job"] == 0 })
}

func newLink(t testing.TB, server *etcdtest.Server) *faultlink.Link {
	t.Helper()
	link, err := faultlink.New(server.Addr())
	require.NoError(t, err)
	t.Cleanup(link.Close)
	return link
}

// compact makes the server forget everything but the present, and defragments it.
func compact(t testing.TB, server *etcdtest.Server) {
	t.Helper()
	ctx, c := context.Background(), server.Client(t)
	now, err := c.Put(ctx, "/elsewhere", "")
	require.NoError(t, err)
	_, err = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = c.Defragment(ctx, server.Addr())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// TestCompactionDisturbsNobody compacts while a waiter waits and a watch watches,
// with and without their connections being cut.
func TestCompactionDisturbsNobody(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	link := newLink(t, server)
	a, b := dial(t, "etcd://"+server.Addr(), nil), dial(t, "etcd://"+link.Addr(), nil)
	v := view(t, b)
	for _, cut := range []bool{false, true} {
		hold := lock(t, mutex(t, a, "job"))
		waiter := lockAside(context.Background(), mutex(t, b, "job"))
		queued(t, a, 2)
		v.until(t, "both", func() bool { return v.locks["job"] == 2 })
		for i := range 20 {
			unlock(t, lock(t, mutex(t, a, fmt.Sprint("other/", i))))
		}
		compact(t, server)
		if cut {
			link.Cut()
			compact(t, server)
		}
		unlock(t, hold)
		unlock(t, waiter.granted(t))
		v.until(t, "none", func() bool { return v.locks["job"] == 0 && (cut || v.lost == 0) })
	}
}

// TestWatchBeyondACompaction holds back what the watch should hear, until the
// service has forgotten it: the watch starts over and ends up right.
func TestWatchBeyondACompaction(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	link := newLink(t, server)
	a := dial(t, "etcd://"+server.Addr(), nil)
	v := view(t, dial(t, "etcd://"+link.Addr(), nil))
	for round := range 3 {
		gone, stays := lock(t, mutex(t, a, "gone")), lock(t, mutex(t, a, "stays"))
		v.until(t, "both", func() bool { return v.locks["gone"] == 1 && v.locks["stays"] == 1 })
		synced := v.synced
		link.Stall(faultlink.Both)
		unlock(t, gone)
		added := lock(t, mutex(t, a, "new"))
		unlock(t, lock(t, mutex(t, a, "unseen")))
		compact(t, server)
		link.Cut() // it connects again, and asks for what is gone
		link.Resume()
		v.until(t, "the watch to start over", func() bool { return v.synced > synced })
		v.until(t, "the final state", func() bool {
			return v.locks["gone"] == 0 && v.locks["stays"] == 1 && v.locks["new"] == 1 && v.locks["unseen"] == 0
		})
		unlock(t, stays)
		unlock(t, added)
		v.until(t, fmt.Sprint("the end of round ", round), func() bool { return v.locks["stays"] == 0 && v.locks["new"] == 0 })
	}
}

// TestWatchOfAnIdleService watches for longer than a silence may last while
// nothing at all is written.
func TestWatchOfAnIdleService(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client, err := etcd.Dial(context.Background(), "etcd://"+server.Addr(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	v := view(t, client)
	before := server.Calls()["Range"]
	start := time.Now()
	v.until(t, "six seconds to pass", func() bool { return time.Since(start) > 6*time.Second })
	v.until(t, "the watch to be undisturbed", func() bool { return v.lost == 0 && v.synced == 1 })
	require.Equal(t, before, server.Calls()["Range"], "it was not started again")
}

// TestWatchOfASlowListing has a service that takes longer to list everything than a silence
// may last: the watch tells so, and gives the next listing more time.
func TestWatchOfASlowListing(t *testing.T) {
	t.Parallel()
	o := etcdtest.Options()
	o.GRPC = []grpc.ServerOption{grpc.ChainUnaryInterceptor(func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
	) (any, error) {
		if read, ok := req.(*pb.RangeRequest); ok && string(read.Key) == "/lockctl/" && len(read.RangeEnd) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(7 * time.Second): // the service's slowness
			}
		}
		return handle(ctx, req)
	})}
	server := etcdtest.StartWith(t, o)
	c := dial(t, "etcd://"+server.Addr(), nil)
	hold := lock(t, mutex(t, c, "job"))
	v := view(t, c)
	v.until(t, "the lock", func() bool { return v.locks["job"] == 1 && v.lost > 0 })
	unlock(t, hold)
	v.until(t, "the lock to be free", func() bool { return v.locks["job"] == 0 })
}
