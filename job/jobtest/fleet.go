package jobtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/job/internal/clock"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// name is that of every job of the suite; each test has a root of its own.
const name = "jobs/1"

// beginning is when a test begins, half a minute from the ticks around it, so that
// clocks may differ by that.
var beginning = time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)

// tick is the nth tick of a job that ticks every minute.
func tick(n int) time.Time {
	return beginning.Truncate(time.Minute).Add(time.Duration(n) * time.Minute)
}

type work func(ctx context.Context, run *job.Run) error

// A fleet is the processes that run one job, in a time of their own.
type fleet struct {
	t    *testing.T
	w    *suite.World
	time *clock.Fake

	mu      sync.Mutex
	started []start
	working map[*process]context.Context
}

// A start is one call of the work.
type start struct {
	by      string
	tick    time.Time
	attempt int
	missed  int
	token   uint64
}

func newFleet(t *testing.T, w *suite.World) *fleet {
	return &fleet{t: t, w: w, time: clock.NewFake(beginning), working: map[*process]context.Context{}}
}

// A process is one of the fleet.
type process struct {
	fleet  *fleet
	label  string
	client *recipes.Client
	job    *job.Job
	clock  *clock.Hand
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what it returned
	panics any           // or what it panicked with

	mu     sync.Mutex
	events []job.Event
}

// start starts a process, with a client of its own.
func (f *fleet) start(label string, o job.Options, does work) *process {
	f.t.Helper()
	return f.startWith(f.w.Client(f.t, recipetest.Options{Label: label}), label, 0, o, does)
}

// startWith starts a process whose clock is ahead. Without other options the job ticks
// every minute; without does its work is done at once.
func (f *fleet) startWith(c *recipes.Client, label string, ahead time.Duration, o job.Options, does work) *process {
	f.t.Helper()
	p := &process{fleet: f, label: label, client: c, clock: f.time.Clock(ahead), done: make(chan struct{})}
	if o.Every == 0 && o.Cron == "" {
		o.Every = time.Minute
	}
	o.Notify = p.notice
	var err error
	p.job, err = job.New(c, name, &o)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		defer func() { p.panics = recover() }()
		p.err = p.job.Run(clock.With(ctx, p.clock), func(ctx context.Context, run *job.Run) error {
			f.enter(ctx, p, run)
			defer f.leave(p)
			if does == nil {
				return nil
			}
			return does(ctx, run)
		})
	}()
	f.t.Cleanup(func() {
		p.cancel()
		f.minutes(24 * 60) // whatever it waits for
		p.stop()
	})
	return p
}

// enter notes a start. Nobody else works then whose context has not ended.
func (f *fleet) enter(ctx context.Context, p *process, run *job.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, ctx := range f.working {
		if ctx.Err() == nil {
			f.t.Errorf("%s starts while %s works", p.label, other.label)
		}
	}
	f.working[p] = ctx
	if owner := run.Owner(); owner.Label != p.label || run.Name() != name || !run.Deadline().After(time.Now()) {
		f.t.Errorf("%s runs %q as %v until %v", p.label, run.Name(), owner, run.Deadline())
	}
	f.started = append(f.started, start{p.label, run.Tick, run.Attempt, run.Missed, run.Token})
}

func (f *fleet) leave(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.working, p)
}

// starts are the calls of the work so far.
func (f *fleet) starts() []start {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.started)
}

// ran waits until the work has been called n times, and has ended.
func (f *fleet) ran(n int) {
	f.t.Helper()
	suite.Eventually(f.t, fmt.Sprintf("%d starts", n), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.started) >= n && len(f.working) == 0
	})
	require.Len(f.t, f.starts(), n)
}

// expect checks who ran what: "label tick", and the attempt if it is not the first.
func (f *fleet) expect(want ...string) {
	f.t.Helper()
	f.ran(len(want))
	var got []string
	for _, s := range f.starts() {
		text := fmt.Sprintf("%s %d", s.by, int(s.tick.Sub(tick(0))/time.Minute))
		if s.attempt != 1 {
			text += fmt.Sprintf(" attempt %d", s.attempt)
		}
		if s.missed != 0 {
			text += fmt.Sprintf(" missed %d", s.missed)
		}
		got = append(got, text)
	}
	require.Equal(f.t, want, got)
}

// minutes has time pass.
func (f *fleet) minutes(n float64) { f.time.Advance(time.Duration(n * float64(time.Minute))) }

// stop ends Run, and waits for that.
func (p *process) stop() {
	p.cancel()
	suite.Await(p.fleet.t, p.done, "Run of "+p.label+" to return")
}

func (p *process) notice(e job.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// saw waits until the process was told of n events of a kind, and returns them.
func (p *process) saw(kind job.EventKind, n int) []job.Event {
	p.fleet.t.Helper()
	var found []job.Event
	suite.Eventually(p.fleet.t, fmt.Sprintf("%v, %d times, by %s", kind, n, p.label), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		found = nil
		for _, e := range p.events {
			if e.Kind == kind {
				found = append(found, e)
			}
		}
		return len(found) >= n
	})
	return found
}

// last is the latest event of a kind.
func (p *process) last(kind job.EventKind) job.Event {
	p.fleet.t.Helper()
	all := p.saw(kind, 1)
	return all[len(all)-1]
}

// holds waits until the process holds the job for the nth time, and looks for ticks.
func (p *process) holds(n int) *process {
	p.fleet.t.Helper()
	p.saw(job.Holding, n)
	suite.Eventually(p.fleet.t, "the state to be recorded", func() bool { return p.state().Schedule != "" })
	return p
}

// waits waits until the line of the job has n entries.
func (p *process) waits(n int) *process {
	p.fleet.t.Helper()
	suite.Queued(p.fleet.t, p.client, name, n)
	return p
}

func (p *process) state() job.State {
	p.fleet.t.Helper()
	s, err := p.job.State(suite.Within(p.fleet.t))
	require.NoError(p.fleet.t, err)
	return s
}

// expire ends the session of the process as the service does when its TTL has passed,
// but before it has: the process hears of it right after others can hold the lock.
func (p *process) expire() {
	p.fleet.t.Helper()
	p.fleet.leave(p)
	p.fleet.w.Server.Expire(p.fleet.t, p.client.SessionID())
}
