package jobtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// untilLost is work that goes on until its context ends, and then claims success.
func untilLost(ctx context.Context, _ *job.Run) error {
	<-ctx.Done()
	return nil
}

func testAtMostOnceCrash(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	a := f.start("a", job.Options{}, untilLost).holds(1)
	b := f.start("b", job.Options{}, nil).waits(2)
	f.minutes(1)
	a.saw(job.Started, 1)
	s := b.state()
	require.True(t, s.Running)
	require.Equal(t, "a", s.Current.By.Label)
	require.Equal(t, tick(1), s.Current.Tick)
	a.expire()
	e := b.last(job.Ended)
	require.Equal(t, job.Abandoned, e.Attempt.Outcome)
	require.Equal(t, "a", e.Attempt.By.Label)
	require.False(t, e.Again)
	require.ErrorIs(t, a.last(job.Unrecorded).Err, recipes.ErrLost)
	a.saw(job.Lost, 1)
	b.waits(2)
	f.minutes(1)
	f.expect("a 1", "b 2")
	b.saw(job.Ended, 2)
	s = b.state()
	require.Equal(t, tick(2), s.Completed)
	require.Equal(t, "b", s.Last.By.Label)
}

func testAtLeastOnceCrash(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	o := job.Options{Delivery: job.AtLeastOnce, MaxAttempts: 2}
	a := f.start("a", o, untilLost).holds(1)
	b := f.start("b", o, untilLost).waits(2)
	c := f.start("c", o, nil).waits(3)
	f.minutes(1)
	a.saw(job.Started, 1)
	a.expire()
	b.saw(job.Started, 1)
	require.True(t, b.last(job.Ended).Again)
	b.expire()
	e := c.last(job.Ended)
	require.Equal(t, job.Abandoned, e.Attempt.Outcome)
	require.Equal(t, "b", e.Attempt.By.Label)
	require.False(t, e.Again, "two attempts are allowed")
	f.minutes(1)
	f.expect("a 1", "b 1 attempt 2", "c 2")
	starts := f.starts()
	require.Greater(t, starts[1].token, starts[0].token)
	require.Greater(t, starts[2].token, starts[1].token)
	c.saw(job.Ended, 2)
	require.Equal(t, tick(2), c.state().Completed, "what the others claimed is not recorded")
}

// testPanic has work end its process's Run: the next one is told, and does not wait for
// any TTL.
func testPanic(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	o := job.Options{Delivery: job.AtLeastOnce, MinHold: time.Hour}
	a := f.start("a", o, func(context.Context, *job.Run) error { panic("out of ideas") }).holds(1)
	b := f.start("b", o, nil).waits(2)
	f.minutes(1)
	suite.Await(t, a.done, "the panic")
	require.Equal(t, "out of ideas", a.panics)
	b.saw(job.Holding, 1)
	s := b.state()
	require.Equal(t, job.Failed, s.Last.Outcome)
	require.Contains(t, s.Last.Error, "panicked")
	f.minutes(0.5)
	f.expect("a 1", "b 1 attempt 2")
}

// testLossComesFirst stalls the link of who runs: its context ends before another
// process starts the work.
func testLossComesFirst(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	link := w.Server.Link(t)
	o := job.Options{Delivery: job.AtLeastOnce}
	lost := make(chan time.Time, 1)
	a := f.startWith(w.Client(t, recipetest.Options{Label: "a", TTL: suite.ShortTTL, Link: link}), "a", 0, o,
		func(ctx context.Context, run *job.Run) error {
			link.StallBoth()
			<-ctx.Done()
			lost <- time.Now()
			return context.Cause(ctx)
		}).holds(1)
	started := make(chan time.Time, 1)
	b := f.start("b", o, func(context.Context, *job.Run) error {
		started <- time.Now()
		return nil
	}).waits(2)
	f.minutes(1)
	b.saw(job.Ended, 2)
	require.True(t, (<-started).After(<-lost))
	link.Resume()
	require.ErrorIs(t, a.last(job.Unrecorded).Err, recipes.ErrLost)
	f.expect("a 1", "b 1 attempt 2")
}

// testLateRecord has work complete in time, and its lock be lost before that could be
// recorded: it is recorded later, and not run again.
func testLateRecord(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	link := w.Server.Link(t)
	c := w.Client(t, recipetest.Options{Label: "a", TTL: suite.ShortTTL, Link: link})
	a := f.startWith(c, "a", 0, job.Options{Delivery: job.AtLeastOnce}, func(context.Context, *job.Run) error {
		link.StallBoth()
		return nil
	}).holds(1)
	f.minutes(1)
	e := a.last(job.Unrecorded)
	require.Equal(t, job.Completed, e.Attempt.Outcome)
	link.Resume()
	e = a.last(job.Ended)
	require.Equal(t, job.Completed, e.Attempt.Outcome)
	require.Equal(t, tick(1), a.state().Completed)
	f.expect("a 1")
}

// testLostReplies breaks the connection around the moments at which a tick begins and
// ends: it is run once all the same, and recorded.
func testLostReplies(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	link := w.Server.Link(t)
	round := 0
	disturb := func() {
		if round%3 == 2 {
			link.Cut()
		} else {
			link.LoseReply()
		}
	}
	a := f.startWith(w.Client(t, recipetest.Options{Label: "a", Link: link}), "a", 0, job.Options{},
		func(context.Context, *job.Run) error {
			disturb()
			return nil
		}).holds(1)
	for round = range 8 {
		disturb()
		f.minutes(1)
		f.ran(round + 1)
		a.saw(job.Ended, round+1)
	}
	for i, s := range f.starts() {
		require.Equal(t, tick(i+1), s.tick)
		require.Equal(t, 1, s.attempt)
	}
	require.Equal(t, tick(8), a.state().Completed)
}

