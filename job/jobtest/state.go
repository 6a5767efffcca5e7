package jobtest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/job/internal/clock"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func testState(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	observer := w.Client(t, recipetest.Options{})
	s, err := job.Look(suite.Within(t), observer, name)
	require.NoError(t, err)
	require.Zero(t, s)
	proceed := make(chan struct{})
	a := f.start("a", job.Options{Missed: job.RunOnce}, func(context.Context, *job.Run) error {
		<-proceed
		return nil
	}).holds(1)
	require.Equal(t, name, a.job.Name())
	require.Equal(t, tick(1), a.last(job.Holding).Next)
	f.start("b", job.Options{Missed: job.RunOnce}, nil).waits(2)
	s = a.state()
	require.Equal(t, "@every 1m0s", s.Schedule)
	require.Equal(t, tick(1), s.Next)
	require.Equal(t, 1, s.Waiting)
	require.Equal(t, a.last(job.Holding).Token>>10, s.Holder.Token>>10)
	require.False(t, s.Running)
	require.True(t, s.Last == nil && s.Current == nil && s.Completed.IsZero())
	f.minutes(2)
	a.saw(job.Started, 1)
	s, err = job.Look(suite.Within(t), observer, name)
	require.NoError(t, err)
	require.True(t, s.Running)
	require.Equal(t, tick(2), s.Current.Tick)
	require.Equal(t, 1, s.Current.Missed)
	require.Equal(t, 1, s.Current.Attempt)
	require.Equal(t, a.client.SessionID(), s.Current.Session)
	require.Equal(t, beginning.Add(2*time.Minute), s.Current.Started)
	require.Equal(t, a.last(job.Started).Attempt, *s.Current)
	require.Equal(t, tick(3), s.Next)
	seen, err := observer.Objects(suite.Within(t), recipes.Filter{Kinds: []recipes.Kind{recipes.KindJob}})
	require.NoError(t, err)
	require.Len(t, seen, 1)
	listed, err := job.StateOf(seen[0])
	require.NoError(t, err)
	require.Equal(t, s, listed, "a list shows the same")
	require.Equal(t, "runs "+tick(2).Format(time.RFC3339)+" on "+s.Current.By.Host+", next "+tick(3).Format(time.RFC3339), job.Summary(seen[0]))
	close(proceed)
	require.Equal(t, job.Completed, a.last(job.Ended).Attempt.Outcome)
	s = a.state()
	require.False(t, s.Running)
	require.Nil(t, s.Current)
	require.Equal(t, tick(2), s.Completed)
	require.Equal(t, a.last(job.Ended).Attempt, *s.Last)
	require.Equal(t, tick(3), s.Next)
}

// testReset has a clock that is a year ahead record a tick of the future, which blocks
// the job until it is reset.
func testReset(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	ctx := clock.With(suite.Within(t), f.time.Clock(0))
	observer := w.Client(t, recipetest.Options{})
	require.NoError(t, job.Reset(ctx, observer, name), "there is nothing to reset")
	a := f.start("a", job.Options{}, nil).holds(1)
	a.clock.Set(365 * 24 * time.Hour)
	a.saw(job.Ended, 1)
	a.clock.Set(0)
	f.ran(1)
	f.minutes(1)
	suite.Entered(t, a.client)
	f.ran(1)
	require.NoError(t, job.Reset(ctx, observer, name))
	require.Contains(t, a.last(job.Asked).Request.Why, "reset")
	a.holds(2)
	s := a.state()
	require.Equal(t, tick(2), s.Next)
	require.True(t, s.Last == nil && s.Completed.IsZero())
	f.minutes(1)
	f.ran(2)
	require.Equal(t, tick(2), f.starts()[1].tick)
}

