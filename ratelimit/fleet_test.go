package ratelimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/recipes/memory"
)

// far is a link of random delays.
type far struct {
	driver.Store
	most time.Duration

	mu  sync.Mutex
	rnd *rand.Rand
}

func newFar(store driver.Store, seed uint64, most time.Duration) *far {
	return &far{Store: store, most: most, rnd: rand.New(rand.NewPCG(seed, 1))}
}

func (f *far) pause() {
	if f.most > 0 {
		f.mu.Lock()
		d := time.Duration(f.rnd.Int64N(int64(f.most)))
		f.mu.Unlock()
		time.Sleep(d)
	}
}

func (f *far) List(ctx context.Context, s driver.Scope) ([]driver.Entry, error) {
	f.pause()
	defer f.pause()
	return f.Store.List(ctx, s)
}

func (f *far) Swap(ctx context.Context, old driver.Entry, value []byte) (driver.Entry, error) {
	f.pause()
	defer f.pause()
	return f.Store.Swap(ctx, old, value)
}

// fleet is limiters in virtual time, each with a link of its own.
func fleet(t *testing.T, server *memory.Server, seed uint64, n int, delay time.Duration, c Config) []*Limiter {
	var fleet []*Limiter
	for i := range n {
		store, err := memory.NewStore(server, nil)
		require.NoError(t, err)
		client, err := recipes.NewClient(newFar(store, seed+uint64(i), delay), nil)
		require.NoError(t, err)
		l, err := New(client, "api", &Options{Config: c})
		require.NoError(t, err)
		fleet = append(fleet, l)
		t.Cleanup(func() {
			require.NoError(t, l.Close(context.Background()))
			require.NoError(t, client.Close())
		})
	}
	return fleet
}

// TestUse has processes that ask for more than there is: all of it is used, and no more.
func TestUse(t *testing.T) {
	for name, tc := range map[string]struct {
		config Config
		least  float64
	}{
		"million": {Config{Rate: PerSecond(1_000_000), Burst: 1_000_000, Slack: 2_000_000, Period: time.Second}, 0.99},
		"strict":  {Config{Rate: PerSecond(5_000), Burst: 5_000}, 0.98},
		"small":   {Config{Rate: PerSecond(400), Burst: 100}, 0.9},
	} {
		for _, processes := range []int{1, 3, 8} {
			synctest.Test(t, func(t *testing.T) {
				seed := rand.Uint64()
				server := memory.NewServer()
				limiters := fleet(t, server, seed, processes, 4*time.Millisecond, tc.config)
				begun := time.Now()
				var spent []spending
				due := make([]float64, processes)
				share := tc.config.Rate.perSecond() / float64(processes) / 1000
				measured, commits := int64(0), 0
				const warm, whole = 5 * time.Second, 65 * time.Second
				done := make(chan struct{}, processes)
				results := make([][]spending, processes)
				for i, l := range limiters {
					go func() {
						for time.Since(begun) < whole {
							if due[i] = min(due[i]+1.3*share, 20*share+1); time.Since(begun) < warm {
								due[i] += share
							}
							n := int64(0)
							for ; due[i] >= 1; due[i]-- {
								step := int64(max(share/50, 1)) // fewer calls
								if due[i] < float64(step) {
									break
								}
								due[i] -= float64(step - 1)
								if d, err := l.AllowN(context.Background(), "", step); err != nil || !d.OK {
									break
								}
								n += step
							}
							results[i] = append(results[i], spending{int64(time.Since(begun)), n})
							time.Sleep(time.Millisecond)
						}
						done <- struct{}{}
					}()
				}
				time.Sleep(warm)
				commits = server.Counts().Commits
				for range limiters {
					<-done
				}
				commits = server.Counts().Commits - commits
				for _, r := range results {
					for _, s := range r {
						if spent = append(spent, s); s.at >= int64(warm) {
							measured += s.n
						}
					}
				}
				c, err := tc.config.complete()
				require.NoError(t, err)
				used := float64(measured) / (c.Rate.perSecond() * (whole - warm).Seconds())
				b := limiters[0].base
				t.Logf("%s, %d processes, seed %d: used %.4f, %d commits, base %d, level %d", name, processes, seed, used, commits, b.known.Value.Base, b.known.Value.Level)
				require.LessOrEqual(t, overshoot(spent, c), float64(c.Slack)+1e-6)
				// What has come in the last period is handed out in the next.
				edge := c.period().Seconds() / (whole - warm).Seconds()
				assert.GreaterOrEqual(t, used, tc.least-edge)
				require.Less(t, float64(commits), 2*float64(processes)*(whole-warm).Seconds()/c.period().Seconds()+2)
			})
		}
	}
}

// forgetful is a link that loses replies to writes.
type forgetful struct {
	*far
	lost atomic.Int64
}

func (f *forgetful) Swap(ctx context.Context, old driver.Entry, value []byte) (driver.Entry, error) {
	entry, err := f.far.Swap(ctx, old, value)
	f.mu.Lock()
	fine := err != nil || f.rnd.IntN(4) > 0
	f.mu.Unlock()
	if fine {
		return entry, err
	}
	f.lost.Add(1)
	return driver.Entry{}, errors.New("the reply is lost")
}

// TestExactCountWithLostReplies has processes decide by the store, which forgets to tell them.
// Each token is spent once, whatever was written after the write without a reply.
func TestExactCountWithLostReplies(t *testing.T) {
	const burst = 300
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			seed := rand.Uint64()
			server := memory.NewServer()
			var wg sync.WaitGroup
			var spent, lost atomic.Int64
			for i := range 4 {
				store, err := memory.NewStore(server, nil)
				require.NoError(t, err)
				link := &forgetful{far: newFar(store, seed+uint64(i), 8*time.Millisecond)}
				client, err := recipes.NewClient(link, nil)
				require.NoError(t, err)
				l, err := New(client, "api", &Options{
					Config: Config{Rate: Rate{1, time.Hour}, Burst: burst, Mode: Exact}, Timeout: time.Minute,
				})
				require.NoError(t, err)
				wg.Go(func() {
					for {
						d, err := l.Allow(t.Context(), "")
						if err != nil || !d.OK {
							assert.NoError(t, err)
							break
						}
						spent.Add(1)
					}
					lost.Add(link.lost.Load())
					assert.NoError(t, l.Close(t.Context()))
					assert.NoError(t, client.Close())
				})
			}
			wg.Wait()
			require.EqualValues(t, burst, spent.Load(), "seed %d", seed)
			require.Greater(t, lost.Load(), int64(burst/10), "seed %d", seed)
		})
	}
}
