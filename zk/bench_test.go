package zk

import (
	"context"
	"testing"

	"github.com/lockctl/lockctl/election/electiontest"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func BenchmarkMutex(b *testing.B) { recipetest.Benchmark(b, dialing(b)) }

func BenchmarkRecipes(b *testing.B) { recipetest.BenchmarkRecipes(b, dialing(b)) }

func BenchmarkElection(b *testing.B) { electiontest.Benchmark(b, dialing(b)) }

// dialing starts a server, and makes clients of it.
func dialing(b *testing.B) func() (*recipes.Client, error) {
	url := "zk://" + zkserver.Start(b, 1).Addrs()[0]
	return func() (*recipes.Client, error) { return Dial(context.Background(), url, nil) }
}
