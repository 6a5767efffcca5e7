package electiontest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// Benchmark measures a candidate that is elected and resigns, and asking who leads. open
// is as for recipetest.Benchmark.
func Benchmark(b *testing.B, open func() (*recipes.Client, error)) {
	client, err := open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Close()) })
	b.Run("Campaign+Resign", func(b *testing.B) {
		e, err := election.New(client, b.Name(), nil)
		require.NoError(b, err)
		recipetest.Loop(b, func(ctx context.Context) error {
			lead, err := e.Campaign(ctx, "10.0.0.7:8080")
			if err != nil {
				return err
			}
			return lead.Resign(ctx)
		})
	})
	b.Run("Leader", func(b *testing.B) {
		e, err := election.New(client, b.Name(), nil)
		require.NoError(b, err)
		lead, err := e.Campaign(context.Background(), "10.0.0.7:8080")
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, lead.Resign(context.Background())) })
		recipetest.Loop(b, func(ctx context.Context) error {
			_, err := e.Leader(ctx)
			return err
		})
	})
}
