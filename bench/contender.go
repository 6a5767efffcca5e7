package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// A contender does what a scenario is about in one way.
type contender struct {
	name string
	role report.Role
	// open makes the contender ready. It returns a missing error if what it needs is
	// not installed.
	open func(ctx context.Context, at site) (runner, error)
}

// A site is where a contender works.
type site struct {
	service   service
	workspace *workspace
	name      string // of the lock: its own in this scenario
	clients   int    // how many work at the same time
}

// A runner is a contender that is ready: connected, its sessions open.
type runner interface {
	// measure has the clients work for about d. It returns the moments at which an
	// operation was completed, as times since the start, in order. Operations begun
	// within d are completed, so that what they cost can be counted.
	measure(ctx context.Context, d time.Duration) ([]time.Duration, error)
	close() error
}

// A spanner is a runner whose operations don't follow one another: what measure
// returns is how long each of them took.
type spanner interface{ spans() }

// A teller is a runner that knows more than measure tells.
type teller interface {
	// figures are what is known after the last round.
	figures() []report.Count
}

// A surveyor is a runner that finds out more than measure tells.
type surveyor interface {
	teller
	// survey takes about d. It is called before each round that counts.
	survey(ctx context.Context, d time.Duration) error
}

// missing is the error of a contender or a service that is not installed.
type missing string

func (m missing) Error() string { return string(m) }

// A turn locks, calls granted, and unlocks.
type turn func(ctx context.Context, granted func()) error

// leastTurns is how many turns a client has, however long they take: what is
// timed is from one to the next.
const leastTurns = 2

// patience is how long a turn may take after the time for it has passed.
const patience = 30 * time.Second

// A crew is a runner of clients in this process.
type crew struct {
	turns   []turn // one for each client
	closers []func() error
	// What the last measure timed, if there is one client.
	locks, unlocks []time.Duration
	trips          []report.Count // requests of one cycle, if they were counted
}

// figures tells, of one client, what a cycle is made of.
func (c *crew) figures() []report.Count {
	if len(c.turns) != 1 {
		return nil
	}
	micros := func(spans []time.Duration) float64 {
		return math.Round(float64(report.Quantile(spans, 0.5))/float64(time.Microsecond)*100) / 100
	}
	return append([]report.Count{{What: report.MicrosToLock, Each: micros(c.locks)}, {What: report.MicrosToUnlock, Each: micros(c.unlocks)}}, c.trips...)
}

func (c *crew) measure(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, d+patience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	moments := make([][]time.Duration, len(c.turns))
	alone := len(c.turns) == 1
	c.locks, c.unlocks = nil, nil
	start := time.Now()
	for i, turn := range c.turns {
		g.Go(func() error {
			var last time.Duration
			granted := func() {
				last = time.Since(start)
				moments[i] = append(moments[i], last)
			}
			begun := time.Duration(0)
			for n := 1; n <= leastTurns || begun < d; n++ {
				if err := turn(ctx, granted); err != nil {
					return err
				}
				now := time.Since(start)
				if alone {
					c.locks, c.unlocks = append(c.locks, last-begun), append(c.unlocks, now-last)
				}
				begun = now
			}
			return nil
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Wait() }()
	limit := time.NewTimer(d + 2*patience) // some clients' calls take no context
	defer limit.Stop()
	select {
	case err := <-ended:
		return sorted(slices.Concat(moments...)), err
	case <-limit.C:
		return nil, fmt.Errorf("some clients still wait after %v", d+2*patience)
	}
}

func sorted(moments []time.Duration) []time.Duration {
	slices.Sort(moments)
	return moments
}

func (c *crew) close() error {
	var first error
	for _, f := range slices.Backward(c.closers) {
		if err := f(); first == nil {
			first = err
		}
	}
	return first
}

// newCrew makes a crew of clients that enlist makes one by one.
func newCrew(ctx context.Context, at site, enlist func(ctx context.Context, c *crew, at site) (turn, error)) (runner, error) {
	c := &crew{}
	for range at.clients {
		t, err := enlist(ctx, c, at)
		if err != nil {
			_ = c.close() // the first error is the one to report
			return nil, err
		}
		c.turns = append(c.turns, t)
	}
	return c, nil
}

// crewOf is a contender's open for clients in this process.
func crewOf(enlist func(ctx context.Context, c *crew, at site) (turn, error)) func(context.Context, site) (runner, error) {
	return func(ctx context.Context, at site) (runner, error) { return newCrew(ctx, at, enlist) }
}
