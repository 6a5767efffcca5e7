//go:build linux

package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// expires is what it may take to end a session by hand.
const expires = 2 * time.Second

// flight is what the reply to a request may take while nothing is wrong.
const flight = 250 * time.Millisecond

// passBits are the low bits of a token, which count how often the hold was passed on
// inside its process: as package recipes makes them.
const passBits = 12

// wakes is for how long after a pause a former leader of etcd can end sessions that are
// alive; endedByService is what their holders are told.
const (
	wakes          = 2 * time.Second
	endedByService = "the service ended the session"
)

// catchUp is the time that a process gets after a stall to see what happened.
const catchUp = 100 * time.Millisecond

// never is later than everything.
const never = time.Duration(math.MaxInt64)

// An op is one round of a loop with a lock, an item, a counter or anything else.
type op struct {
	key      opKey
	loop     string
	kind     string
	name     string
	n        int
	token    uint64
	id       string   // of an item or a member, what is done, a tick, or the key and the result of a Once
	ids      []string // the members that a group was seen to have
	value    int64    // how an item was released, or what a counter was then
	called   time.Duration
	granted  time.Duration // never if it was not
	failed   time.Duration
	ended    time.Duration // when its process learned that it was lost
	changing time.Duration // a writer that becomes a reader, from then on
	changed  time.Duration
	release  time.Duration
	released time.Duration
	err      string // of the release
	endErr   string // of the loss
}

type opKey struct {
	proc string
	op   int64
}

// String is how workers name what they began, in results and as members.
func (k opKey) String() string { return fmt.Sprintf("%s/%d", k.proc, k.op) }

// span is a time for which a process did not run.
type span struct{ from, to time.Duration }

// A record is a history in order, taken apart.
type record struct {
	events []history.Event
	ops    []*op // that were called, in the order of their grants; those without at the end
	byKey  map[opKey]*op
	down   map[string][]span        // by process, in order
	killed map[string]time.Duration // by process
	woken  []time.Duration
	// By process, in order: when the service was told to end its session, when that was
	// confirmed, and when it had a new one.
	expire, expired, renewed map[string][]time.Duration
	faults                   []span                     // but for those that end a session by hand
	breaking                 map[string][]history.Event // by lock: who was about to break what
	resets                   map[string][]time.Duration // by job: when it was about to be reset
	ttl                      time.Duration
}

