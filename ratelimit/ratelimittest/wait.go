package ratelimittest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// testLargeNeeds has processes that wait for all that the bucket holds at once: each gets it in
// the end, though others have a part of it meanwhile.
func testLargeNeeds(t *testing.T, w *suite.World) {
	const burst = 10
	rate := ratelimit.PerSecond(100)
	c := newCrowd(t, w)
	limiters := []*ratelimit.Limiter{c.join(options(rate, burst)), c.join(options(rate, burst)), c.join(options(rate, burst))}
	all(limiters, func(_ int, l *ratelimit.Limiter) {
		for range 4 {
			from := time.Since(c.begun)
			if _, err := l.WaitN(suite.Within(t), "", burst); !c.fine(err) {
				return
			}
			c.note(from, burst)
		}
	})
	require.EqualValues(t, 12*burst, c.total())
	require.LessOrEqual(t, c.overshoot(burst, rate), 0.0)
}

// testWaitInOrder has calls wait in line in one process.
func testWaitInOrder(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	l := c.join(options(ratelimit.PerSecond(40), 10))
	c.drain(l, 10)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range 8 {
		r, err := l.ReserveN(suite.Within(t), "", int64(1+i%3))
		require.NoError(t, err)
		require.Positive(t, r.Delay())
		wg.Go(func() {
			select {
			case <-r.Ready():
			case <-time.After(suite.Patience):
				t.Error("a reservation is never ready")
			}
			mu.Lock()
			defer mu.Unlock()
			d, err := r.Wait(suite.Within(t))
			if !c.fine(err) || !d.OK {
				t.Errorf("%+v", d)
			}
			order = append(order, i)
		})
	}
	d := c.allow(l, 1)
	require.False(t, d.OK, "who waits comes first")
	wg.Wait()
	require.Len(t, order, 8)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.drain(l, 1)
	_, err := l.WaitN(ctx, "", 10)
	require.ErrorIs(t, err, context.Canceled)
	_, err = l.WaitN(suite.Within(t), "", 2)
	require.NoError(t, err, "who has given up does not stand in the way")
}

// testExactBesideALine has decisions of an exact limiter while others wait in line: all are
// answered, and tokens that come are for the line.
func testExactBesideALine(t *testing.T, w *suite.World) {
	const burst = 5
	c := newCrowd(t, w)
	o := options(hourly, burst)
	o.Config.Mode = ratelimit.Exact
	l := c.join(o)
	c.drain(l, burst)
	for range 5 {
		var wg sync.WaitGroup
		for range 8 { // some before the line, some after
			wg.Go(func() {
				d, err := l.Allow(suite.Within(t), "")
				if c.fine(err) && (d.OK || d.Degraded || d.RetryAfter <= 0) {
					t.Errorf("%+v", d)
				}
			})
		}
		r, err := l.ReserveN(suite.Within(t), "", 2)
		require.NoError(t, err)
		wg.Wait()
		d := c.allow(l, 1)
		require.False(t, d.OK)
		r.Cancel()
	}
	r, err := l.ReserveN(suite.Within(t), "", burst)
	require.NoError(t, err)
	set(t, w.Client(t, recipetest.Options{}), name, ratelimit.Config{Rate: ratelimit.PerSecond(50), Burst: burst, Mode: ratelimit.Exact})
	for waits := true; waits; {
		select {
		case <-r.Ready():
			waits = false
		default:
			c.allow(l, 1)
			time.Sleep(time.Millisecond) // the work that is limited
		}
	}
	_, err = r.Wait(suite.Within(t))
	require.NoError(t, err)
}

// testReserveAndCancel counts on a bucket that is not refilled.
func testReserveAndCancel(t *testing.T, w *suite.World) {
	for _, mode := range []ratelimit.Mode{ratelimit.Leased, ratelimit.Exact} {
		t.Run(string(mode), func(t *testing.T) {
			const burst = 30
			w := *w
			w.Root += string(mode)
			c := newCrowd(t, &w)
			o := options(hourly, burst)
			o.Config.Mode = mode
			l := c.join(o)
			kept, err := l.ReserveN(suite.Within(t), "", 10)
			require.NoError(t, err)
			given, err := l.ReserveN(suite.Within(t), "", 10)
			require.NoError(t, err)
			for _, r := range []*ratelimit.Reservation{kept, given} {
				select {
				case <-r.Ready():
				case <-time.After(suite.Patience):
					t.Fatal("there are tokens for it")
				}
				require.Zero(t, r.Delay())
			}
			d, err := kept.Wait(suite.Within(t))
			require.NoError(t, err)
			require.True(t, d.OK)
			kept.Cancel() // it is spent
			given.Cancel()
			given.Cancel() // once is enough
			more, err := l.ReserveN(suite.Within(t), "", 25)
			require.NoError(t, err)
			more.Cancel()
			_, err = more.Wait(suite.Within(t))
			require.Error(t, err)
			_, err = l.ReserveN(suite.Within(t), "", burst+1)
			require.Error(t, err)
			c.close(l)
			s := c.look(w.Client(t, recipetest.Options{}))
			require.EqualValues(t, burst-10, s.Level, "all that was not used is back")
			require.EqualValues(t, 10, s.Admitted)
		})
	}
}

// testOutageWait has calls wait while the store is away, until it is back.
func testOutageWait(t *testing.T, w *suite.World) {
	c := newCrowd(t, w)
	o := options(ratelimit.PerSecond(1000), 10)
	o.Timeout = 100 * time.Millisecond
	l, link := c.linked(o)
	suite.Eventually(t, "a first decision", func() bool { return c.allow(l, 1).OK })
	link.StallBoth()
	suite.Eventually(t, "the outage to be noticed", func() bool { return c.allow(l, 1).Degraded })
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Wait(short, "")
	require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
	done := make(chan error, 1)
	go func() {
		_, err := l.Wait(suite.Within(t), "")
		done <- err
	}()
	link.Resume()
	require.NoError(t, <-done)
}

// testSlowStore has a store that takes longer than a decision waits for it: decisions are
// made without it, but those who wait get their tokens.
func testSlowStore(t *testing.T, w *suite.World) {
	client := w.Client(t, recipetest.Options{})
	for _, mode := range []ratelimit.Mode{ratelimit.Leased, ratelimit.Exact} {
		o := options(ratelimit.PerSecond(1000), 10)
		o.Config.Mode = mode
		o.Timeout = time.Millisecond // which a commit takes on any disk
		l, err := ratelimit.New(client, fmt.Sprintf("%s-%v", name, mode), o)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close(suite.Within(t)) })
		for range 3 {
			d, err := l.WaitN(suite.Within(t), "", 2)
			require.NoError(t, err)
			require.True(t, d.OK)
			require.False(t, d.Degraded)
		}
	}
}
