//go:build linux

package main

import (
	"time"

	"github.com/lockctl/lockctl/chaos/internal/check"
	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/chaos/internal/vault"
)

// exampleOutcome is a run with two holders at a time.
func exampleOutcome() *Outcome {
	at := func(ms int, proc string, what history.What, token uint64) history.Event {
		return history.Event{
			T: time.Duration(ms) * time.Millisecond, Proc: proc, Loop: "mutex/hot/0", Op: 1, What: what,
			Kind: history.Mutex, Name: "hot", Token: token,
		}
	}
	events := []history.Event{
		at(1, "w1.1", history.Called, 0), at(2, "w1.1", history.Granted, 5),
		at(3, "w2.1", history.Called, 0), at(4, "w2.1", history.Granted, 6),
		{T: 5 * time.Millisecond, What: history.Begin, Name: "kill-leader", ID: "member 1"},
		at(6, "w2.1", history.Release, 6), at(7, "w2.1", history.Released, 6),
		{T: 8 * time.Millisecond, What: history.End, Name: "kill-leader"},
		at(9, "w1.1", history.Release, 5), at(10, "w1.1", history.Released, 5),
	}
	return &Outcome{
		Service: "etcd 3.7.3",
		Options: Options{Engine: "etcd", Duration: time.Minute, Seed: 7}, History: events,
		Registers: map[string]vault.Register{"mutex/hot": {Writes: 2}},
		Result: check.Result{
			Violations: check.Run(events, check.Options{Limit: 1}).Violations[:1],
			Counts:     check.Counts{Faults: map[string]int{"kill-leader": 1}},
		},
	}
}
