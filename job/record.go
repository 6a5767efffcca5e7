package job

import (
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// record is what is stored of a job, in one register.
type record struct {
	// Schedule is the text of the schedule that the rest is about.
	Schedule string `json:"schedule"`
	// Settled is a moment up to which no tick is run any more: each was run, or is not
	// going to be. It never goes back.
	Settled time.Time `json:"settled"`
	// Completed is the latest tick whose work has returned nil.
	Completed time.Time `json:"completed,omitzero"`
	// Current is the tick that has begun and needs an end: it runs, it is to be run
	// again, or its process has died. nil otherwise.
	Current *Attempt `json:"current,omitempty"`
	// Last is the attempt that ended last.
	Last *Attempt `json:"last,omitempty"`

	// Token is the fencing token of who wrote this. Write counts the writes, so that a
	// writer whose reply was lost recognises its own.
	Token uint64 `json:"token,string"`
	Write uint64 `json:"write"`
}

// An Outcome says how an attempt has ended.
type Outcome string

// The outcomes of an Attempt.
const (
	// Running: it has not ended, or nobody has said how.
	Running Outcome = ""
	// Completed: the work returned nil.
	Completed Outcome = "completed"
	// Failed: the work returned an error, or panicked.
	Failed Outcome = "failed"
	// Abandoned: its process died, or lost the job's lock, before it had recorded how
	// the work ended. Some of the work, or all of it, may have been done.
	Abandoned Outcome = "abandoned"
)

// An Attempt is one start of the work for a tick, as it is stored. What it says of
// its process was written by that process: treat it as untrusted text.
type Attempt struct {
	Tick    time.Time `json:"tick"`
	Attempt int       `json:"attempt"`          // counts from 1
	Missed  int       `json:"missed,omitempty"` // see Run.Missed
	// Token is the fencing token of the hold that it ran under, and Session the session
	// of that.
	Token   uint64        `json:"token,string"`
	Session string        `json:"session"`
	By      recipes.Owner `json:"by"`
	// Started is by the clock of its process, and Ended is so much later as the work took,
	// whatever that clock was set to meanwhile. Ended is zero while it runs, and after it
	// was abandoned.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome Outcome   `json:"outcome,omitempty"`
	// Error is the first 256 bytes of why it failed.
	Error string `json:"error,omitempty"`
}

// same reports whether two are one attempt, whatever is known of its end.
func (a *Attempt) same(b *Attempt) bool {
	return a != nil && b != nil && a.Token == b.Token && a.Attempt == b.Attempt && a.Tick.Equal(b.Tick)
}

// settle ends the tick of an attempt for good.
func (r record) settle(a Attempt) record {
	r.Current, r.Last = nil, &a
	r.Settled = later(r.Settled, a.Tick)
	if a.Outcome == Completed {
		r.Completed = later(r.Completed, a.Tick)
	}
	return r
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
