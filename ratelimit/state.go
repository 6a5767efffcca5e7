package ratelimit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// A State is what is known of a limiter.
type State struct {
	// Config is what it allows. Set is false, and all else zero, if nothing is stored.
	Config Config
	Set    bool
	// Own says that a key's configuration was set for that key alone.
	Own bool
	// Level is how many tokens there are to take, as of the last write.
	Level int64
	// Processes are those that have tokens, or had some a short time ago, by who they are.
	Processes []Process
	// Admitted and Denied count tokens since the limiter was made; what processes have
	// decided since they last wrote is not in it.
	Admitted, Denied int64
	// Version is that of the register, which changes with each write. At is when that was,
	// by the clock of who wrote.
	Version uint64
	At      time.Time
}

// A Process is one that takes tokens. What it says of itself was written by another process:
// treat it as untrusted text.
type Process struct {
	ID  string // names it among the limiter's processes
	Who string // its owner
	// Out is how many tokens it has taken and may not have spent.
	Out int64
	// Demand is how many it would spend in a second.
	Demand int64
	// Degraded says that it had made decisions without the store before it wrote last.
	Degraded bool
}

// Out is how many tokens processes have taken and may not have spent.
func (s State) Out() int64 {
	var n int64
	for _, p := range s.Processes {
		n += p.Out
	}
	return n
}

// Degraded reports whether a process had made decisions without the store.
func (s State) Degraded() bool {
	return slices.ContainsFunc(s.Processes, func(p Process) bool { return p.Degraded })
}

// KeyName is the name of the limiter that a key of the limiter called name is.
func KeyName(name, key string) string { return registerName(name, key) }

// Look asks for what is known of the limiter called name. It is one read. It returns
// ErrUnavailable, ErrDenied, ErrClosed, ErrInvalid for the name, ErrConflict if what is
// stored is not a limiter's, or the context's error.
func Look(ctx context.Context, c *recipes.Client, name string) (State, error) {
	r, err := register(c, name)
	if err != nil {
		return State{}, err
	}
	v, err := r.Get(ctx)
	if err != nil {
		return State{}, fmt.Errorf("limiter %q: %w", name, err)
	}
	return newState(&v.Value, recipes.Written{Version: v.Version, By: v.By, At: v.At}), nil
}

// StateOf is what is known of a limiter, as recipes.Client shows it in its lists and
// watches. It returns ErrConflict if what is stored is not a limiter's.
func StateOf(o recipes.Object) (State, error) {
	stored, ok := o.State.(recipes.LimiterState)
	if !ok {
		return State{}, nil
	}
	var s record
	if err := json.Unmarshal(stored.Record, &s); err != nil || s.Rate.problem() != "" {
		return State{}, fmt.Errorf("limiter %q: %w: what is stored can't be read", o.Name, recipes.ErrConflict)
	}
	return newState(&s, stored.Written), nil
}

func newState(r *record, w recipes.Written) State {
	if w.Version == 0 {
		return State{}
	}
	s := State{
		Config: r.Config, Set: true, Own: r.Own, Level: r.free(), Admitted: r.Admitted, Denied: r.Denied, Version: w.Version, At: w.At,
	}
	for id, p := range r.Procs {
		s.Processes = append(s.Processes, Process{ID: id, Who: p.Who, Out: p.Out, Demand: p.Demand, Degraded: p.Degraded})
	}
	slices.SortFunc(s.Processes, func(a, b Process) int { return strings.Compare(a.Who+a.ID, b.Who+b.ID) })
	return s
}

// Summary says in a line how a limiter is, for people.
func Summary(o recipes.Object) string {
	s, err := StateOf(o)
	switch {
	case err != nil:
		return "what is stored can't be read"
	case !s.Set:
		return "not set"
	}
	text := s.Config.Rate.String()
	if s.Config.Policy == Bucket {
		text += fmt.Sprintf(" burst %d", s.Config.Burst)
	} else {
		text += " in any window"
	}
	text += fmt.Sprintf(", %d there", s.Level)
	if n := len(s.Processes); n > 0 {
		text += fmt.Sprintf(", %d out at %d", s.Out(), n)
		if n == 1 {
			text += " process"
		} else {
			text += " processes"
		}
	}
	if s.Degraded() {
		text += ", degraded"
	}
	return text
}

// Set stores what the limiter called name allows, whether it is in use or not. Processes
// that use it follow within a second; a key's limiter follows the limiter that it belongs
// to until it is set itself. It returns ErrInvalid for the name or the configuration, and
// otherwise errors as recipes.Register.Update.
func Set(ctx context.Context, c *recipes.Client, name string, config Config) (State, error) {
	config, err := config.complete()
	if err != nil {
		return State{}, fmt.Errorf("limiter %q: %w", name, err)
	}
	r, err := register(c, name)
	if err != nil {
		return State{}, err
	}
	v, err := r.Update(ctx, func(s record) (record, error) {
		if s.Born == "" {
			s = *newRecord(config, rand.Text()[:8])
			s.Lag = 0
		}
		next := s.clone()
		next.configure(config, true)
		return *next, nil
	})
	if err != nil {
		return State{}, fmt.Errorf("limiter %q: set: %w", name, err)
	}
	return newState(&v.Value, recipes.Written{Version: v.Version, By: v.By, At: v.At}), nil
}

// Remove forgets the limiter called name: its configuration, and who has tokens. Processes
// that use it make it anew, with all of its burst. Removing what is not there is no error. It
// returns ErrConflict if what is stored can't be read.
func Remove(ctx context.Context, c *recipes.Client, name string) error {
	r, err := register(c, name)
	if err != nil {
		return err
	}
	for {
		snap, err := r.Snapshot(ctx)
		if err != nil {
			return err
		}
		err = r.Remove(ctx, snap)
		if err == nil || !errors.Is(err, recipes.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
}

// Take is one decision for a process that makes no more than that: it takes n tokens of the
// limiter called name by one commit, or refuses without one. Of the time in which nobody has
// written it knows what Options.Strict says. It returns ErrUnset if nothing is stored, and
// that the store can't be reached as ErrUnavailable.
func Take(ctx context.Context, c *recipes.Client, name string, n int64, opts *Options) (Decision, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	l, err := New(c, name, &o)
	switch {
	case err != nil:
		return Decision{}, err
	case n < 1:
		return Decision{}, invalid("n", fmt.Sprintf("is %d, less than 1", n))
	}
	defer l.stop()
	b := l.base
	one := &call{n: n, done: make(chan struct{})}
	b.calls = []*call{one}
	b.single = true
	for len(b.calls) > 0 {
		if err := b.round(ctx); err != nil {
			return Decision{}, err
		}
	}
	return one.decision, one.err
}
