package memory_test

import (
	"testing"

	"github.com/lockctl/lockctl/ratelimit/ratelimittest"
	"github.com/lockctl/lockctl/recipes/memory"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestRateLimit(t *testing.T) {
	ratelimittest.Run(t, func(testing.TB) recipetest.Server { return harness{memory.NewServer()} })
}
