package ratelimit

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes/memory"
)

// TestSuspended has a machine that is suspended while the bucket fills: what it spends when it
// goes on does not come again as the time that it has missed is caught up with.
func TestSuspended(t *testing.T) {
	for _, mode := range []Mode{Leased, Exact} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seed := rand.Uint64()
				config, err := Config{Rate: PerSecond(10), Burst: 100, Mode: mode}.complete()
				require.NoError(t, err)
				limiters := fleet(t, memory.NewServer(), seed, 2, 8*time.Millisecond, config)
				c := &crew{t: t, begun: time.Now()}
				for range 20 {
					for _, l := range limiters {
						_, err := l.Wait(t.Context(), "")
						require.NoError(t, err)
						c.note(1)
						time.Sleep(time.Second)
					}
				}
				_, err = limiters[0].WaitN(t.Context(), "", 60)
				require.NoError(t, err)
				c.note(60)
				for _, l := range []*Limiter{limiters[1], limiters[0]} { // both know the same beginning of time
					_, err := l.Wait(t.Context(), "")
					require.NoError(t, err)
					c.note(1)
				}
				const slept = 20 * time.Second
				time.Sleep(2*time.Second + slept)
				synctest.Wait()
				limiters[0].start = limiters[0].start.Add(slept) // its monotonic clock has stood still
				for _, l := range limiters {
					for range 200 {
						d, err := l.Allow(t.Context(), "")
						require.NoError(t, err)
						if d.OK {
							c.note(1)
						} else {
							time.Sleep(20 * time.Millisecond)
						}
					}
				}
				t.Logf("seed %d: spent %d times", seed, len(c.spent))
				require.Greater(t, len(c.spent), 100, "seed %d", seed)
				require.LessOrEqual(t, overshoot(c.spent, config), 1e-6, "seed %d", seed)
			})
		})
	}
}
