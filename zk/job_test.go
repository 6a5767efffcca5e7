package zk

import (
	"testing"

	"github.com/lockctl/lockctl/job/jobtest"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestJob(t *testing.T) {
	jobtest.Run(t, jobtest.Limits{TickReads: 6}, func(t testing.TB) recipetest.Server { return newHarness(t, 1) })
}
