package jobtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// testOncePerTick has processes, whose clocks differ, come, end and die: each tick is
// run, once.
func testOncePerTick(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	var all []*process
	for i, ahead := range []time.Duration{0, 12 * time.Second, -7 * time.Second, 3 * time.Second} {
		c := w.Client(t, recipetest.Options{Label: string(rune('a' + i))})
		p := f.startWith(c, string(rune('a'+i)), ahead, job.Options{}, nil)
		p.waits(i + 1)
		all = append(all, p)
	}
	all[0].holds(1)
	want := []string{}
	next := func(by string) {
		f.minutes(1)
		want = append(want, fmt.Sprintf("%s %d", by, len(want)+1))
		f.expect(want...)
	}
	next("a")
	next("a")
	all[0].stop()
	all[1].holds(1)
	next("b")
	all[1].expire()
	all[2].holds(1)
	all[1].saw(job.Lost, 1)
	all[2].waits(3) // b is back in line
	next("c")
	require.NoError(t, all[2].client.Close())
	all[3].holds(1)
	next("d")
	next("d")
	all[3].stop()
	all[1].holds(2)
	next("b")
	last := uint64(0)
	for _, s := range f.starts() {
		require.GreaterOrEqual(t, s.token, last)
		last = s.token
	}
	suite.Await(t, all[2].done, "the Run of a closed client to end")
	require.ErrorIs(t, all[2].err, recipes.ErrClosed)
}

// testSkew has a process run a tick early, by its clock, and die: one whose clock is
// behind does not run it again when it comes by that. Then a clock is set back.
func testSkew(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	a := f.startWith(w.Client(t, recipetest.Options{Label: "a"}), "a", 25*time.Second, job.Options{}, nil)
	a.holds(1)
	f.minutes(0.2) // 12:00:42
	f.minutes(0)
	b := f.startWith(w.Client(t, recipetest.Options{Label: "b"}), "b", -25*time.Second, job.Options{}, nil)
	b.waits(2)
	f.expect("a 1") // at 12:01:07 by its clock
	a.saw(job.Ended, 1)
	a.stop()
	b.holds(1)
	require.Equal(t, tick(2), b.last(job.Holding).Next)
	f.minutes(1) // 12:01:17 by b's
	f.minutes(1) // 12:02:17
	f.expect("a 1", "b 2")
	b.saw(job.Ended, 1)
	b.clock.Set(-time.Hour)
	f.minutes(30)
	f.minutes(30) // 12:02:17 by b's clock, again
	b.clock.Set(-time.Hour + 45*time.Second)
	f.expect("a 1", "b 2", "b 3")
}

// testClockSetDuringWork has a clock set ahead while work goes on: for whoever runs the next
// tick, the work has not gone on until then.
func testClockSetDuringWork(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	o := job.Options{Rotate: true}
	proceed := make(chan struct{})
	a := f.start("a", o, func(context.Context, *job.Run) error {
		<-proceed
		return nil
	}).holds(1)
	b := f.start("b", o, nil).waits(2)
	f.minutes(1)
	a.saw(job.Started, 1)
	a.clock.Set(24 * time.Hour)
	f.minutes(0.25)
	close(proceed)
	b.holds(1)
	a.clock.Set(0) // before it is a's turn again
	s := b.state()
	require.Equal(t, 15*time.Second, s.Last.Ended.Sub(s.Last.Started))
	f.minutes(0.5)
	f.expect("a 1", "b 2")
}

// testRotate has processes take turns.
func testRotate(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	o := job.Options{Rotate: true}
	all := []*process{f.start("a", o, nil).holds(1)}
	f.minutes(1)
	all[0].saw(job.Ended, 1)
	f.minutes(1) // nobody else is there
	all[0].saw(job.Ended, 2)
	suite.Eventually(t, "a to wait for its third tick", func() bool { return f.time.Waiting() == 1 })
	all = append(all, f.start("b", o, nil).waits(2), f.start("c", o, nil).waits(3))
	want := []string{"a 1", "a 2"}
	for i := range 7 {
		p := all[i%3]
		suite.Eventually(t, p.label+" to hold", func() bool {
			s := p.state()
			return s.Holder != nil && s.Holder.Owner.Label == p.label && s.Waiting == 2
		})
		f.minutes(1)
		want = append(want, fmt.Sprintf("%s %d", p.label, i+3))
		f.expect(want...)
	}
}

// testMinHold ends a process right after its work: the lock is kept for its time.
func testMinHold(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	o := job.Options{MinHold: 40 * time.Second}
	a := f.start("a", o, nil).holds(1)
	b := f.start("b", o, nil).waits(2)
	f.minutes(1)
	f.expect("a 1")
	a.saw(job.Ended, 1)
	a.cancel()
	f.time.Advance(39 * time.Second)
	suite.Entered(t, b.client)
	require.Equal(t, "a", b.state().Holder.Owner.Label)
	f.time.Advance(2 * time.Second)
	a.stop()
	b.holds(1)
	f.expect("a 1", "b 2") // which came meanwhile
}

