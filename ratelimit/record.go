package ratelimit

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	slotsPerWindow = 16
	// mostProcs is how many processes can have tokens out at once. Others get what they
	// need and no more, and it counts as spent when they take it.
	mostProcs = 1000
)

// record is what is stored of a limiter, in one register.
type record struct {
	Config
	// Own says that the configuration was set for this key, and is not that of the
	// limiter that the key belongs to.
	Own bool `json:"own,omitempty"`
	// Born names the value among all that the register has had, as it can be removed.
	Born string `json:"born"`
	// T is the logical time, Base counts how often it was begun anew, and Lag is a bound on
	// how far T can be behind: see clock.
	T    int64  `json:"t"`
	Base uint64 `json:"base,omitempty"`
	Lag  int64  `json:"lag,omitempty"`
	// Level is how many tokens there are to take, and Part what is left over of the time up
	// to T, in units of 1/Rate.Per of a token. Of a Window they are 0.
	Level int64 `json:"level,omitempty"`
	Part  int64 `json:"part,omitempty"`
	// Slots are how many tokens were spent in each sixteenth of a Window.
	Slots []slot `json:"slots,omitempty"`
	// Procs are the processes that have taken tokens.
	Procs map[string]proc `json:"procs,omitempty"`
	// Marks are the latest writes that decided calls, of one for each process, the latest last.
	Marks []mark `json:"marks,omitempty"`
	// Admitted and Denied count tokens, since the register was made.
	Admitted int64 `json:"admitted,omitempty"`
	Denied   int64 `json:"denied,omitempty"`
}

type slot struct {
	At    int64 `json:"at"` // T divided by the length of a slot
	Spent int64 `json:"spent"`
}

// mark names a write of a process, so that one whose reply was lost recognises it.
type mark struct {
	ID  string `json:"id"`
	Seq uint64 `json:"seq"`
}

// mostMarks is by how many other processes a write may be followed that is recognised still.
const mostMarks = 16

// proc is what is known of a process that takes tokens.
type proc struct {
	Who string `json:"who,omitempty"` // for people
	// Out is how many tokens it has taken and may not have spent, up to Until.
	Out   int64 `json:"out"`
	Until int64 `json:"until"`
	// At is when it has taken tokens last.
	At int64 `json:"at"`
	// Demand is how many it would spend in a second, and Need how many it needs at once.
	Demand int64 `json:"demand"`
	Need   int64 `json:"need,omitempty"`
	// Seq counts what it has written, and Grant is what it has taken with that, so that a
	// writer whose reply was lost recognises its own.
	Seq   uint64 `json:"seq"`
	Grant int64  `json:"grant,omitempty"`
	// T, Base and Lag are those of the version that it has written last.
	T    int64  `json:"t"`
	Base uint64 `json:"base,omitempty"`
	Lag  int64  `json:"lag,omitempty"`
	// Degraded says that the process has just made decisions without the store.
	Degraded bool `json:"degraded,omitempty"`
}

func newRecord(c Config, born string) *record {
	s := &record{Config: c, Born: born, Lag: unknown}
	if c.Policy == Bucket {
		s.Level = c.Burst
	}
	return s
}

func (s *record) clone() *record {
	c := *s
	c.Procs = maps.Clone(s.Procs)
	c.Slots = slices.Clone(s.Slots)
	c.Marks = slices.Clone(s.Marks)
	return &c
}

// out is how many tokens processes have taken and may not have spent.
func (s *record) out() int64 {
	var n int64
	for _, p := range s.Procs {
		n += p.Out
	}
	return n
}

// free is how many tokens there are to take.
func (s *record) free() int64 {
	if s.Policy == Bucket {
		return s.Level
	}
	n := s.capacity() - s.out()
	for _, slot := range s.Slots {
		n -= slot.Spent
	}
	return max(n, 0)
}

