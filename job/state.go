package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockctl/lockctl/job/internal/clock"
	"github.com/lockctl/lockctl/recipes"
)

// A State is what is known of a job.
type State struct {
	// Schedule is when it ticks, in the form of Options.Cron: "@every 15m0s" or
	// "CRON_TZ=UTC 0 3 * * *". It is "" for a job that no process has held yet, and then
	// all else but Holder and Waiting is zero.
	Schedule string
	// Completed is the latest tick whose work has completed, zero if none has.
	Completed time.Time
	// Last is the attempt that has ended last, nil if none has.
	Last *Attempt
	// Current is the attempt for the tick that has begun and is not done with: it runs,
	// it has failed and will be repeated, or its process died. nil if there is none.
	Current *Attempt
	// Running says that Current runs: its process holds the job's lock.
	Running bool
	// Next is the next tick after Current, or else after those that are done with or
	// skipped. If it is in the past, nobody has got to it: no process is there, or it
	// can't reach the service. It is zero if there is none for five years.
	Next time.Time
	// Holder is who holds the job's lock, and runs its ticks; nil if nobody does.
	Holder *recipes.Entry
	// Waiting is how many processes wait in line to do so.
	Waiting int
}

// Look asks for what is known of the job called name, without knowing its schedule.
// It is two reads, each linearizable, and needs no session. It returns ErrUnavailable,
// ErrDenied, ErrClosed, ErrInvalid for the name, ErrConflict if what is stored is not
// a job's, or the context's error.
func Look(ctx context.Context, c *recipes.Client, name string) (State, error) {
	stored, err := register(c, name)
	if err != nil {
		return State{}, err
	}
	v, err := stored.Get(ctx)
	if err != nil {
		return State{}, fmt.Errorf("job %q: %w", name, err)
	}
	line, err := c.Lock(ctx, name)
	if err != nil {
		return State{}, fmt.Errorf("job %q: %w", name, err)
	}
	return newState(v.Value, line)
}

// StateOf is what is known of a job, as recipes.Client shows it in its lists and
// watches. It returns ErrConflict if what is stored is not a job's.
func StateOf(o recipes.Object) (State, error) {
	var r record
	if stored, ok := o.State.(recipes.JobState); ok {
		if err := json.Unmarshal(stored.Record, &r); err != nil {
			return State{}, fmt.Errorf("job %q: %w: %w", o.Name, recipes.ErrConflict, err)
		}
	}
	return newState(r, o)
}

// newState is what the record and the line of a job tell.
func newState(r record, line recipes.Object) (State, error) {
	s := State{
		Schedule: r.Schedule, Completed: r.Completed, Last: r.Last, Current: r.Current, Waiting: len(line.Waiters()),
	}
	if holders := line.Holders(); len(holders) > 0 {
		s.Holder = &holders[0]
		s.Running = r.Current != nil && r.Current.Outcome == Running && r.Current.Session == s.Holder.Session
	}
	if r.Schedule == "" {
		return s, nil
	}
	schedule, err := readSchedule(r.Schedule)
	if err != nil {
		return s, fmt.Errorf("job %q: %w: its schedule: %w", line.Name, recipes.ErrConflict, err)
	}
	settled := r.Settled
	if r.Current != nil {
		settled = later(settled, r.Current.Tick)
	}
	s.Next = schedule.next(settled)
	return s, nil
}

// Summary says in a line how a job is, for people: what runs, or what ran last, and when
// it ticks next. It has texts of other processes as they wrote them.
func Summary(o recipes.Object) string {
	s, err := StateOf(o)
	if err != nil {
		return "what is stored can't be read"
	}
	var parts []string
	switch c := s.Current; {
	case s.Running:
		parts = append(parts, fmt.Sprintf("runs %s on %s", moment(c.Tick), c.By.Host))
	case c != nil:
		parts = append(parts, fmt.Sprintf("%s is left after attempt %d", moment(c.Tick), c.Attempt))
	case s.Last != nil:
		parts = append(parts, fmt.Sprintf("%s %s", moment(s.Last.Tick), s.Last.Outcome))
	}
	switch {
	case s.Holder == nil:
		parts = append(parts, "nobody runs it")
	case !s.Next.IsZero():
		parts = append(parts, "next "+moment(s.Next))
	}
	return strings.Join(parts, ", ")
}

// moment is a tick for people.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// resetReason is what a holder is told.
const resetReason = "the job was reset"

// Reset forgets what is known of the job called name: it begins anew, with the next
// tick after now. It is the remedy when a clock that was far ahead has recorded a tick
// of the future, and after the service was restored from another one's backup.
//
// Whoever holds the job's lock is asked to let go, as by Client.Ask, and Reset waits
// for that. The outcome of what it runs is not recorded, and a tick of this very
// moment may be run again. Errors are those of Register.Update and Client.Ask. A job
// that nobody has held yet is none.
func Reset(ctx context.Context, c *recipes.Client, name string) error {
	stored, err := register(c, name)
	if err != nil {
		return err
	}
	_, err = stored.Update(ctx, func(r record) (record, error) {
		if r.Schedule == "" {
			return r, errNothing
		}
		return record{Schedule: r.Schedule, Settled: clock.From(ctx).Now().Round(0).UTC(), Write: r.Write + 1}, nil
	})
	switch {
	case errors.Is(err, errNothing):
		return nil
	case err != nil:
		return fmt.Errorf("job %q: reset: %w", name, err)
	}
	if err := c.Ask(ctx, name, resetReason); err != nil {
		return fmt.Errorf("job %q: reset, but its holder has not let go: %w", name, err)
	}
	return nil
}

// errNothing ends an update that has nothing to do.
var errNothing = errors.New("nothing to do")
