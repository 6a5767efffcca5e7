package memory_test

import (
	"testing"

	"github.com/lockctl/lockctl/job/jobtest"
	"github.com/lockctl/lockctl/recipes/memory"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestJob(t *testing.T) {
	jobtest.Run(t, jobtest.Limits{TickReads: 2}, func(testing.TB) recipetest.Server { return harness{memory.NewServer()} })
}
