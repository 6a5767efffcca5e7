package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
)

// TestPartitionMemberRemoved deletes the key of a member, which others then take for
// gone: it stops its work, and joins again.
func TestPartitionMemberRemoved(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client(t)
	told, began := make(chan error, 2), make(chan int, 2)
	p, err := dial(t, "etcd://"+server.Addr(), nil).Partition("jobs", 1, &recipes.PartitionOptions{
		Settle: time.Millisecond, OnError: func(err error) { told <- err },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- p.Run(ctx, func(ctx context.Context, shard *recipes.Shard) error {
			began <- shard.Index()
			<-ctx.Done()
			return nil
		})
	}()
	<-began
	removed, err := client.Delete(ctx, "/lockctl/partition/jobs/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Equal(t, int64(1), removed.Deleted)
	var lost *recipes.LostError
	require.ErrorAs(t, <-told, &lost)
	require.Equal(t, recipes.LostBroken, lost.Reason)
	<-began
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	left, err := client.Get(context.Background(), "/lockctl/shard/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, left.Kvs)
}
