package ratelimit

import "math"

// unknown is a lag of which nothing is known.
const unknown = -1

// A clock estimates the logical time of a limiter, which is what the stored T is: the
// time, in nanoseconds, for which tokens were minted. Nobody's time of day is in it.
//
// Moments here are of the process's own monotonic clock, and for the proof of a time
// that all share; clocks of all processes are taken to run equally fast.
//
// # Logical time is never ahead
//
// A version i of the register is computed at a moment m_i, committed at some t_i ≥ m_i,
// and received by another process at some r_i ≥ t_i. Let base be the version that began
// the present count (see below), and d = m_base - T_base. A process that has received i
// writes, at a later moment m, T = m - off with off = min (r_i - T_i) over what it has
// received since base. Then T ≤ m - d for each version: it holds for base, and if it holds
// for i then off ≥ r_i - T_i ≥ m_i - T_i ≥ d for what is computed from i. So logical time
// runs at most as fast as true time does since base, and no process's clock, delay or
// pause makes it run faster. Taking the least of what was seen has it catch up when one
// process, whose replies were slow, has written a T that was behind.
//
// # What may be caught up with
//
// A bucket in true time discards the tokens that come while it is full. If version k has
// a T that is behind, it may find the bucket not quite full and count tokens off that
// were spent; what the next version catches up with is then more than the bucket would
// have had. So a version that counts tokens off must know by how much its T can be behind
// at most: its lag, which is off - d. If that much more would have overfilled the bucket,
// the version becomes the new base, and what was before is never caught up with.
//
// The lag is bounded by a bound on d, which does not change while base is the same. For a
// version i with a known lag, d ≥ m_i - T_i - lag_i. Of m_i a process knows that it is
// no earlier than when it computed its own version o, if o came before i: i was computed
// from what was there. So d ≥ m_o - T_i - lag_i. The record has T and the lag of the last
// version of each process, not only those of the present one; and of who made the base,
// the lag is 0. A process that has not written yet knows nothing of d: if it takes tokens it
// makes a base.
//
// A monotonic clock stands still while its machine is suspended: what was concluded from
// earlier moments no longer holds then. Where the wall clock tells, it is forgotten; off
// stays, as the moments after it are too early rather than too late.
//
// A lease ends when logical time has passed what it was when the tokens were taken, and the
// lag, and the length of the lease: so it lasts in true time too, whoever catches up.
type clock struct {
	born  string // of the register's value that the rest is about
	base  uint64
	off   int64
	least int64 // a bound on d, from below; unbounded if nothing is known
	sent  int64 // when the own version was computed that was written last; unknown if there is none
	sentT int64 // its T
}

const unbounded = math.MinInt64

// begin is for who makes the register's value, at that moment.
func (c *clock) begin(s *record, moment int64) {
	*c = clock{born: s.Born, base: s.Base, off: moment - s.T, least: moment - s.T, sent: unknown}
}

// observe takes in a version that was received at that moment.
func (c *clock) observe(s *record, received int64) {
	switch off := received - s.T; {
	case c.born != s.Born:
		*c = clock{born: s.Born, base: s.Base, off: off, least: unbounded, sent: unknown}
	case c.base != s.Base:
		c.base, c.off, c.least = s.Base, off, unbounded
	default:
		c.off = min(c.off, off)
	}
	if c.sent == unknown {
		return
	}
	bound := func(t, lag int64) {
		if lag != unknown && t > c.sentT {
			c.least = max(c.least, c.sent-t-lag)
		}
	}
	bound(s.T, s.Lag)
	for _, p := range s.Procs {
		if p.Base == s.Base {
			bound(p.T, p.Lag)
		}
	}
}

// wrote takes in that a version was written which was computed at that moment.
func (c *clock) wrote(s *record, computed, received int64) {
	if c.born == s.Born && c.base != s.Base { // it is the new base, and this is the clock that it was made by
		c.base, c.off, c.least = s.Base, computed-s.T, computed-s.T
	}
	c.sent, c.sentT = computed, s.T
	c.observe(s, received)
}

// doubt is for when the process's monotonic clock has stood still: the bound on d does not hold
// any more.
func (c *clock) doubt() { c.least, c.sent = unbounded, unknown }

// at is the logical time of a version that is computed at that moment, and replaces s.
func (c *clock) at(moment int64, s *record) int64 { return max(s.T, moment-c.off) }

// lag is a bound on how far that is behind.
func (c *clock) lag() int64 {
	if c.least == unbounded {
		return unknown
	}
	return max(c.off-c.least, 0)
}

// credit takes in, from another clock, that so much time has passed since a version was
// computed, at the least, when it was received.
func (c *clock) credit(s *record, passed, received int64) {
	if off := received - s.T - passed; passed > 0 && off < c.off {
		c.off, c.least = off, unbounded
	}
}
