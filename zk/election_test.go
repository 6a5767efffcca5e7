package zk

import (
	"testing"

	"github.com/lockctl/lockctl/election/electiontest"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestElection(t *testing.T) {
	electiontest.Run(t, func(t testing.TB) recipetest.Server { return newHarness(t, 1) })
}