// testMissed has all processes end, and others start when ticks have passed. What is
// known of the job has stayed.
func testMissed(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	a := f.start("a", job.Options{}, nil).holds(1)
	f.minutes(1)
	f.expect("a 1")
	a.saw(job.Ended, 1)
	a.stop()
	require.ErrorIs(t, a.err, context.Canceled)
	before := a.state()
	require.NoError(t, a.client.Close())
	f.minutes(5)
	other := w.Client(t, recipetest.Options{})
	after, err := job.Look(suite.Within(t), other, name)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, tick(1), after.Completed)
	require.Equal(t, tick(2), after.Next, "it is overdue")

	b := f.start("b", job.Options{Grace: 10 * time.Second}, nil).holds(1)
	skipped := b.last(job.Skipped)
	require.Equal(t, 5, skipped.Skipped)
	require.Equal(t, tick(6), skipped.Tick)
	b.stop()
	f.expect("a 1")
	f.minutes(5)
	c := f.start("c", job.Options{Missed: job.RunOnce}, nil)
	f.expect("a 1", "c 11 missed 4")
	c.saw(job.Ended, 1)
	c.stop()
	f.minutes(5)
	d := f.start("d", job.Options{Missed: job.RunEach, MaxMissed: 3}, nil)
	f.expect("a 1", "c 11 missed 4", "d 14", "d 15", "d 16")
	require.Equal(t, tick(13), d.last(job.Skipped).Tick)
	d.saw(job.Ended, 3)
	require.Equal(t, tick(17), d.state().Next)
}

// testLongWork has ticks come while the work for one goes on.
func testLongWork(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	proceed := make(chan struct{})
	a := f.start("a", job.Options{}, func(_ context.Context, run *job.Run) error {
		if run.Tick.Equal(tick(1)) {
			<-proceed
		}
		return nil
	}).holds(1)
	f.minutes(1)
	a.saw(job.Started, 1)
	f.minutes(2)
	close(proceed)
	skipped := a.last(job.Skipped)
	require.Equal(t, 2, skipped.Skipped)
	require.Equal(t, tick(3), skipped.Tick)
	f.minutes(1)
	f.expect("a 1", "a 4")
}

// testScheduleChange rolls out another schedule while the job goes on.
func testScheduleChange(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	a := f.start("a", job.Options{Missed: job.RunEach}, nil).holds(1)
	b := f.start("b", job.Options{Cron: "CRON_TZ=Europe/Berlin */5 * * * *", Missed: job.RunEach}, nil).waits(2)
	f.minutes(1)
	f.expect("a 1")
	require.Equal(t, "@every 1m0s", b.state().Schedule)
	a.saw(job.Ended, 1)
	a.stop()
	suite.Eventually(t, "the other schedule", func() bool {
		return b.state().Schedule == "CRON_TZ=Europe/Berlin */5 * * * *"
	})
	s := b.state()
	require.Equal(t, tick(5), s.Next)
	require.Equal(t, tick(1), s.Completed)
	f.minutes(3) // 12:04:30
	f.minutes(1)
	f.expect("a 1", "b 5")
}

// testAttempts has work fail.
func testAttempts(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	failure := errors.New("no disk\xff")
	fails := func(context.Context, *job.Run) error { return failure }
	a := f.start("a", job.Options{}, fails).holds(1)
	f.minutes(1)
	e := a.last(job.Ended)
	require.Equal(t, job.Failed, e.Attempt.Outcome)
	require.False(t, e.Again, "at most once")
	require.ErrorIs(t, e.Err, failure)
	require.Equal(t, "no disk", a.state().Last.Error)
	a.stop()

	b := f.start("b", job.Options{Delivery: job.AtLeastOnce, MaxAttempts: 2, RetryPause: 5 * time.Second}, fails).holds(1)
	f.minutes(1)
	require.True(t, b.last(job.Ended).Again)
	s := b.state()
	require.Equal(t, job.Failed, s.Current.Outcome)
	require.False(t, s.Running)
	require.Equal(t, tick(3), s.Next)
	f.time.Advance(5 * time.Second)
	require.False(t, b.saw(job.Ended, 2)[1].Again)
	f.expect("a 1", "b 2", "b 2 attempt 2")
	s = b.state()
	require.Nil(t, s.Current)
	require.Zero(t, s.Completed)
	f.minutes(1)
	f.expect("a 1", "b 2", "b 2 attempt 2", "b 3")
}
