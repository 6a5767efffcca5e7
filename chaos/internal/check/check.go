//go:build linux

package check

import (
	"fmt"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// A Violation is something that must not happen, and did.
type Violation struct {
	Check string // which check found it
	At    time.Duration
	Text  string
}

// Counts are what a run did.
type Counts struct {
	Operations int            // rounds that were begun
	Grants     map[string]int // by kind
	Failures   map[string]int // rounds that ended without a grant, by kind
	Lost       int            // holds that were lost
	Broken     int            // holds and places in line that operators took away, by what was told to who had them
	Killed     int            // holds and waits of processes that were killed
	Unaware    int            // holds that another followed while their process did not run, and so could not know
	Refused    int            // accesses that the fence refused
	Items      int            // that were put
	Late       int            // releases that were not confirmed, or came after a loss
	Renewed    int            // members of the service that had lost data, and got that of the others
	Stalls     int            // for which a process was not given the processor
	LongStall  time.Duration  // the longest of them
	Faults     map[string]int // by kind
	Waits      []time.Duration
	LongWait   time.Duration // the longest until all were served after faults were over
	Checked    int           // operations that went through the models
}

// A Result is what became of a check.
type Result struct {
	Violations []Violation
	Counts     Counts
}

// Options say what is expected of a run.
type Options struct {
	Limit    int           // of semaphores
	Crew     int           // of members of a double barrier's round
	TTL      time.Duration // of sessions
	Rate     float64       // of limiters, in tokens a second
	Burst    float64       // of limiters, with their slack
	Activity int           // grants of each kind before the first fault
	// StaleReads says that reads may tell of the past while members are cut off: a leader of
	// ZooKeeper that has not noticed yet that it is alone confirms to its clients that it is
	// up to date.
	StaleReads bool
	// Patience is for how long a model may search. Defaults to a minute for each.
	Patience time.Duration
}

// Run checks a history.
func Run(events []history.Event, o Options) Result {
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	c := &checker{record: read(events, o.TTL), opts: o, unaware: map[*op]bool{}, told: map[*op]bool{}}
	c.count()
	c.activity()
	c.exclusion()
	c.tokens()
	c.fence()
	c.expiries()
	c.terms()
	c.items()
	c.limits()
	c.counters()
	c.onces()
	c.groups()
	c.rounds()
	c.barriers()
	c.latches()
	c.ticks()
	c.asked()
	c.seized()
	c.own()
	c.models()
	c.counts.Unaware = len(c.unaware)
	return Result{Violations: c.violations, Counts: c.counts}
}

// A checker is a check that runs.
type checker struct {
	*record
	opts       Options
	violations []Violation
	counts     Counts
	unaware    map[*op]bool
	told       map[*op]bool // a violation of exclusion was found
}

func (c *checker) found(check string, at time.Duration, format string, args ...any) {
	c.violations = append(c.violations, Violation{Check: check, At: at, Text: fmt.Sprintf(format, args...)})
}

func (o *op) String() string {
	return fmt.Sprintf("%s %q of %s op %d (token %d)", o.kind, o.name, o.key.proc, o.key.op, o.token)
}

func (c *checker) count() {
	c.counts.Grants, c.counts.Failures, c.counts.Faults = map[string]int{}, map[string]int{}, map[string]int{}
	for _, o := range c.ops {
		c.counts.Operations++
		switch {
		case o.granted != never:
			c.counts.Grants[o.kind]++
		case o.failed != never:
			c.counts.Failures[o.kind]++
		default:
			c.counts.Killed++
		}
		if o.ended != never {
			c.counts.Lost++
		}
		if o.err != "" {
			c.counts.Late++
		}
	}
	for _, e := range c.events {
		switch e.What {
		case history.Begin:
			c.counts.Faults[e.Name]++
		case history.Stalled:
			c.counts.Stalls++
			c.counts.LongStall = max(c.counts.LongStall, e.T-e.Since)
		case history.Renewed:
			c.counts.Renewed++
		case history.Put:
			c.counts.Items++
		case history.Served:
			c.counts.Waits = append(c.counts.Waits, e.T-e.Since)
			c.counts.LongWait = max(c.counts.LongWait, e.T-e.Since)
		}
	}
}

// activity: a run in which too little happened before the first fault proves nothing.
func (c *checker) activity() {
	grants := map[string]int{}
	for _, o := range c.ops {
		grants[o.kind] += 0
	}
	for _, e := range c.events {
		if e.What == history.Begin {
			break
		}
		if e.What == history.Granted {
			grants[e.Kind]++
		}
	}
	for kind, n := range grants {
		if n < c.opts.Activity {
			c.found("activity", 0, "only %d grants of kind %s before the first fault, not %d", n, kind, c.opts.Activity)
		}
	}
	if len(grants) == 0 {
		c.found("activity", 0, "nothing was asked for")
	}
}

// own: what workers and the harness say themselves.
func (c *checker) own() {
	for _, e := range c.events {
		switch {
		case e.What == history.Wrong:
			c.found(e.Name, e.T, "%s", e.Err)
		case e.What == history.Stopped && e.Err != "":
			c.found("close", e.T, "%s did not close in order: %s", e.Proc, e.Err)
		case e.What == history.Stopped && len(e.Left) > 0:
			c.found("goroutines", e.T, "%s left %v", e.Proc, e.Left)
		case tellsOfBreak(e.Err) && c.wasBroken(e):
			if e.What != history.Released { // it has been counted
				c.counts.Broken++
			}
		case tellsOfBreak(e.Err):
			c.found("broken", e.T, "%s %q of %s op %d: %s", e.Kind, e.Name, e.Proc, e.Op, e.Err)
		}
	}
}
