package ratelimit

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// grantShare gives a process tokens for the time to come: what it needs at once, if that
// is there; and what it wants, up to its fair share of what has come since it was here,
// or what the others' shares leave.
func (s *record) grantShare(t take) grant {
	period := s.period().Seconds()
	own, known := s.Procs[t.id]
	if !known {
		own.At = s.T - int64(s.period())
	}
	own.Who, own.Demand, own.Need, own.Seq, own.Degraded = t.who, max(t.demand, 1), t.need, t.seq, t.degraded
	if !known && len(s.Procs) >= mostProcs {
		g := s.grantCalls([]int64{t.need}, s.Lag)
		g.share /= float64(len(s.Procs) + 1)
		if g.wait = s.comes(t.need); g.calls[0] {
			g.tokens = t.need // spent already, so they can't be given back
		}
		return g
	}
	s.Procs[t.id] = own

	shares := s.shares()
	g := grant{share: shares[t.id]}
	g.want = t.need
	if !t.only {
		g.want = max(g.want, int64(math.Ceil(g.share*(period+t.lead.Seconds())*1.05))-t.unspent)
	}
	free := s.free()
	var others float64 // what is theirs by now
	for id, p := range s.Procs {
		if id != t.id {
			others += s.accrued(p, shares[id], period)
		}
	}
	fair := max(s.accrued(own, g.share, period), float64(free)-others)
	g.tokens = min(free, max(t.need, min(g.want, int64(fair))))
	if t.need > free && s.full() && !s.first(t.id) {
		g.tokens, g.yield = 0, t.unspent > 0
	}
	if g.tokens < g.want {
		g.wait = s.patience(t, free, g, shares)
	}
	s.take(g.tokens)
	own.Out = t.unspent + g.tokens
	if s.Lag == unknown {
		s.rebase()
	}
	// What is caught up with later makes a lease no shorter.
	own.Until = s.T + s.Lag + int64(s.lease())
	own.Grant = g.tokens
	if g.tokens > 0 {
		own.At, own.Need = s.T, max(t.need-g.tokens, 0)
	}
	s.Procs[t.id] = own
	return g
}

// full reports whether no more tokens come until some that are out are spent: all that can be
// there at once are there or out.
func (s *record) full() bool { return s.free()+s.out() >= s.capacity() }

// first reports whether a process is the one that may keep the part that it has of what it
// needs when the bucket is full: it has the most of all that need more. If each kept its
// part, none might ever have the whole.
func (s *record) first(id string) bool {
	own := s.Procs[id]
	for other, p := range s.Procs {
		if other != id && p.Need > 0 && cmp.Or(cmp.Compare(p.Out, own.Out), cmp.Compare(id, other)) > 0 {
			return false
		}
	}
	return true
}

// longest is how long a process waits at most until it asks again: others may have given
// tokens back, or changed the limit.
const longest = time.Second

// patience is how long a process that has not got what it wants waits before it asks again.
func (s *record) patience(t take, free int64, g grant, shares map[string]float64) time.Duration {
	wait := time.Duration(0.9 * float64(s.period()))
	missing := t.need - g.tokens
	if missing <= 0 {
		return wait
	}
	comes := s.comes(missing + free - g.tokens)
	if comes == never {
		return longest
	}
	if s.Policy == Bucket { // the others take their part of what comes
		rate := s.Rate.perSecond()
		rest := rate
		for id, share := range shares {
			if id != t.id {
				rest -= share
			}
		}
		comes = time.Duration(min(float64(comes)*rate/max(rest, rate/float64(len(shares))), float64(longest)))
	}
	if t.unspent+g.tokens > 0 { // which must not be void by then
		comes = min(comes, s.lease()*2/5)
	}
	return min(max(wait, comes), longest)
}

// accrued is what a process has come to be due since it was here, which is not kept for
// longer than two periods, unless it needs more at once.
func (s *record) accrued(p proc, share, period float64) float64 {
	due := share * time.Duration(s.T-p.At).Seconds()
	return min(due, max(2*share*period, float64(p.Need)))
}

// shares divides the rate among the processes by what they would spend: those that would
// spend less than an even part get what they would, and the others an even part of the
// rest. What nobody would spend is added to all evenly.
func (s *record) shares() map[string]float64 {
	type demand struct {
		id string
		n  float64
	}
	var demands []demand
	for id, p := range s.Procs {
		demands = append(demands, demand{id, float64(p.Demand)})
	}
	slices.SortFunc(demands, func(a, b demand) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.id, b.id)) })
	rest := s.Rate.perSecond()
	shares := make(map[string]float64, len(demands))
	for i, d := range demands {
		part := min(d.n, rest/float64(len(demands)-i))
		shares[d.id] = part
		rest -= part
	}
	return shares
}
