package recipetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// testObjectsPartition shows the members of a partition and the owners of its shards.
func testObjectsPartition(t *testing.T, w *world) {
	g := w.gallery(t)
	run := func(label string) (stop func()) {
		p, err := w.client(t, Options{Label: label}).Partition("ingest", 2, &recipes.PartitionOptions{Member: label, Settle: time.Millisecond})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- p.Run(ctx, func(ctx context.Context, _ *recipes.Shard) error {
				<-ctx.Done()
				return nil
			})
		}()
		return func() {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	}
	stop := run("a")
	g.shows("partition ingest: 1 member, 2 shards owned | member a, owner 0 a, owner 1 a")
	stop()
	eventually(t, "the partition to be gone", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.objects) == 0
	})
}
