package ratelimit

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes/memory"
)

// TestLargeNeeds has processes that wait for many tokens at once, together for more than the
// bucket holds: each gets them in the end.
func TestLargeNeeds(t *testing.T) {
	for _, policy := range []Policy{Bucket, Window} {
		t.Run(string(policy), func(t *testing.T) {
			for range 20 {
				seed := rand.Uint64()
				synctest.Test(t, func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(seed, 0))
					config := Config{Rate: PerSecond(1 + rnd.Int64N(30)), Policy: policy}
					if policy == Bucket {
						config.Burst = 2 + rnd.Int64N(30)
						config.Slack = max(rnd.Int64N(10)-5, 0)
					}
					config, err := config.complete()
					require.NoError(t, err)
					limiters := fleet(t, memory.NewServer(), seed, 2+rnd.IntN(4), 8*time.Millisecond, config)
					c := &crew{t: t, begun: time.Now()}
					var wg sync.WaitGroup
					for i, l := range limiters {
						rnd := rand.New(rand.NewPCG(seed, uint64(i+1)))
						wg.Go(func() {
							for range 5 {
								n := max(config.Limit()-rnd.Int64N(3), 1)
								ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
								_, err := l.WaitN(ctx, "", n)
								cancel()
								if !assert.NoError(t, err, "seed %d", seed) {
									return
								}
								c.note(n)
								time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
							}
						})
					}
					wg.Wait()
					total := int64(0)
					for _, s := range c.spent {
						total += s.n
					}
					took := time.Since(c.begun).Seconds()
					t.Logf("seed %d: %v burst %d, %d processes: used %.2f", seed, config.Rate, config.Burst, len(limiters), float64(total)/(float64(config.Limit())+took*config.Rate.perSecond()))
					require.LessOrEqual(t, overshoot(c.spent, config), float64(config.Slack)+1e-6, "seed %d", seed)
				})
			}
		})
	}
}
