// Package statejson is the JSON form of what is stored of an object, the same for the
// command and for the console. It is part of the contract of docs/json.md: fields are
// added and never removed, renamed or given another type.
package statejson

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// Owner is how a process presents itself.
type Owner struct {
	Program string `json:"program,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	User    string `json:"user,omitempty"`
	Label   string `json:"label,omitempty"`
}

// State is what is stored, for embedding. Which fields there are depends on the kind of
// the object.
type State struct {
	Version string    `json:"version,omitempty"` // of what is stored, a decimal number
	By      *Owner    `json:"by,omitempty"`      // who wrote it last
	At      time.Time `json:"at,omitzero"`       // when

	Limit int                       `json:"limit,omitempty"` // of a semaphore
	Value json.RawMessage           `json:"value,omitempty"` // of a register, a counter, a job or a limiter
	Count int                       `json:"count,omitempty"` // of a latch or a double barrier
	Left  *int                      `json:"left,omitempty"`  // of a latch
	Round *uint64                   `json:"round,omitempty"` // of a double barrier
	Keys  []string                  `json:"keys,omitempty"`  // of a once
	Items []Item                    `json:"items,omitempty"` // of a queue
	Tally map[recipes.ItemState]int `json:"tally,omitempty"` // of a queue's items, by state
}

// Item is an item of a queue, without its value.
type Item struct {
	ID       string            `json:"id"`
	State    recipes.ItemState `json:"state"`
	Priority int               `json:"priority"`
	Attempts int               `json:"attempts"`
	By       Owner             `json:"by"`
	At       time.Time         `json:"at,omitzero"`
	Due      time.Time         `json:"due,omitzero"`
	Worker   *Owner            `json:"worker,omitempty"`
	Dead     string            `json:"dead,omitempty"` // why it is a dead letter
}

// New is the form of a state at that time of day.
func New(state recipes.State, now time.Time) State {
	switch s := state.(type) {
	case recipes.SemaphoreState:
		j := written(s.Written)
		j.Limit = s.Limit
		return j
	case recipes.JobState:
		j := written(s.Written)
		j.Value = s.Record
		return j
	case recipes.LimiterState:
		j := written(s.Written)
		j.Value = s.Record
		return j
	case recipes.RegisterState:
		j := written(s.Written)
		j.Value = s.Value
		return j
	case recipes.LatchState:
		j := written(s.Written)
		j.Count, j.Left = s.Count, &s.Left
		return j
	case recipes.BarrierState:
		return written(s.Written)
	case recipes.DoubleBarrierState:
		j := written(s.Written)
		j.Count, j.Round = s.Count, &s.Round
		return j
	case recipes.OnceState:
		j := written(s.Written)
		j.Keys = s.Keys
		return j
	case recipes.QueueState:
		j := State{Tally: s.Count(now)}
		for _, item := range s.Items {
			j.Items = append(j.Items, NewItem(item, now))
		}
		return j
	}
	return State{}
}

// Time is a time that another process wrote, in UTC. It is the zero time if it has no
// form in JSON then: "9999-12-31T23:59:59-01:00" is in the year 10000.
func Time(t time.Time) time.Time {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

func written(w recipes.Written) State {
	by := Owner(w.By)
	return State{Version: strconv.FormatUint(w.Version, 10), By: &by, At: Time(w.At)}
}

// NewItem is the form of an item at that time of day.
func NewItem(item *recipes.ItemInfo, now time.Time) Item {
	out := Item{
		ID: item.ID, State: item.State(now), Priority: item.Priority, Attempts: item.Attempts,
		By: Owner(item.By), At: Time(item.At), Due: Time(item.Due), Dead: item.Dead,
	}
	if item.Worker != nil {
		worker := Owner(*item.Worker)
		out.Worker = &worker
	}
	return out
}

// Word is the state of an object in a word: "held" or "free" for a lock, "open" or
// "closed" for a latch, "set" for a barrier, "present" for others, and "gone" for what
// there is nothing of.
func Word(o recipes.Object) string {
	switch s := o.State.(type) {
	case recipes.LatchState:
		if s.Left == 0 {
			return "open"
		}
		return "closed"
	case recipes.BarrierState:
		return "set"
	}
	lock := o.Kind.Family() == recipes.KindLock
	switch {
	case lock && len(o.Entries) == 0:
		return "free"
	case lock:
		return "held"
	case o.Gone():
		return "gone"
	}
	return "present"
}
