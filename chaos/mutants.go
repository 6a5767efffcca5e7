//go:build linux

package main

import (
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/chaos/internal/mutant"
	"github.com/lockctl/lockctl/chaos/internal/worker"
)

// A trial is what shows that a mutation is found: the faults that bring it out, for how
// long there are any, and the sessions' TTL if it matters.
type trial struct {
	mutation string
	found    []string // the checks that must find it: one of them; for none, nothing must be found
	faults   []string
	duration time.Duration
	ttl      time.Duration
}

// trials are one for each mutation, and one for the engine without any, which has all
// of their faults. Some are wrong in fair weather: waits that are given up are enough.
func trials() []trial {
	const little, more = 8 * time.Second, 30 * time.Second
	return []trial{
		{mutation: mutant.None, faults: []string{"slow-client", history.ExpireSession, "late-replies"}, duration: more},
		{mutation: mutant.NoRecheck, found: []string{"exclusion"}, faults: []string{"slow-clients"}, duration: little},
		{mutation: mutant.UnlockByName, found: []string{"exclusion"}, faults: []string{"slow-clients"}, duration: little},
		{mutation: mutant.LeftBehind, found: []string{"liveness"}, faults: []string{"slow-clients"}, duration: little},
		{mutation: mutant.NoSessionCheck, found: []string{"exclusion"}, faults: []string{history.ExpireSession}, duration: more},
		{mutation: mutant.MissingWatch, found: []string{"liveness"}, faults: []string{"slow-client"}, duration: little},
		{mutation: mutant.KeyTwice, found: []string{"exclusion", "liveness"}, faults: []string{"slow-client"}, duration: more},
		{mutation: mutant.LateDeadline, found: []string{"exclusion"}, faults: []string{"late-replies"}, duration: more, ttl: 6 * time.Second},
	}
}

// options are those of the trial's run.
func (t trial) options(o Options) Options {
	o.Mutant, o.Faults, o.Duration = t.mutation, t.faults, t.duration
	if t.ttl > 0 {
		o.TTL = t.ttl
	}
	o.Loops = []worker.Loop{{Kind: history.Mutex, Name: "hot"}, {Kind: history.Mutex, Name: "cool"}}
	return o
}
