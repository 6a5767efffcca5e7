package job

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A story is what is stored of a job that ticks every minute, as a plan goes on with
// it.
type story struct {
	t    *testing.T
	plan *plan
	r    record
	self Attempt
	now  time.Time
}

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func tell(t *testing.T, o Options) *story {
	t.Helper()
	if o.Every == 0 && o.Cron == "" {
		o.Every = time.Minute
	}
	p, err := o.plan()
	require.NoError(t, err)
	s := &story{t: t, plan: p, now: midnight, self: Attempt{Token: 1}}
	s.at(0)
	require.Equal(t, []string{"write"}, s.steps(), "the first look records when it began")
	return s
}

// at sets the clock to so many seconds after midnight.
func (s *story) at(seconds float64) *story {
	s.now = midnight.Add(time.Duration(seconds * float64(time.Second)))
	return s
}

// successor is another process that takes over.
func (s *story) successor() *story {
	s.self.Token++
	return s
}

// steps goes on until there is something to run or to wait for, and says what was done.
func (s *story) steps() (done []string) {
	s.t.Helper()
	for len(done) < 10 {
		step := s.plan.step(s.r, s.now, s.self)
		if step.write == nil {
			if len(done) == 0 && !step.wait.IsZero() {
				done = append(done, fmt.Sprintf("wait %g", step.wait.Sub(midnight).Seconds()))
			}
			return done
		}
		require.False(s.t, step.write.Settled.Before(s.r.Settled), "settled goes back")
		s.r = *step.write
		for _, e := range step.events {
			switch e.Kind {
			case Skipped:
				done = append(done, fmt.Sprintf("skip %d to %g", e.Skipped, e.Tick.Sub(midnight).Seconds()))
			case Ended:
				done = append(done, fmt.Sprintf("%s %g again %v", e.Attempt.Outcome, e.Attempt.Tick.Sub(midnight).Seconds(), e.Again))
			}
		}
		if a := step.run; a != nil {
			require.Equal(s.t, s.self.Token, a.Token)
			require.Equal(s.t, s.now, a.Started)
			require.Equal(s.t, s.r.Current, a)
			return append(done, fmt.Sprintf("run %g attempt %d missed %d", a.Tick.Sub(midnight).Seconds(), a.Attempt, a.Missed))
		}
		if len(step.events) == 0 {
			done = append(done, "write")
		}
	}
	s.t.Fatalf("it does not come to an end: %v", done)
	return nil
}

func (s *story) expect(want ...string) *story {
	s.t.Helper()
	require.Equal(s.t, want, s.steps())
	return s
}

// ends ends what runs.
func (s *story) ends(err error) *story {
	s.t.Helper()
	require.NotNil(s.t, s.r.Current)
	s.r, _ = s.plan.end(s.r, *s.r.Current, err, s.now)
	return s
}

var errWork = errors.New("work failed")

