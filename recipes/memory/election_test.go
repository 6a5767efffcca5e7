package memory_test

import (
	"testing"

	"github.com/lockctl/lockctl/election/electiontest"
	"github.com/lockctl/lockctl/recipes/memory"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestElection(t *testing.T) {
	electiontest.Run(t, func(testing.TB) recipetest.Server { return harness{memory.NewServer()} })
}
