package ratelimittest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// hourly is a rate at which nothing comes while a test runs, so that counts are exact.
var hourly = ratelimit.Rate{Tokens: 1, Per: 24 * time.Hour}

const name = "api"

// A crowd is processes that use one limiter, and a ledger of what they spend.
type crowd struct {
	t testing.TB
	w *suite.World

	mu     sync.Mutex
	begun  time.Time
	ledger []spending
}

// A spending of tokens was at some moment between two.
type spending struct {
	from, to time.Duration
	n        int64
}

func newCrowd(t testing.TB, w *suite.World) *crowd { return &crowd{t: t, w: w, begun: time.Now()} }

// options are those for a rate and a burst.
func options(rate ratelimit.Rate, burst int64) *ratelimit.Options {
	return &ratelimit.Options{Config: ratelimit.Config{Rate: rate, Burst: burst}, Timeout: suite.Patience}
}

// join makes a process with a client of its own, which ends with the test.
func (c *crowd) join(o *ratelimit.Options) *ratelimit.Limiter {
	c.t.Helper()
	return c.with(c.w.Client(c.t, recipetest.Options{}), o)
}

func (c *crowd) with(client *recipes.Client, o *ratelimit.Options) *ratelimit.Limiter {
	c.t.Helper()
	l, err := ratelimit.New(client, name, o)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = l.Close(suite.Within(c.t)) })
	return l
}

// linked makes a process whose connection can be disturbed.
func (c *crowd) linked(o *ratelimit.Options) (*ratelimit.Limiter, recipetest.Link) {
	c.t.Helper()
	link := c.w.Server.Link(c.t)
	client := c.w.Client(c.t, recipetest.Options{Link: link, TTL: suite.CalmTTL})
	return c.with(client, o), link
}

// spend spends up to so many tokens, one at a time, until one is refused.
func (c *crowd) spend(l *ratelimit.Limiter, most int64) (n int64) {
	c.t.Helper()
	from := time.Since(c.begun)
	for n < most {
		d, err := l.Allow(suite.Within(c.t), "")
		if !c.fine(err) || !d.OK {
			break
		}
		n++
	}
	c.note(from, n)
	return n
}

func (c *crowd) note(from time.Duration, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.ledger = append(c.ledger, spending{from, time.Since(c.begun), n})
	}
}

func (c *crowd) fine(err error) bool {
	if err != nil {
		c.t.Error(err)
	}
	return err == nil
}

// drain spends what there is, however often it has to ask, until that many are spent.
func (c *crowd) drain(l *ratelimit.Limiter, want int64) {
	c.t.Helper()
	var n int64
	suite.Eventually(c.t, "all tokens to be spent", func() bool {
		n += c.spend(l, want-n)
		return n == want
	})
}

// refuses waits until a process that has asked the store is refused.
func (c *crowd) refuses(l *ratelimit.Limiter) {
	c.t.Helper()
	d := c.allow(l, 1)
	require.False(c.t, d.OK)
	require.False(c.t, d.Degraded)
	require.Positive(c.t, d.RetryAfter)
}

func (c *crowd) allow(l *ratelimit.Limiter, n int64) ratelimit.Decision {
	c.t.Helper()
	from := time.Since(c.begun)
	d, err := l.AllowN(suite.Within(c.t), "", n)
	require.NoError(c.t, err)
	if d.OK {
		c.note(from, n)
	}
	return d
}

// total is how much was spent.
func (c *crowd) total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int64
	for _, s := range c.ledger {
		n += s.n
	}
	return n
}

// overshoot is by how much what was spent exceeds burst and rate in the worst window. Only
// what was surely spent within a window counts.
func (c *crowd) overshoot(burst int64, rate ratelimit.Rate) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	byEnd := slices.Clone(c.ledger)
	slices.SortFunc(byEnd, func(a, b spending) int { return cmp.Compare(a.to, b.to) })
	worst := 0.0
	for _, first := range c.ledger {
		sum := int64(0)
		for _, s := range byEnd {
			if s.from < first.from {
				continue
			}
			sum += s.n
			worst = max(worst, float64(sum)-float64(rate.Tokens)*float64(s.to-first.from)/float64(rate.Per))
		}
	}
	return worst - float64(burst)
}

// all has each process do something at the same time.
func all(limiters []*ratelimit.Limiter, do func(i int, l *ratelimit.Limiter)) {
	var wg sync.WaitGroup
	for i, l := range limiters {
		wg.Go(func() { do(i, l) })
	}
	wg.Wait()
}

func (c *crowd) close(l *ratelimit.Limiter) {
	c.t.Helper()
	require.NoError(c.t, l.Close(suite.Within(c.t)))
}

// look is what is stored, as another process sees it.
func (c *crowd) look(client *recipes.Client) ratelimit.State {
	c.t.Helper()
	s, err := ratelimit.Look(context.Background(), client, name)
	require.NoError(c.t, err)
	return s
}
