package etcd_test

import (
	"context"
	"testing"

	"github.com/lockctl/lockctl/election/electiontest"
	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// The benchmarks run the server in the same process, and without flushing to disk: what
// they show is the work, not the waiting. For the latter see bench.

func BenchmarkMutex(b *testing.B) { recipetest.Benchmark(b, dialing(b)) }

func BenchmarkRecipes(b *testing.B) { recipetest.BenchmarkRecipes(b, dialing(b)) }

func BenchmarkElection(b *testing.B) { electiontest.Benchmark(b, dialing(b)) }

// dialing starts a server, and makes clients of it.
func dialing(b *testing.B) func() (*recipes.Client, error) {
	url := "etcd://" + etcdtest.Start(b).Addr()
	return func() (*recipes.Client, error) { return etcd.Dial(context.Background(), url, nil) }
}
