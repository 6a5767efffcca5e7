//go:build linux

package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// A stay is a time for which a process took itself for a holder.
type stay struct {
	op       *op
	from, to time.Duration
	units    int
}

// lockKinds are the kinds that share a name.
var lockKinds = [][]string{
	{history.Mutex}, {history.Election}, {history.Writer, history.Reader}, {history.Semaphore}, {history.Shard}, {history.Seized}, {history.Round}, {history.Job},
}

// all is as many units as there are, for an exclusive hold.
const all = 1 << 20

// units is how much of its object an op takes, of what limit says there is.
func units(o *op) int {
	switch o.kind {
	case history.Reader:
		return 1
	case history.Semaphore, history.Round:
		return o.n
	}
	return all
}

func (c *checker) limit(kind string) int {
	switch kind {
	case history.Semaphore:
		return c.opts.Limit
	case history.Round:
		return c.opts.Crew
	}
	return all
}

// ordered reports whether tokens grow from grant to grant. Those who hold something together
// are told so in any order.
func ordered(kind string) bool { return kind != history.Semaphore && kind != history.Round }

// stays are the times for which the op's process held. A writer that becomes a reader
// has two, and is neither for certain in between.
func (c *checker) stays(o *op) []stay {
	units := units(o)
	end := c.until(o)
	if o.changing >= end {
		return []stay{{o, o.granted, end, units}}
	}
	stays := []stay{{o, o.granted, o.changing, units}}
	if o.changed < end {
		stays = append(stays, stay{o, o.changed, end, 1})
	}
	return stays
}

// exclusion: whoever is granted something, no earlier holder that it conflicts with
// takes itself for one, unless that is not running. So a holder's context has ended
// before the next grant.
func (c *checker) exclusion() {
	for _, kinds := range lockKinds {
		for _, name := range c.names(kinds...) {
			var stays, present []stay
			for _, o := range c.grantedOf(name, kinds...) {
				if !c.lateRecord(o) {
					stays = append(stays, c.stays(o)...)
				}
			}
			slices.SortStableFunc(stays, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
			for _, s := range stays {
				present = c.enter(present, s)
			}
		}
	}
}

// enter adds a stay to those that are present when it begins.
func (c *checker) enter(present []stay, s stay) []stay {
	limit := c.limit(s.op.kind)
	kept := present[:0:0]
	sum := s.units
	var other *op
	for _, p := range present {
		if p.to <= s.from {
			continue
		}
		kept = append(kept, p)
		if p.op == s.op {
			continue
		}
		if !c.ran(p.op.key.proc, s.from) {
			if p.units+s.units > limit {
				c.unaware[p.op] = true
			}
			continue
		}
		sum += p.units
		if other == nil || p.units+s.units > limit {
			other = p.op
		}
	}
	if sum > limit && other != nil && !c.told[other] { // what follows from the same hold says no more
		c.told[other] = true
		c.found("exclusion", s.from, "%v was granted while %v was held until %v after that, by a process that ran",
			s.op, other, c.until(other)-s.from)
	}
	return append(kept, s)
}

// tokens: each exclusive grant has a larger token than all before.
func (c *checker) tokens() {
	for _, kinds := range lockKinds {
		if !ordered(kinds[0]) {
			continue
		}
		for _, name := range c.names(kinds...) {
			var largest, writers uint64
			for _, o := range c.grantedOf(name, kinds...) {
				if c.lateRecord(o) {
					continue
				}
				least := largest
				if o.kind == history.Reader {
					least = writers // readers that hold together have tokens in any order
				}
				if o.token <= least {
					c.found("tokens", o.granted, "%v was granted after one with token %d", o, least)
				}
				largest = max(largest, o.token)
				if o.kind != history.Reader {
					writers = max(writers, o.token)
				}
			}
		}
	}
}

// fence: whom the register refuses is not a holder any more, unless its process did
// not run. What the fence has refused is counted.
func (c *checker) fence() {
	for _, e := range c.events {
		if e.Err != history.RefusedByFence {
			continue
		}
		c.counts.Refused++
		o := c.byKey[opKey{e.Proc, e.Op}]
		if o != nil && c.until(o) > e.T && c.outage(o, e.T) == e.T {
			c.found("fence", e.T, "%v was refused by the register while its process ran and took itself for the holder", o)
		}
	}
}

// expiries: a holder whose session was ended by hand hears of it within a time in which
// it would have learned it without a word from the service.
func (c *checker) expiries() {
	for _, o := range c.ops {
		for _, at := range c.expired[o.key.proc] {
			end := o.known()
			if o.granted <= at && end > at+c.opts.TTL && c.ran(o.key.proc, at+c.opts.TTL) && c.outage(o, at+c.opts.TTL) == at+c.opts.TTL && end != never {
				c.found("expiry", at, "%v heard %v later that its session had been ended", o, end-at)
			}
		}
	}
}

// terms: an observer never sees an earlier leader after a later one, and no leader who
// was not elected.
func (c *checker) terms() {
	latest := map[string]uint64{}
	for _, e := range c.events {
		if e.What != history.Saw {
			continue
		}
		of := e.Proc + " " + e.Name
		if e.Token < latest[of] {
			c.found("terms", e.T, "%s saw a leader of term %d of %q after one of term %d", e.Proc, e.Token, e.Name, latest[of])
		}
		latest[of] = max(latest[of], e.Token)
	}
}