// testWaiterExpires ends the session of a process that waits: it lines up again, and is
// not taken for one that holds the job.
func testWaiterExpires(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	a := f.start("a", job.Options{}, nil).holds(1)
	b := f.start("b", job.Options{}, nil).waits(2)
	suite.Entered(t, b.client)
	b.expire()
	require.ErrorIs(t, b.last(job.Lost).Err, recipes.ErrLost)
	a.waits(2)
	f.minutes(1)
	f.expect("a 1")
	a.saw(job.Ended, 1)
	a.stop()
	b.holds(1)
	f.minutes(1)
	f.expect("a 1", "b 2")
}

// testRemovedByHand deletes the entry of who holds the job, who is not told: two take
// themselves for the holder. Which of them claims a tick runs it, and no tick is run
// twice.
func testRemovedByHand(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	a := f.start("a", job.Options{}, nil).holds(1)
	b := f.start("b", job.Options{}, nil).waits(2)
	w.Server.Remove(t, w.Root, name)
	b.holds(1)
	last := func() string {
		starts := f.starts()
		return starts[len(starts)-1].by
	}
	run := func(n int) {
		f.minutes(1)
		suite.Eventually(t, "the tick to be done with", func() bool {
			s := b.state()
			return s.Next.Equal(tick(n+1)) && s.Current == nil
		})
	}
	n := 1
	for run(n); last() != "b"; run(n) { // until the later one has written
		n++
		require.Less(t, n, 100, "the later holder gets no turn")
	}
	for range 3 {
		n++
		run(n)
		require.Equal(t, "b", last(), "the earlier holder is not let in once the later one has written")
	}
	seen := map[time.Time]bool{}
	for _, s := range f.starts() {
		require.False(t, seen[s.tick], "%v was run twice", s.tick)
		seen[s.tick] = true
	}
	require.Contains(t, a.last(job.Lost).Err.Error(), "later token")
	require.ErrorIs(t, a.last(job.Lost).Err, recipes.ErrLost)
}

func testBroken(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	cause := make(chan error, 1)
	a := f.start("a", job.Options{}, func(ctx context.Context, _ *job.Run) error {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return context.Cause(ctx)
	}).holds(1)
	b := f.start("b", job.Options{}, nil).waits(2)
	f.minutes(1)
	a.saw(job.Started, 1)
	lock, err := b.client.Lock(suite.Within(t), name)
	require.NoError(t, err)
	require.Equal(t, recipes.KindJob, lock.Entries[0].Kind)
	require.NoError(t, b.client.Break(suite.Within(t), name, lock.Entries[0], "hangs"))
	var lost *recipes.LostError
	require.ErrorAs(t, <-cause, &lost)
	require.Equal(t, recipes.LostBroken, lost.Reason)
	require.Equal(t, "hangs", lost.Why)
	b.holds(1)
	a.waits(2)
	f.minutes(1)
	f.expect("a 1", "b 2")
}

// testAsked asks for the job's lock: it goes to the next in line once the work has
// ended.
func testAsked(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	proceed := make(chan struct{})
	a := f.start("a", job.Options{}, func(_ context.Context, run *job.Run) error {
		if run.Tick.Equal(tick(1)) {
			<-proceed
		}
		return nil
	}).holds(1)
	b := f.start("b", job.Options{}, nil).waits(2)
	f.minutes(1)
	a.saw(job.Started, 1)
	asked := make(chan error, 1)
	go func() { asked <- b.client.Ask(suite.Within(t), name, "upgrade") }()
	suite.Entered(t, a.client)
	require.Equal(t, "a", b.state().Holder.Owner.Label)
	close(proceed)
	require.NoError(t, <-asked)
	require.Equal(t, "upgrade", a.last(job.Asked).Request.Why)
	b.holds(1)
	a.waits(2)
	require.NoError(t, a.client.Ask(suite.Within(t), name, "back"))
	a.holds(2)
	f.minutes(1)
	f.expect("a 1", "a 2")
}

// testShutdown ends Run while its work goes on: the lock is kept until that has ended.
func testShutdown(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	told, proceed := make(chan struct{}), make(chan struct{})
	a := f.start("a", job.Options{Delivery: job.AtLeastOnce}, func(ctx context.Context, _ *job.Run) error {
		<-ctx.Done()
		close(told)
		<-proceed
		return nil
	}).holds(1)
	b := f.start("b", job.Options{Delivery: job.AtLeastOnce}, nil).waits(2)
	f.minutes(1)
	a.saw(job.Started, 1)
	a.cancel()
	suite.Await(t, told, "the work to be told")
	suite.Entered(t, b.client)
	require.Equal(t, "a", b.state().Holder.Owner.Label)
	close(proceed)
	a.stop()
	require.ErrorIs(t, a.err, context.Canceled)
	require.NotErrorIs(t, a.err, recipes.ErrLost)
	b.holds(1)
	require.Equal(t, tick(1), b.state().Completed, "the outcome was recorded")
	f.minutes(1)
	f.expect("a 1", "b 2")
}

// testShutdownAtTheTick ends Run while the start of a tick is being recorded: the tick
// is left to the next process, although it may run once only.
func testShutdownAtTheTick(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	link := w.Server.Link(t)
	a := f.startWith(w.Client(t, recipetest.Options{Label: "a", Link: link}), "a", 0, job.Options{}, nil).holds(1)
	b := f.start("b", job.Options{}, nil).waits(2)
	link.StallReplies()
	f.minutes(1)
	suite.Entered(t, b.client)
	a.cancel()
	link.Resume()
	a.stop()
	b.holds(1)
	f.expect("b 1")
	require.Nil(t, b.last(job.Ended).Err)
}
