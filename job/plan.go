package job

import (
	"errors"
	"strings"
	"time"
)

// A plan decides what is to be done, from what is stored and the time alone. It
// sends nothing and waits for nothing.
type plan struct {
	schedule    schedule
	delivery    Delivery
	missed      Missed
	maxMissed   int
	maxAttempts int
	grace       time.Duration
	pause       time.Duration
}

// A step is what is to be done next: wait, or else write something, and then
// perhaps run.
type step struct {
	wait   time.Time // with nothing to write: until when, zero for ever
	write  *record
	events []Event  // to tell once it is written
	run    *Attempt // to run once it is written
}

// maxDue bounds how many ticks that are due are counted.
const maxDue = 1000

// step decides. self is the attempt's part that says who would run it.
func (p *plan) step(r record, now time.Time, self Attempt) step {
	switch {
	case r.Current != nil:
		return p.resume(r, now, self)
	case r.Schedule != p.schedule.text:
		// The ticks of the new schedule begin now. Those of the old one, and the past of
		// the new one, are nobody's.
		r.Schedule, r.Settled = p.schedule.text, later(r.Settled, now)
		return step{write: &r}
	}
	return p.due(r, now, self)
}

// resume decides about a tick that has begun.
func (p *plan) resume(r record, now time.Time, self Attempt) step {
	c := *r.Current
	next := c.Attempt + 1
	again := p.again(c) && c.Tick.After(r.Settled) // which one that may run once only is not
	switch {
	case c.Outcome == Running: // and nobody runs it, or this would not be asked
		c.Outcome, c.Error = Abandoned, "its process died or lost the lock"
		r.Last = &c
		s := step{events: []Event{{Kind: Ended, Attempt: c, Again: again}}}
		if again {
			return p.begin(s, r, c.Tick, next, c.Missed, now, self)
		}
		r = r.settle(c)
		s.write = &r
		return s
	case !again: // it was to be run again by other options
		r = r.settle(c)
		return step{write: &r}
	}
	if due := c.Ended.Add(p.pause); !c.Ended.After(now) && due.After(now) {
		return step{wait: due}
	}
	return p.begin(step{}, r, c.Tick, next, c.Missed, now, self)
}

// due decides about the ticks that have come since.
func (p *plan) due(r record, now time.Time, self Attempt) step {
	ticks := p.schedule.recent(r.Settled, now, maxDue)
	if len(ticks) == 0 {
		return step{wait: p.schedule.next(r.Settled)}
	}
	last := len(ticks) - 1
	switch p.missed {
	case RunEach:
		dropped := max(0, len(ticks)-p.maxMissed)
		return p.begin(p.skip(&r, ticks[:dropped]), r, ticks[dropped], 1, 0, now, self)
	case RunOnce:
		return p.begin(step{}, r, ticks[last], 1, last, now, self)
	}
	meanwhile := r.Last != nil && !ticks[last].After(r.Last.Ended) // it came while another ran
	if meanwhile || now.Sub(ticks[last]) > p.grace {
		s := p.skip(&r, ticks)
		s.write = &r
		return s
	}
	return p.begin(p.skip(&r, ticks[:last]), r, ticks[last], 1, 0, now, self)
}

// skip settles ticks that are not run.
func (p *plan) skip(r *record, ticks []time.Time) step {
	if len(ticks) == 0 {
		return step{}
	}
	r.Settled = ticks[len(ticks)-1]
	return step{events: []Event{{Kind: Skipped, Skipped: len(ticks), Tick: r.Settled}}}
}

// begin completes a step with the start of an attempt.
func (p *plan) begin(s step, r record, tick time.Time, attempt, missed int, now time.Time, self Attempt) step {
	self.Tick, self.Attempt, self.Missed, self.Started = tick, attempt, missed, now
	r.Current = &self
	if p.delivery == AtMostOnce {
		r.Settled = later(r.Settled, tick)
	}
	s.write, s.run = &r, &self
	return s
}

// again reports whether an attempt that did not complete is followed by another.
func (p *plan) again(a Attempt) bool {
	return p.delivery == AtLeastOnce && a.Attempt < p.maxAttempts
}

// end is the record after an attempt whose work returned err.
func (p *plan) end(r record, a Attempt, err error, now time.Time) (record, Event) {
	a.Ended, a.Outcome = now, Completed
	if err == nil {
		return r.settle(a), Event{Kind: Ended, Attempt: a}
	}
	a.Outcome, a.Error = Failed, clip(err.Error())
	again := p.again(a)
	event := Event{Kind: Ended, Attempt: a, Again: again, Err: err}
	if !again {
		return r.settle(a), event
	}
	r.Current, r.Last = &a, &a
	return r, event
}

// upcoming is the next tick that is not settled.
func (p *plan) upcoming(r record, now time.Time) time.Time {
	if r.Schedule != p.schedule.text {
		return p.schedule.next(now)
	}
	return p.schedule.next(r.Settled)
}

// clip is a text as far as it is stored.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}

// errUnfinished is the outcome of work that did not return.
var errUnfinished = errors.New("the work panicked, or ended its goroutine")