func TestTicks(t *testing.T) {
	t.Parallel()
	for _, delivery := range []Delivery{AtMostOnce, AtLeastOnce} {
		s := tell(t, Options{Delivery: delivery}).expect("wait 60")
		s.at(59.999).expect("wait 60")
		s.at(60.001).expect("run 60 attempt 1 missed 0")
		require.Equal(t, delivery == AtMostOnce, !s.r.Settled.Before(midnight.Add(time.Minute)), "recorded before, or after")
		s.at(61).ends(nil).expect("wait 120")
		require.Equal(t, midnight.Add(time.Minute), s.r.Completed)
		require.Equal(t, Completed, s.r.Last.Outcome)
		s.successor().expect("wait 120")
		s.at(119).expect("wait 120")
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	s := tell(t, Options{}).at(60).expect("run 60 attempt 1 missed 0").at(61).ends(errWork)
	s.expect("wait 120")
	require.Equal(t, Failed, s.r.Last.Outcome)
	require.Equal(t, errWork.Error(), s.r.Last.Error)
	require.Zero(t, s.r.Completed)

	s = tell(t, Options{Delivery: AtLeastOnce, RetryPause: 5 * time.Second})
	s.at(60).expect("run 60 attempt 1 missed 0").at(61).ends(errWork)
	s.expect("wait 66").at(65).successor().expect("wait 66").at(66).expect("run 60 attempt 2 missed 0")
	s.at(67).ends(errWork).at(72).expect("run 60 attempt 3 missed 0").at(73).ends(errWork)
	s.expect("wait 120")
	require.Equal(t, midnight.Add(time.Minute), s.r.Settled)
	require.Nil(t, s.r.Current)

	s = tell(t, Options{Delivery: AtLeastOnce})
	s.at(60).expect("run 60 attempt 1 missed 0").at(100).ends(errWork)
	s.at(99).expect("run 60 attempt 2 missed 0") // by a clock that is behind
	s.plan.maxAttempts = 1
	s.ends(errWork).expect("wait 120")
	s.plan.maxAttempts = 2
	s.at(120).expect("run 120 attempt 1 missed 0").ends(errWork)
	s.plan.maxAttempts = 1
	s.at(130).expect("write")
	s.expect("wait 180")
}

func TestCrash(t *testing.T) {
	t.Parallel()
	s := tell(t, Options{}).at(60).expect("run 60 attempt 1 missed 0")
	s.successor().at(75).expect("abandoned 60 again false")
	s.expect("wait 120")
	require.Equal(t, Abandoned, s.r.Last.Outcome)

	s = tell(t, Options{Delivery: AtLeastOnce, MaxAttempts: 2}).at(60).expect("run 60 attempt 1 missed 0")
	s.successor().at(75).expect("abandoned 60 again true", "run 60 attempt 2 missed 0")
	s.successor().at(3000).expect("abandoned 60 again false", "skip 48 to 2940", "run 3000 attempt 1 missed 0")

	s = tell(t, Options{}).at(60).expect("run 60 attempt 1 missed 0")
	s.plan.delivery = AtLeastOnce // by the next, but the tick was to run once
	s.successor().at(75).expect("abandoned 60 again false")
}

func TestMissed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    Options
		at   float64
		want []string
	}{
		"late by less than the grace": {Options{}, 119, []string{"run 60 attempt 1 missed 0"}},
		"several, the last in time":   {Options{}, 301, []string{"skip 4 to 240", "run 300 attempt 1 missed 0"}},
		"late by more":                {Options{Grace: 10 * time.Second}, 311, []string{"skip 5 to 300"}},
		"once":                        {Options{Missed: RunOnce, Grace: time.Second}, 311, []string{"run 300 attempt 1 missed 4"}},
		"once, only one":              {Options{Missed: RunOnce}, 61, []string{"run 60 attempt 1 missed 0"}},
		"each":                        {Options{Missed: RunEach}, 311, []string{"run 60 attempt 1 missed 0"}},
		"each, too many":              {Options{Missed: RunEach, MaxMissed: 2}, 311, []string{"skip 3 to 180", "run 240 attempt 1 missed 0"}},
		"a year":                      {Options{Missed: RunOnce}, 365 * 24 * 3600, []string{"run 3.1536e+07 attempt 1 missed 999"}},
	} {
		s := tell(t, c.o).at(c.at)
		require.Equal(t, c.want, s.steps(), name)
	}
	s := tell(t, Options{Missed: RunEach, MaxMissed: 3}).at(195).expect("run 60 attempt 1 missed 0")
	s.at(196).ends(nil).expect("run 120 attempt 1 missed 0").at(197).ends(nil)
	s.expect("run 180 attempt 1 missed 0").at(301).ends(nil)
	s.expect("run 240 attempt 1 missed 0").ends(nil).expect("run 300 attempt 1 missed 0").ends(nil).expect("wait 360")
}

