package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
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
	eventually(t, "the service to be full", func() bool {
		_, err := client.Put(ctx, "/elsewhere", strings.Repeat("x", 1<<20))
		return errors.Is(err, rpctypes.ErrNoSpace)
	})

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