func read(events []history.Event, ttl time.Duration) *record {
	r := &record{
		events: slices.Clone(events), byKey: map[opKey]*op{},
		down: map[string][]span{}, killed: map[string]time.Duration{},
		breaking: map[string][]history.Event{}, resets: map[string][]time.Duration{},
		expire: map[string][]time.Duration{}, expired: map[string][]time.Duration{}, renewed: map[string][]time.Duration{},
		ttl: ttl,
	}
	slices.SortStableFunc(r.events, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	begun := map[string]time.Duration{}
	for _, e := range r.events {
		switch e.What {
		case history.Called:
			o := &op{
				key: opKey{e.Proc, e.Op}, loop: e.Loop, kind: e.Kind, name: e.Name, n: e.N, id: e.ID, called: e.T,
				granted: never, failed: never, ended: never, changing: never, changed: never, release: never, released: never,
			}
			r.ops = append(r.ops, o)
			r.byKey[o.key] = o
		case history.Stalled, history.Paused:
			r.down[e.Proc] = append(r.down[e.Proc], span{e.Since, e.T})
		case history.Killed:
			r.killed[e.Proc] = e.T
		case history.Begin:
			if e.Name != history.ExpireSession {
				begun[e.Name] = e.T
			}
		case history.End:
			if from, ok := begun[e.Name]; ok {
				r.faults = append(r.faults, span{from, e.T})
				delete(begun, e.Name)
			}
		case history.Breaking:
			r.breaking[e.Name] = append(r.breaking[e.Name], e)
		case history.Resetting:
			r.resets[e.Name] = append(r.resets[e.Name], e.T)
		case history.Woken:
			r.woken = append(r.woken, e.T)
		case history.Expire:
			r.expire[e.Proc] = append(r.expire[e.Proc], e.T)
		case history.Expired:
			r.expired[e.Proc] = append(r.expired[e.Proc], e.T)
		case history.Session:
			r.renewed[e.Proc] = append(r.renewed[e.Proc], e.T)
		}
	}
	for _, from := range begun {
		r.faults = append(r.faults, span{from, never})
	}
	for _, e := range r.events {
		if o := r.byKey[opKey{e.Proc, e.Op}]; o != nil && e.Op != 0 {
			o.note(e)
		}
	}
	slices.SortStableFunc(r.ops, func(a, b *op) int { return cmp.Compare(a.granted, b.granted) })
	return r
}

func (o *op) note(e history.Event) {
	switch e.What {
	case history.Granted:
		o.granted, o.token, o.id, o.ids, o.n, o.value = e.T, e.Token, e.ID, e.IDs, e.N, e.Value
	case history.Failed:
		o.failed = e.T
	case history.Ended:
		o.ended, o.endErr = e.T, e.Err
	case history.Changed:
		o.changing, o.changed = e.Since, e.T
		if e.Err != "" {
			o.changed = never // perhaps
		}
	case history.Release:
		o.release, o.value = e.T, e.Value
	case history.Released:
		o.released, o.err = e.T, e.Err
	}
}

// until is the end of the time for which the process took itself for the holder, and
// had reason to: what a session has that is ended by hand, and what an operator takes
// away, is lost before its process hears of it.
func (r *record) until(o *op) time.Duration {
	end := o.known()
	if at, ok := r.killed[o.key.proc]; ok {
		end = min(end, at)
	}
	for _, at := range r.expire[o.key.proc] {
		if at >= o.granted {
			end = min(end, at)
		}
	}
	if r.unheard(o) || r.brokenBefore(o) {
		return o.granted
	}
	for _, b := range r.breaking[o.name] {
		if o.isTarget(b) {
			end = min(end, max(b.T, o.granted))
		}
	}
	for _, at := range r.woken {
		if strings.Contains(o.endErr, endedByService) && at <= o.ended && o.ended <= at+wakes {
			end = min(end, max(at, o.granted))
		}
	}
	return end
}

// unheard reports whether the grant was made inside a process whose session had been ended
// by hand, and that could not know it yet: it has until its deadline to learn that, if no
// word of the service gets through. A grant by the service has no such time, but for the
// reply that was on its way when the session ended: who is told now that nothing is ahead
// is told that its own entry is not there either.
func (r *record) unheard(o *op) bool {
	passed := o.token&(1<<passBits-1) != 0
	for _, at := range r.expire[o.key.proc] {
		heard := at + expires + r.ttl
		for _, renewed := range r.renewed[o.key.proc] {
			if renewed > at {
				heard = min(heard, renewed)
			}
		}
		if !passed && r.calm(o.key.proc, at, o.granted) {
			for _, expired := range r.expired[o.key.proc] {
				if expired >= at {
					heard = min(heard, expired+flight)
				}
			}
		}
		if at < o.granted && o.granted < heard {
			return true
		}
	}
	return false
}

// brokenBefore reports whether the grant was on its way to its process when an operator
// removed the entry. It is on its way for a moment, and for no longer than a session can
// last if something else is wrong.
func (r *record) brokenBefore(o *op) bool {
	return slices.ContainsFunc(r.breaking[o.name], func(b history.Event) bool {
		if !o.isTarget(b) || b.T >= o.granted {
			return false
		}
		by := r.byKey[opKey{b.Proc, b.Op}]
		switch {
		case by == nil || by.granted == never: // it may be removed yet
			return true
		case r.calm(o.key.proc, b.T, o.granted):
			return o.granted < by.granted+flight
		}
		return o.granted < by.granted+r.ttl
	})
}

// calm reports whether nothing but the ends of sessions was wrong in a time, and for a TTL
// before it, so that replies came soon.
func (r *record) calm(proc string, from, to time.Duration) bool {
	hits := func(s span) bool { return s.from <= to && s.to >= from-r.ttl }
	return !slices.ContainsFunc(r.faults, hits) && !slices.ContainsFunc(r.down[proc], hits)
}

// ran reports whether a process ran at a time, and had done so for a moment.
func (r *record) ran(proc string, at time.Duration) bool {
	if killed, ok := r.killed[proc]; ok && killed <= at {
		return false
	}
	return !slices.ContainsFunc(r.down[proc], func(s span) bool { return s.from <= at && at <= s.to+catchUp })
}

// lateRecord reports whether the grant was recorded so long after it was made, because
// the process did not run in between, that the hold was over by then.
func (r *record) lateRecord(o *op) bool {
	return r.until(o)-o.granted < catchUp && !r.ran(o.key.proc, o.granted)
}

// outage is when the process first did not run for long enough to lose what it had,
// between the call and the end, or the end if it ran all the time.
func (r *record) outage(o *op, end time.Duration) time.Duration {
	for _, s := range r.down[o.key.proc] {
		if s.to-s.from >= catchUp && s.to >= o.called && s.from <= end {
			return max(s.from, o.called)
		}
	}
	return end
}

// granted are the ops of one kind of object and name that were granted, in order, but for
// those that were not by the service.
func (r *record) grantedOf(name string, kinds ...string) []*op {
	var ops []*op
	for _, o := range r.ops {
		if o.granted != never && o.name == name && slices.Contains(kinds, o.kind) && !r.unheard(o) && !r.brokenBefore(o) {
			ops = append(ops, o)
		}
	}
	return ops
}

// names are the names of all objects of these kinds, sorted.
func (r *record) names(kinds ...string) []string {
	var names []string
	for _, o := range r.ops {
		if slices.Contains(kinds, o.kind) && !slices.Contains(names, o.name) {
			names = append(names, o.name)
		}
	}
	slices.Sort(names)
	return names
}