// advance moves logical time on, mints what comes in the meantime, and forgets what has
// left the window.
func (s *record) advance(to int64) {
	if to <= s.T {
		return
	}
	if s.Policy == Bucket {
		n, part := s.Rate.minted(to-s.T, s.Part)
		room := max(min(s.capacity()-s.Level-s.out(), s.Burst-s.Level), 0)
		if n >= room { // what comes while it is full is lost, the fraction too
			n, part = room, 0
		}
		s.Level, s.Part = s.Level+n, part
	}
	s.T = to
	if s.Policy == Window {
		length := s.slotLength()
		s.Slots = slices.DeleteFunc(s.Slots, func(slot slot) bool { return (slot.At+1)*length <= to-int64(s.Rate.Per) })
	}
}

func (s *record) slotLength() int64 { return max(int64(s.Rate.Per)/slotsPerWindow, 1) }

// spend counts tokens off that are in no process's Out any more, at the present T, which
// is behind by the lag at most. If what may still be caught up with could be too much, it
// begins logical time anew.
func (s *record) spend(n, lag int64) {
	if n <= 0 {
		return
	}
	if s.Lag == 0 {
		lag = 0 // it was begun anew
	}
	if s.Policy == Window {
		if lag == unknown {
			s.rebase()
			lag = 0
		}
		s.spendInWindow(n, s.T+lag)
		return
	}
	behind := int64(math.MaxInt64)
	if lag != unknown {
		behind, _ = s.Rate.minted(lag, int64(s.Rate.Per)-1) // rounded up
	}
	if there := s.Level + s.out() + n; lag != 0 && behind > s.capacity()-there {
		s.rebase()
	}
}

// rebase begins logical time anew.
func (s *record) rebase() { s.Base, s.Lag = s.Base+1, 0 }

// spendInWindow counts tokens off in the slot of a moment in logical time.
func (s *record) spendInWindow(n, moment int64) {
	at := moment / s.slotLength()
	for i := range s.Slots {
		if s.Slots[i].At >= at {
			s.Slots[i].Spent += n
			return
		}
	}
	s.Slots = append(s.Slots, slot{at, n})
}

// configure changes what the limiter allows. What is out stays out.
func (s *record) configure(c Config, own bool) {
	if c.Policy != s.Policy {
		s.Level, s.Part, s.Slots = 0, 0, nil
		if c.Policy == Window { // what came before counts as if all had been spent
			s.Slots = []slot{{s.T / max(int64(c.Rate.Per)/slotsPerWindow, 1), max(c.Rate.Tokens-s.out(), 0)}}
		}
	} else if c.Policy == Window && c.Rate.Per != s.Rate.Per {
		var spent int64
		for _, slot := range s.Slots {
			spent += slot.Spent
		}
		s.Slots = []slot{{s.T / max(int64(c.Rate.Per)/slotsPerWindow, 1), spent}}
	}
	if c.Rate != s.Rate {
		s.Part = 0
	}
	s.Config, s.Own = c, own
	if c.Policy == Bucket {
		s.Level = min(s.Level, c.Burst)
	}
}

// whole reports whether the record says no more than its configuration does: all tokens
// are there.
func (s *record) whole() bool {
	return len(s.Procs) == 0 && s.free() >= s.Limit()
}

// A take is a process's asking for tokens, and its report of what became of earlier
// ones.
type take struct {
	id, who  string
	seq      uint64
	unspent  int64 // of what it has taken, what it keeps
	back     int64 // and what it gives back
	spentAt  int64 // when it has spent last, by its own clock
	need     int64 // for the call that is first in line
	demand   int64 // a second
	lead     time.Duration
	admitted int64 // not through Out: decided by this take, or without the store
	denied   int64
	only     bool    // it takes no more than it needs
	exact    bool    // it decides the calls, and what they take is spent by the commit
	calls    []int64 // the tokens of each
	leave    bool    // it gives all back, and goes
	degraded bool
}

// A grant is what a take has come to.
type grant struct {
	tokens int64
	want   int64         // what it would have been if there had been more
	share  float64       // tokens a second that are the process's part
	lost   bool          // what was unspent is void
	yield  bool          // another may need what was unspent to have all that it needs: it is to go back
	wait   time.Duration // until there may be more, if it is less than needed or wanted
	calls  []bool        // which are admitted
}

