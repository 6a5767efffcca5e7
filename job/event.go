package job

import (
	"fmt"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// An EventKind says what an Event tells.
type EventKind int

// The kinds of events, see Options.Notify.
const (
	// Holding: this process holds the job's lock, and runs its ticks from here on. Next
	// is the next one.
	Holding EventKind = iota + 1
	// Started: the work for a tick starts. Each is followed by one Ended or Unrecorded.
	Started
	// Ended: an attempt has ended as Attempt says, and that is recorded. Again says
	// that another follows, Err why it failed. An attempt that was Abandoned was another
	// process's, or this one's before it lost the lock.
	Ended
	// Unrecorded: an attempt of this process has ended, and how could not be recorded,
	// for the reason Err. Attempt.Outcome says what the work returned.
	Unrecorded
	// Skipped: ticks are not run, by Options.Missed. Tick is the latest of them, Skipped
	// how many they are; 1000 means that many or more.
	Skipped
	// Asked: Request asks for the job's lock. The next in line gets it once the tick
	// that runs has ended.
	Asked
	// Lost: the lock, or the place in line, was lost, Err says why. This process waits
	// in line again.
	Lost
	// Unreachable: the service did not answer, Err says how. Run goes on trying, and
	// tells it again only after something else has happened.
	Unreachable
)

// String implements fmt.Stringer.
func (k EventKind) String() string {
	names := [...]string{
		Holding: "holding", Started: "started", Ended: "ended", Unrecorded: "unrecorded",
		Skipped: "skipped", Asked: "asked", Lost: "lost", Unreachable: "unreachable",
	}
	if k < Holding || int(k) >= len(names) {
		return fmt.Sprintf("EventKind(%d)", int(k))
	}
	return names[k]
}

// An Event is something that has happened to a job, as one process saw it.
type Event struct {
	Kind    EventKind
	Attempt Attempt         // of Started, Ended and Unrecorded
	Again   bool            // of Ended
	Token   uint64          // of Holding: the fencing token
	Next    time.Time       // of Holding, zero if there is none for five years
	Tick    time.Time       // of Skipped
	Skipped int             // of Skipped
	Request recipes.Request // of Asked: untrusted text
	Err     error           // of Ended, Unrecorded, Lost and Unreachable
}
