package memory_test

import (
	"testing"

	"github.com/lockctl/lockctl/election/electiontest"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func BenchmarkMutex(b *testing.B) {
	server := memory.NewServer()
	recipetest.Benchmark(b, func() (*recipes.Client, error) { return memory.Open(server, nil) })
}

func BenchmarkRecipes(b *testing.B) {
	server := memory.NewServer()
	recipetest.BenchmarkRecipes(b, func() (*recipes.Client, error) { return memory.Open(server, nil) })
}

func BenchmarkElection(b *testing.B) {
	server := memory.NewServer()
	electiontest.Benchmark(b, func() (*recipes.Client, error) { return memory.Open(server, nil) })
}