// apply carries out a take that is computed at that moment.
func (s *record) apply(t take, c *clock, moment int64) grant {
	to := c.at(moment, s)
	s.Lag = c.lag()
	if s.Procs == nil {
		s.Procs = map[string]proc{}
	}
	s.expire(to, c.lag())
	own, alive := s.Procs[t.id]
	lost := !alive && t.unspent+t.back > 0
	if !alive {
		t.unspent, t.back = 0, 0
	} else {
		s.advance(min(max(t.spentAt-c.off, s.T), to))
		spent := max(own.Out-t.unspent-t.back, 0)
		own.Out = t.unspent
		s.Procs[t.id] = own
		s.giveBack(t.back)
		s.spend(spent, c.lag())
		s.Admitted += spent
	}
	s.advance(to)
	s.Admitted += t.admitted
	s.Denied += t.denied
	var g grant
	switch {
	case t.leave:
		s.giveBack(t.unspent)
		delete(s.Procs, t.id)
	case t.exact:
		g = s.grantCalls(t.calls, c.lag())
		s.mark(t)
	default:
		g = s.grantShare(t)
	}
	g.lost = lost
	if own, alive := s.Procs[t.id]; alive {
		own.T, own.Base, own.Lag = s.T, s.Base, s.Lag
		s.Procs[t.id] = own
	}
	return g
}

// mark notes that a take has decided calls.
func (s *record) mark(t take) {
	s.Marks = slices.DeleteFunc(s.Marks, func(m mark) bool { return m.ID == t.id })
	s.Marks = append(s.Marks, mark{t.id, t.seq})
	s.Marks = s.Marks[max(len(s.Marks)-mostMarks, 0):]
}

// has reports whether the record was made from one that the take was carried out on.
func (s *record) has(t take) bool {
	if t.exact {
		return slices.Contains(s.Marks, mark{t.id, t.seq})
	}
	return s.Procs[t.id].Seq == t.seq
}

// expire drops what is void, in the order in which it became so.
func (s *record) expire(to, lag int64) {
	var void []string
	for id, p := range s.Procs {
		if p.Until <= to {
			void = append(void, id)
		}
	}
	slices.SortFunc(void, func(a, b string) int { return int(min(max(s.Procs[a].Until-s.Procs[b].Until, -1), 1)) })
	for _, id := range void {
		p := s.Procs[id]
		s.advance(max(p.Until, s.T))
		delete(s.Procs, id)
		s.spend(p.Out, lag) // they may have been
		s.Admitted += p.Out
	}
}

// giveBack puts back what a process had taken and has not spent, and has no more.
func (s *record) giveBack(n int64) {
	if s.Policy == Bucket {
		s.Level = min(s.Level+n, s.Burst)
	}
}

// grantCalls decides calls in their order: each has all that it needs, or nothing.
func (s *record) grantCalls(calls []int64, lag int64) grant {
	g := grant{share: s.Rate.perSecond(), calls: make([]bool, len(calls))}
	for i, n := range calls {
		if s.free() < n {
			s.Denied += n
			continue
		}
		g.calls[i] = true
		s.take(n)
		s.spend(n, lag)
		s.Admitted += n
	}
	return g
}

// take takes tokens that are there.
func (s *record) take(n int64) {
	if s.Policy == Bucket {
		s.Level -= n
	}
}

// comes is how long it takes until there are n tokens to take, if nobody takes any.
func (s *record) comes(n int64) time.Duration {
	if n > s.Limit() {
		return never
	}
	if s.Policy == Bucket {
		d := s.Rate.lasts(n - s.Level)
		return max(d-time.Duration(s.Part/s.Rate.Tokens), 0)
	}
	missing := n - s.free()
	for _, slot := range s.Slots {
		if missing -= slot.Spent; missing <= 0 {
			return time.Duration((slot.At+1)*s.slotLength() + int64(s.Rate.Per) - s.T)
		}
	}
	return s.Rate.Per
}

// never is how long to wait for more tokens than can ever be there.
const never = time.Duration(math.MaxInt64)
