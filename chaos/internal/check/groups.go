//go:build linux

package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// groups: who looks at a group sees everyone who had joined and takes himself for a member,
// each once, and nobody who has left, or has not come yet.
func (c *checker) groups() {
	for _, name := range c.names(history.Group) {
		members := map[string]*op{}
		var joined []*op
		for _, o := range c.ops {
			if o.kind == history.Group && o.name == name {
				members[o.key.String()] = o
				joined = append(joined, o)
			}
		}
		for _, look := range c.grantedOf(name, history.View) {
			if c.stale(look) {
				continue
			}
			c.strangers(look, members)
			for _, o := range joined {
				if o.granted < look.called && o.known() > look.granted && !slices.Contains(look.ids, o.key.String()) &&
					c.until(o) > look.granted && c.present(o, look.called, look.granted) {
					c.found("group", look.granted, "%v did not see %v, who was there all the time", look, o)
				}
			}
		}
	}
}

// stale reports whether what the op saw may have been the past.
func (c *checker) stale(o *op) bool {
	return c.opts.StaleReads && !c.calm(o.key.proc, o.called, o.granted)
}

// strangers finds who was seen and was not there.
func (c *checker) strangers(look *op, members map[string]*op) {
	for i, id := range look.ids {
		switch o := members[id]; {
		case o == nil || o.called > look.granted:
			c.found("group", look.granted, "%v saw %s, who had not come", look, id)
		case o.err == "" && o.released < look.called:
			c.found("group", look.granted, "%v saw %v, who had left", look, o)
		case slices.Contains(look.ids[:i], id):
			c.found("group", look.granted, "%v saw %v twice", look, o)
		}
	}
}

// lingers is for how many TTLs the entry of a member may be there that was killed, or gave
// up without an answer, or had lost its session: a new leader begins each TTL anew.
const lingers = 10

// rounds: nobody begins a round of a double barrier alone, and who is told that all have left
// does not leave anyone behind. That no two rounds are under way at a time is a matter of
// exclusion.
func (c *checker) rounds() {
	for _, name := range c.names(history.Round) {
		var all []*op
		for _, o := range c.ops {
			if o.kind == history.Round && o.name == name {
				all = append(all, o)
			}
		}
		slices.SortStableFunc(all, func(a, b *op) int { return cmp.Compare(a.called, b.called) })
		var before []*op // what is not gone
		for i, o := range all {
			before = slices.DeleteFunc(before, func(p *op) bool { return c.gone(p) <= o.called })
			if o.granted != never && !c.unheard(o) {
				c.round(o, before, all[i+1:])
			}
			before = append(before, o)
		}
	}
}

// round looks at who was there when a member's round began and ended: of those who were there
// when the member came, and those who came later.
func (c *checker) round(o *op, before, later []*op) {
	with := 1 + len(before)
	for _, p := range later {
		if p.called >= o.granted {
			break
		}
		with++
	}
	if with < c.opts.Crew {
		c.found("round", o.granted, "%v began a round with %d members", o, with)
	}
	if o.released == never || o.err != "" || c.until(o) != o.release {
		return
	}
	n := slices.IndexFunc(later, func(p *op) bool { return p.called >= o.release })
	if n < 0 {
		n = len(later)
	}
	for _, p := range slices.Concat(before, later[:n]) {
		if p.granted < o.release && p.known() > o.released && c.until(p) > o.released && c.present(p, o.release, o.released) {
			c.found("round", o.released, "%v was told that all had left, but %v had not", o, p)
		}
	}
}

// gone is when nothing was left of the op.
func (c *checker) gone(o *op) time.Duration {
	if o.released != never && o.err == "" {
		return o.released
	}
	end := min(o.failed, o.ended)
	if at, ok := c.killed[o.key.proc]; ok {
		end = min(end, at)
	}
	if end == never {
		return never
	}
	return end + lingers*c.opts.TTL
}