// testLaterToken has the state say that a later holder has written it, as after the
// service was restored from another one's backup.
func testLaterToken(t *testing.T, w *suite.World) {
	f := newFleet(t, w)
	c := w.Client(t, recipetest.Options{})
	stored, err := recipes.NewRegisterIn[json.RawMessage](c, driver.SpaceJob, name)
	require.NoError(t, err)
	old := json.RawMessage(`{"schedule":"@every 1m0s","settled":"2026-03-01T12:00:00Z","token":"9223372036854775807","write":"0"}`)
	old = json.RawMessage(strings.Replace(string(old), `"write":"0"`, `"write":0`, 1))
	_, err = stored.CompareAndSwap(suite.Within(t), 0, old)
	require.NoError(t, err)
	a := f.start("a", job.Options{}, nil)
	require.Contains(t, a.last(job.Lost).Err.Error(), "reset the job")
	require.NoError(t, job.Reset(clock.With(suite.Within(t), f.time.Clock(0)), c, name))
	a.holds(1)
	f.minutes(1)
	f.expect("a 1")
}

func testInvalid(t *testing.T, w *suite.World) {
	c := w.Client(t, recipetest.Options{})
	minutely := func(change func(*job.Options)) job.Options {
		o := job.Options{Every: time.Minute}
		change(&o)
		return o
	}
	for field, o := range map[string]job.Options{
		"Options.Every":       {},
		"Options.Cron":        {Cron: "* * *"},
		"Options.Location":    minutely(func(o *job.Options) { o.Location = time.UTC }),
		"Options.Delivery":    minutely(func(o *job.Options) { o.Delivery = 3 }),
		"Options.MaxAttempts": minutely(func(o *job.Options) { o.MaxAttempts = -1 }),
		"Options.RetryPause":  minutely(func(o *job.Options) { o.RetryPause = -1 }),
		"Options.Missed":      minutely(func(o *job.Options) { o.Missed = -1 }),
		"Options.MaxMissed":   minutely(func(o *job.Options) { o.MaxMissed = 1001 }),
		"Options.Grace":       minutely(func(o *job.Options) { o.Grace = -1 }),
		"Options.MinHold":     minutely(func(o *job.Options) { o.MinHold = -1 }),
		"MutexOptions.Label":  minutely(func(o *job.Options) { o.Label = "a\nb" }),
	} {
		_, err := job.New(c, name, &o)
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid, field)
		require.Equal(t, field, invalid.Field)
		if field != "MutexOptions.Label" {
			require.ErrorIs(t, o.Validate(), recipes.ErrInvalid)
		}
	}
	_, err := job.New(c, name, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	ctx := suite.Within(t)
	good := job.Options{Every: time.Minute}
	require.NoError(t, good.Validate())
	_, err = job.New(c, "", &good)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = job.Look(ctx, c, "")
	require.ErrorIs(t, err, recipes.ErrInvalid)
	require.ErrorIs(t, job.Reset(ctx, c, "\x00"), recipes.ErrInvalid)
	j, err := job.New(c, name, &good)
	require.NoError(t, err)
	require.ErrorIs(t, j.Run(ctx, nil), recipes.ErrInvalid)

	stored, err := recipes.NewRegisterIn[string](c, driver.SpaceJob, name)
	require.NoError(t, err)
	_, err = stored.CompareAndSwap(ctx, 0, "something else")
	require.NoError(t, err)
	nothing := func(context.Context, *job.Run) error { return nil }
	require.ErrorIs(t, j.Run(ctx, nothing), recipes.ErrConflict)
	_, err = j.State(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict)
	suite.Queued(t, c, name, 0)
}

func testClosed(t *testing.T, w *suite.World) {
	c := w.Open(t, recipetest.Options{})
	j, err := job.New(c, name, &job.Options{Every: time.Hour})
	require.NoError(t, err)
	mutex, err := c.Mutex(name, nil)
	require.NoError(t, err)
	nothing := func(context.Context, *job.Run) error { return nil }
	require.ErrorIs(t, mutex.Do(suite.Within(t), func(ctx context.Context, _ *recipes.Hold) error {
		return j.Run(ctx, nothing)
	}), recipes.ErrDeadlock, "it would wait for itself")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, j.Run(ended, nothing), context.Canceled)
	require.NoError(t, c.Close())
	require.ErrorIs(t, j.Run(suite.Within(t), nothing), recipes.ErrClosed)
	_, err = j.State(suite.Within(t))
	require.ErrorIs(t, err, recipes.ErrClosed)
}
