package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// TestNoSpace fills the service up: new entries are refused at once and with the
// reason, and what there is can be given up and passed on.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	o := etcdtest.Options()
	o.Quota = 4 << 20
	server := etcdtest.StartWith(t, o)
	client, ctx := server.Client(t), context.Background()
	url := "etcd://" + server.Addr()
	a, b := dial(t, url, nil), dial(t, url, nil)
	hold := lock(t, mutex(t, a, "job"))
	waiter := lockAside(ctx, mutex(t, b, "job"))
	queued(t, a, 2)
	fill(t, client)

	began := time.Now()
	_, err := mutex(t, a, "other").Lock(ctx)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.ErrorContains(t, err, "database space exceeded")
	_, err = mutex(t, dial(t, url, nil), "other").Lock(ctx)
	require.ErrorIs(t, err, recipes.ErrUnavailable, "not even a session can be opened")
	require.ErrorContains(t, err, "database space exceeded")
	require.Less(t, time.Since(began), 10*time.Second)

	unlock(t, hold)
	unlock(t, waiter.granted(t))
	require.Empty(t, keys(t, server, "/lockctl/lock/"))
}

// fill writes until the service has no space left.
func fill(t testing.TB, client *clientv3.Client) {
	t.Helper()
	eventually(t, "the service to be full", func() bool {
		_, err := client.Put(context.Background(), "/elsewhere", strings.Repeat("x", 1<<20))
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
}

// TestNoSpaceWhileEntering has many enter queues while the service fills up: what Enter
// returns an error for is not there. etcd does what was under way when the space ran out,
// and says that it has none.
func TestNoSpaceWhileEntering(t *testing.T) {
	t.Parallel()
	o := etcdtest.Options()
	o.Quota = 4 << 20
	server := etcdtest.StartWith(t, o)
	ctx := context.Background()
	session, err := etcd.NewStore(server.Client(t), "/test", time.Minute, 20*time.Second).Connect(ctx)
	require.NoError(t, err)
	var mu sync.Mutex
	entered := map[string]bool{} // by key
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			queue := driver.Queue{Space: driver.SpaceLock, Name: fmt.Sprint(i)}
			for {
				own, _, err := session.Enter(ctx, queue, make([]byte, 8<<10))
				mu.Lock()
				entered["/test/lock/"+queue.Name+"/"+own.ID] = err == nil
				mu.Unlock()
				if err != nil {
					assert.ErrorIs(t, err, rpctypes.ErrNoSpace)
					return
				}
			}
		})
	}
	wg.Wait()
	there := keys(t, server, "/test/lock/")
	for _, key := range there {
		require.True(t, entered[key], "%s was refused", key)
		delete(entered, key)
	}
	for key, was := range entered {
		require.False(t, was, "%s was made", key)
	}
	require.NoError(t, session.Close(ctx))
}
