//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/recipes"
)

// TickEvery is the time between two ticks of the jobs of a run: the shortest that there is.
const TickEvery = time.Second

// jobOptions are those of the jobs of a run, which each worker runs in turn.
var jobOptions = job.Options{Every: TickEvery, Rotate: true}

// tick is a round with a job, which ends with the first tick that this worker runs.
func (l *loop) tick(ctx context.Context, j *job.Job) {
	e, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Job, Name: j.Name()})
	defer cancel()
	ran := false
	err := j.Run(waiting, func(held context.Context, run *job.Run) error {
		ran = true
		e.Token, e.ID = run.Token, run.Tick.Format(time.RFC3339)
		defer l.granted(held, e)()
		l.fencedWrite(held, e)
		e.What = history.Release
		l.log.Add(e)
		cancel()
		return nil
	})
	if !errors.Is(err, context.Cause(waiting)) { // it says that it returns what trying again can't help
		l.log.Add(history.Event{What: history.Wrong, Name: "ticks", Err: fmt.Sprintf("%s left job %q by itself: %v", l.config.Proc, j.Name(), err)})
	}
	if !ran {
		l.failed(ctx, e, err)
		return
	}
	if e.What = history.Released; errors.Is(err, recipes.ErrUnavailable) || errors.Is(err, recipes.ErrLost) {
		e.Err = err.Error()
	}
	l.log.Add(e)
}

// oversee resets a job that has a tick of the future, as an operator would: someone whose
// clock was wrong has run it. Who has a wrong clock leaves it alone.
func (p *process) oversee(ctx context.Context, name string) {
	ticker := time.NewTicker(TickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p.resetIfAhead(ctx, name)
	}
}

const (
	clockError   = 100 * time.Millisecond // of clocks that are right
	resetTimeout = takeTimeout
)

func (p *process) resetIfAhead(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	s, err := job.Look(ctx, p.client, name)
	now := history.Wall()
	if err != nil || time.Since(now).Abs() > clockError || s.Next.Before(now.Add(2*TickEvery)) {
		return
	}
	e := history.Event{What: history.Resetting, Kind: history.Job, Name: name, ID: s.Next.Format(time.RFC3339)}
	p.log.Add(e)
	if err := job.Reset(ctx, p.client, name); err != nil {
		p.log.Add(history.Event{What: history.Note, Name: p.config.Proc + ": " + err.Error()})
	}
}