// TestLongWork has work take longer than the time between ticks.
func TestLongWork(t *testing.T) {
	t.Parallel()
	s := tell(t, Options{}).at(60).expect("run 60 attempt 1 missed 0").at(185).ends(nil)
	s.expect("skip 2 to 180")
	s.expect("wait 240")
	s = tell(t, Options{Missed: RunOnce}).at(60).expect("run 60 attempt 1 missed 0").at(185).ends(nil)
	s.expect("run 180 attempt 1 missed 1").at(186).ends(nil).expect("wait 240")
	s = tell(t, Options{Delivery: AtLeastOnce}).at(60).expect("run 60 attempt 1 missed 0").at(125).ends(errWork)
	s.at(135).expect("run 60 attempt 2 missed 0").at(136).ends(nil)
	s.expect("skip 1 to 120")
	s.expect("wait 180")
}

// TestClocks has processes disagree about the time.
func TestClocks(t *testing.T) {
	t.Parallel()
	s := tell(t, Options{}).at(60).expect("run 60 attempt 1 missed 0").ends(nil)
	s.successor().at(55).expect("wait 120").at(60).expect("wait 120") // whose clock is behind
	s.at(120).expect("run 120 attempt 1 missed 0").ends(nil)
	s.at(-3600).expect("wait 180") // set back
	s.successor().at(300).expect("skip 2 to 240", "run 300 attempt 1 missed 0").ends(nil)
}

func TestScheduleChange(t *testing.T) {
	t.Parallel()
	s := tell(t, Options{Cron: "@daily", Missed: RunEach, Delivery: AtLeastOnce})
	s.at(86400).expect("run 86400 attempt 1 missed 0")
	changed, err := Options{Every: time.Minute, Missed: RunEach, Delivery: AtLeastOnce}.plan()
	require.NoError(t, err)
	s.plan = changed
	s.successor().at(86430)
	s.expect("abandoned 86400 again true", "run 86400 attempt 2 missed 0")
	s.at(86440).ends(nil).expect("write")
	s.expect("wait 86460")
	require.Equal(t, "@every 1m0s", s.r.Schedule)
}

// TestAnyStory has processes with clocks of their own take over, crash, fail and
// succeed at random. Whatever happens, a tick is not started more often than allowed,
// and no tick comes before one that was settled.
func TestAnyStory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		o := Options{
			Delivery: Delivery(1 + random.IntN(2)), Missed: Missed(1 + random.IntN(3)), MaxAttempts: 1 + random.IntN(3),
			Grace: time.Duration(random.IntN(100)) * time.Second, MaxMissed: 1 + random.IntN(4),
		}
		s := tell(t, o)
		starts := map[time.Time]int{}
		var passed, skew float64
		for range 200 {
			passed += random.Float64() * 40
			if random.IntN(20) == 0 {
				passed += random.Float64() * 600
			}
			s.at(passed + skew)
			step := s.plan.step(s.r, s.now, s.self)
			if step.write == nil {
				require.True(t, step.wait.After(s.now))
				if random.IntN(10) == 0 {
					skew = random.Float64()*40 - 20
					s.successor()
				}
				continue
			}
			require.False(t, step.write.Settled.Before(s.r.Settled))
			if a := step.run; a != nil {
				require.True(t, a.Tick.After(s.r.Settled), "seed %d: %v was settled", seed, a.Tick)
				require.False(t, a.Attempt == 1 && a.Tick.After(s.now), "a tick of the future")
				starts[a.Tick]++
				require.Equal(t, starts[a.Tick], a.Attempt)
			}
			s.r = *step.write
			if step.run == nil {
				continue
			}
			switch random.IntN(4) {
			case 0: // it crashes
				skew = random.Float64()*40 - 20
				s.successor()
			case 1:
				s.at(passed + skew).ends(errWork)
			default:
				passed += random.Float64() * 100
				s.at(passed + skew).ends(nil)
			}
		}
		for tick, n := range starts {
			if s.plan.delivery == AtMostOnce {
				require.Equal(t, 1, n, "seed %d: %v", seed, tick)
			}
			require.LessOrEqual(t, n, o.MaxAttempts*2-1)
		}
	}
}
