package recipetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockctl/lockctl/recipes"
)

// Benchmark measures locking and unlocking one mutex: by one client, which never
// waits, and by several that take turns without a pause. An operation is a lock
// and its release. open makes a client with a session of its own; all clients are
// of one service.
//
//	func BenchmarkMutex(b *testing.B) {
//		server := startServer(b)
//		recipetest.Benchmark(b, func() (*recipes.Client, error) { return dial(server) })
//	}
func Benchmark(b *testing.B, open func() (*recipes.Client, error)) {
	for _, clients := range []int{1, 2, 16, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			mutexes := make([]*recipes.Mutex, clients)
			for i := range mutexes {
				client, err := open()
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, client.Close()) })
				mutexes[i], err = client.Mutex(fmt.Sprintf("benchmark-%d", clients), nil)
				require.NoError(b, err)
				require.NoError(b, cycle(context.Background(), mutexes[i])) // opens the session
			}
			takeTurns(b, mutexes)
		})
	}
}

func takeTurns(b *testing.B, mutexes []*recipes.Mutex) {
	var taken atomic.Int64
	g, ctx := errgroup.WithContext(context.Background())
	b.ReportAllocs()
	b.ResetTimer()
	for _, m := range mutexes {
		g.Go(func() error {
			for taken.Add(1) <= int64(b.N) {
				if err := cycle(ctx, m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(b, g.Wait())
	b.StopTimer()
}

func cycle(ctx context.Context, m *recipes.Mutex) error {
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Unlock(ctx)
}
