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

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// A crew is processes in virtual time that use limiters in all ways, over links that are
// slow, stall, are cut and lose replies; and that come and go.
type crew struct {
	t      *testing.T
	server *memory.Server
	config Config
	begun  time.Time
	until  time.Duration

	mu    sync.Mutex
	spent []spending
	wg    sync.WaitGroup
}

func (c *crew) note(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spent = append(c.spent, spending{int64(time.Since(c.begun)), n})
}

func (c *crew) over() bool { return time.Since(c.begun) >= c.until }

// member uses limiters, one after the other.
func (c *crew) member(rnd *rand.Rand) {
	for !c.over() {
		link := &memory.Link{}
		store, err := memory.NewStore(c.server, &memory.Options{Link: link})
		require.NoError(c.t, err)
		client, err := recipes.NewClient(newFar(store, rnd.Uint64(), 8*time.Millisecond), nil)
		require.NoError(c.t, err)
		l, err := New(client, "api", &Options{Config: c.config})
		require.NoError(c.t, err)
		for range 100 + rnd.IntN(300) {
			if c.over() {
				break
			}
			c.disturb(rnd, link)
			c.use(rnd, l)
			pause := time.Duration(rnd.Int64N(int64(30 * time.Millisecond)))
			if rnd.IntN(40) == 0 {
				pause = time.Duration(rnd.Int64N(int64(3 * time.Second)))
			}
			time.Sleep(pause)
		}
		if rnd.IntN(2) == 0 {
			link.Resume()
		}
		_ = l.Close(context.Background()) // it may be cut off
		link.Resume()
		_ = client.Close()
	}
}

func (c *crew) disturb(rnd *rand.Rand, link *memory.Link) {
	switch rnd.IntN(60) {
	case 0:
		link.StallBoth()
	case 1:
		link.StallReplies()
	case 2:
		link.LoseReply()
	case 3:
		link.Cut()
	case 4, 5, 6, 7, 8, 9:
		link.Resume()
	}
}

// use spends in one of several ways.
func (c *crew) use(rnd *rand.Rand, l *Limiter) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	n := 1 + rnd.Int64N(max(c.config.Burst/8, 1))
	switch rnd.IntN(4) {
	case 0: // all that is to be had
		for range 1000 {
			d, err := l.AllowN(ctx, "", n)
			if err != nil || !d.OK {
				return
			}
			c.note(n)
		}
	case 1:
		if d, err := l.AllowN(ctx, "", n); err == nil && d.OK {
			c.note(n)
		}
	case 2:
		if d, err := l.WaitN(ctx, "", n); err == nil && d.OK {
			c.note(n)
		}
	case 3: // a reservation that may not be needed
		r, err := l.ReserveN(ctx, "", n)
		if err != nil {
			return
		}
		select {
		case <-r.Ready():
		case <-ctx.Done():
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(100 * time.Millisecond))))
		if rnd.IntN(2) == 0 {
			bounded, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			if _, err := r.Wait(bounded); err == nil {
				c.note(n)
			}
		}
		r.Cancel()
	}
}

// TestForgottenKeys has processes that remember one key use three, in turn and at the same
// time: whatever a key that is forgotten still gives back, its budget is not exceeded, and who
// waits is not disturbed.
func TestForgottenKeys(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			config, err := Config{Rate: PerSecond(200), Burst: 60}.complete()
			require.NoError(t, err)
			server := memory.NewServer()
			keys := []string{"ann", "bob", "eve"}
			crews := map[string]*crew{}
			for _, key := range keys {
				crews[key] = &crew{t: t, begun: time.Now()}
			}
			var wg sync.WaitGroup
			for _, l := range fleet(t, server, seed, 2, 8*time.Millisecond, config) {
				l.opts.MaxKeys = 1
				for i := range 3 {
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					wg.Go(func() {
						for range 500 {
							key, n := keys[rnd.IntN(3)], 1+rnd.Int64N(10)
							use := l.AllowN
							if rnd.IntN(3) == 0 {
								use = l.WaitN
							}
							d, err := use(t.Context(), key, n)
							if assert.NoError(t, err, "seed %d", seed) && d.OK {
								crews[key].note(n)
							}
							time.Sleep(time.Duration(rnd.Int64N(int64(30 * time.Millisecond))))
						}
					})
				}
			}
			wg.Wait()
			for key, c := range crews {
				require.LessOrEqual(t, overshoot(c.spent, config), 1e-6, "seed %d, key %s", seed, key)
				require.NotEmpty(t, c.spent)
			}
		})
	}
}

// TestCrew looks at every window of what a crew spends. In mode Exact a decision counts when
// it is committed, and its caller learns of it later, so there only the sum is looked at.
func TestCrew(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 2
	}
	for _, mode := range []Mode{Leased, Exact} {
		t.Run(string(mode), func(t *testing.T) {
			for range seeds {
				seed := rand.Uint64()
				synctest.Test(t, func(t *testing.T) {
					rnd := rand.New(rand.NewPCG(seed, 0))
					config, err := Config{Rate: Rate{50 + rnd.Int64N(500), time.Second}, Burst: 1 + rnd.Int64N(500), Mode: mode}.complete()
					require.NoError(t, err)
					c := &crew{t: t, server: memory.NewServer(), config: config, begun: time.Now(), until: 60 * time.Second}
					for i := range 1 + rnd.IntN(4) {
						c.wg.Go(func() { c.member(rand.New(rand.NewPCG(seed, uint64(i+1)))) })
					}
					c.wg.Wait()
					total := int64(0)
					for _, s := range c.spent {
						total += s.n
					}
					allowed := config.Burst + int64(config.Rate.perSecond()*60)
					t.Logf("seed %d: %v burst %d: spent %d of %d", seed, config.Rate, config.Burst, total, allowed)
					if mode == Leased {
						require.LessOrEqual(t, overshoot(c.spent, config), 1e-6, "seed %d", seed)
					}
					require.LessOrEqual(t, total, allowed)
					require.Positive(t, total, "seed %d", seed)
				})
			}
		})
	}
}
