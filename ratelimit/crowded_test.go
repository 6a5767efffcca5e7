package ratelimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes/memory"
)

// TestNoRoomInTheRecord has processes that the record has no room for, as as many others have
// tokens as it can tell of; later it has. They get what they need, and no more than there is.
func TestNoRoomInTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		config, err := Config{Rate: PerSecond(50), Burst: 20}.complete()
		require.NoError(t, err)
		server := memory.NewServer()
		limiters := fleet(t, server, seed, 3, 8*time.Millisecond, config)
		reg, err := register(limiters[0].client, "api")
		require.NoError(t, err)
		_, err = reg.Update(t.Context(), func(s record) (record, error) {
			s = *newRecord(config, "test")
			s.Procs = map[string]proc{}
			for i := range mostProcs {
				s.Procs[fmt.Sprint(i)] = proc{Seq: 1, Demand: 1, Until: int64(6 * time.Second)}
			}
			return s, nil
		})
		require.NoError(t, err)
		c := &crew{t: t, begun: time.Now(), until: 12 * time.Second}
		atFirst := 0
		var wg sync.WaitGroup
		for i, l := range limiters {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			wg.Go(func() {
				for !c.over() {
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					n, use := 1+rnd.Int64N(8), l.AllowN
					if rnd.IntN(3) == 0 {
						use = l.WaitN
					}
					d, err := use(ctx, "", n)
					cancel()
					if err == nil && d.OK {
						c.note(n)
					}
					if rnd.IntN(20) == 0 {
						r, err := l.ReserveN(t.Context(), "", n)
						assert.NoError(t, err)
						time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
						r.Cancel()
					}
					time.Sleep(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
				}
			})
		}
		wg.Wait()
		for _, s := range c.spent {
			if s.at < int64(5*time.Second) {
				atFirst++
			}
		}
		require.Greater(t, atFirst, 10, "seed %d", seed)
		total := int64(0)
		for _, s := range c.spent {
			total += s.n
		}
		for _, l := range limiters {
			require.NoError(t, l.Close(t.Context()))
		}
		v, err := reg.Get(t.Context())
		require.NoError(t, err)
		t.Logf("seed %d: spent %d, of those at first %d calls; %d counted", seed, total, atFirst, v.Value.Admitted)
		require.LessOrEqual(t, total, v.Value.Admitted, "seed %d: all is counted", seed)
		require.LessOrEqual(t, v.Value.Admitted, config.Burst+int64(config.Rate.perSecond()*17), "seed %d", seed)
	})
}
