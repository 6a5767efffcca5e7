package etcd_test

import (
	"testing"

	"github.com/lockctl/lockctl/ratelimit/ratelimittest"
)

func TestRateLimit(t *testing.T) { ratelimittest.Run(t, startHarness) }
