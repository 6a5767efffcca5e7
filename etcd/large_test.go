package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/internal/etcdtest"
)

// TestLargeQueue has 3,000 entries in one queue: some by our clients, most by
// other programs, in the order of creation and not of their names.
func TestLargeQueue(t *testing.T) {
	t.Parallel()
	const entries, workers = 3000, 16
	const prefix = "/lockctl/lock/job/"
	server := etcdtest.Start(t)
	client := server.Client(t)
	ctx := context.Background()
	c := dial(t, "etcd://"+server.Addr(), nil)
	hold := lock(t, mutex(t, c, "job"))
	lease, err := client.Grant(ctx, 600)
	require.NoError(t, err)
	early := view(t, dial(t, "etcd://"+server.Addr(), nil))

	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker + 1; i < entries; i += workers {
				name := fmt.Sprintf("%x", i*7919%100003) // no two are the same
				if _, err := client.Put(ctx, prefix+name, "theirs", clientv3.WithLease(lease.ID)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	made, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)

	began := time.Now()
	lk, err := c.Lock(ctx, "job")
	require.NoError(t, err)
	t.Logf("reading a queue of %d took %v", entries, time.Since(began).Round(time.Millisecond))
	require.Len(t, lk.Entries, entries)
	require.Equal(t, hold.Token(), lk.Entries[0].Token)
	for i, e := range lk.Entries {
		require.Equal(t, prefix+e.ID, string(made.Kvs[i].Key))
		if i > 0 {
			require.Greater(t, e.Token, lk.Entries[i-1].Token)
		}
	}
	early.until(t, "the watch to have seen all", func() bool { return early.locks["job"] == entries })
	late := view(t, dial(t, "etcd://"+server.Addr(), nil))
	late.until(t, "the late watch to have read all", func() bool { return late.locks["job"] == entries })

	waiter := lockAside(ctx, mutex(t, c, "job"))
	queued(t, c, entries+1)
	unlock(t, hold)
	_, err = client.Revoke(ctx, lease.ID)
	require.NoError(t, err)
	began = time.Now()
	unlock(t, waiter.granted(t))
	t.Logf("the lock came %v after %d entries had gone at once", time.Since(began).Round(time.Millisecond), entries-1)
	for _, v := range []*viewer{early, late} {
		v.until(t, "the watch to show an empty queue", func() bool { return v.locks["job"] == 0 })
	}
}
