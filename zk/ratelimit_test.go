package zk

import (
	"testing"

	"github.com/lockctl/lockctl/ratelimit/ratelimittest"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestRateLimit(t *testing.T) {
	ratelimittest.Run(t, func(t testing.TB) recipetest.Server { return newHarness(t, 1) })
}
