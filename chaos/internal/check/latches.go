//go:build linux

package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// effects are the times in which operations can have had their effect: from the call until
// the answer, or for ever.
type effects struct{ from, to []time.Duration }

// during is how many of them can have had it between two moments.
func (e effects) during(from, to time.Duration) int {
	begun, _ := slices.BinarySearch(e.from, to)
	ended, _ := slices.BinarySearch(e.to, from)
	return begun - ended
}

// effects are those of what was done to an object. What was not confirmed writes over the
// version that it has read, or not at all. So it is over, if it has had no effect, once a
// later one is confirmed: that one has read, or written, another version.
func (c *checker) effects(kind, name, what string) effects {
	var e effects
	var open, confirmed []*op
	for _, o := range c.ops {
		switch {
		case o.kind != kind || o.name != name || o.id != what:
			continue
		case o.granted != never:
			confirmed = append(confirmed, o)
			e.to = append(e.to, o.granted)
		default:
			open = append(open, o)
		}
		e.from = append(e.from, o.called)
	}
	for _, o := range open {
		end := o.failed
		if at, ok := c.killed[o.key.proc]; ok {
			end = min(end, at)
		}
		over := never
		for _, next := range confirmed { // in the order of their ends
			if next.called > end && !c.stale(next) {
				over = next.granted
				break
			}
		}
		e.to = append(e.to, over)
	}
	slices.Sort(e.from)
	slices.Sort(e.to)
	return e
}

// confirmed are what was done to an object and confirmed, in the order of the confirmations.
// What found that there was nothing to do may have seen the past.
func (c *checker) confirmed(kind, name, what string) []*op {
	return slices.DeleteFunc(c.grantedOf(name, kind), func(o *op) bool { return o.id != what || c.stale(o) })
}

// before calls found with each of the waits and operations in ops, and with what was last
// done of those that were confirmed before it was called.
func before(confirmed, ops []*op, found func(last, o *op)) {
	ops = slices.SortedFunc(slices.Values(ops), func(a, b *op) int { return cmp.Compare(a.called, b.called) })
	var last *op
	for _, o := range ops {
		for len(confirmed) > 0 && confirmed[0].granted < o.called {
			if last == nil || confirmed[0].called > last.called {
				last = confirmed[0]
			}
			confirmed = confirmed[1:]
		}
		if last != nil {
			found(last, o)
		}
	}
}

// barriers: nobody passes a barrier that was set before and that nobody can have lifted
// since.
func (c *checker) barriers() {
	for _, name := range c.names(history.Barrier) {
		lifts := c.effects(history.Barrier, name, history.Lift)
		before(c.confirmed(history.Barrier, name, history.Set), c.confirmed(history.Passer, name, ""), func(set, o *op) {
			if lifts.during(set.called, o.granted) == 0 {
				c.found("barrier", o.granted, "%v passed while it was set by %v", o, set)
			}
		})
	}
}

// latches: nobody finds one open that was not counted down often enough since someone was
// told how often it has to be, everyone is told a number that fits, and an open one stays
// open until it is removed.
func (c *checker) latches() {
	for _, name := range c.names(history.Latch) {
		counted := c.confirmed(history.Latch, name, history.CountDown)
		counts := c.effects(history.Latch, name, history.CountDown)
		removals := c.effects(history.Latch, name, history.Remove)
		// since is how often others can have counted since an op was told how often is left.
		since := func(told *op, to time.Duration) int64 { return int64(counts.during(told.called, to) - 1) }
		before(counted, c.confirmed(history.Awaiter, name, ""), func(told, o *op) {
			if since(told, o.granted) < told.value {
				c.found("latch", o.granted, "%v found it open, although %v was told that %d counts are left", o, told, told.value)
			}
		})
		before(counted, counted, func(told, o *op) {
			most := since(told, o.granted) // with o itself
			opened := told.value > 0 && most >= told.value
			reopened := told.value == 0 && removals.during(told.called, o.granted) > 0
			if !opened && !reopened && (o.value < told.value-most || o.value > max(0, told.value-1)) {
				c.found("latch", o.granted, "%v was told that %d counts are left, after %v was told of %d", o, o.value, told, told.value)
			}
		})
	}
}
