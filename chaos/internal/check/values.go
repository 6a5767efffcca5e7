//go:build linux

package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// counters: each number that a counter was said to have is the one before it and what was
// added, and perhaps what was added without a confirmation; and who calls after another was
// told gets a larger one. All that is added is positive.
func (c *checker) counters() {
	for _, name := range c.names(history.Counter) {
		var known, unknown []*op
		for _, o := range c.ops {
			switch {
			case o.kind != history.Counter || o.name != name:
			case o.granted != never:
				known = append(known, o)
			default:
				unknown = append(unknown, o)
			}
		}
		c.sums(known, unknown)
		c.inTime(known)
	}
}

// sums follows the numbers in their order.
func (c *checker) sums(known, unknown []*op) {
	slices.SortFunc(known, func(a, b *op) int { return cmp.Compare(a.value, b.value) })
	last, extra := int64(0), int64(0) // what must have been added without a confirmation
	for _, o := range known {
		gap := o.value - int64(o.n) - last
		if extra += gap; gap < 0 {
			c.found("counter", o.granted, "%v added %d and was told %d, although another was told %d", o, o.n, o.value, last)
			return
		}
		most := int64(0)
		for _, u := range unknown {
			if u.called < o.granted {
				most += int64(u.n)
			}
		}
		if extra > most {
			c.found("counter", o.granted, "%v was told %d: more than all that was added by then", o, o.value)
			return
		}
		last = o.value
	}
}

// inTime compares who had been told with who called then.
func (c *checker) inTime(known []*op) {
	told := slices.SortedFunc(slices.Values(known), func(a, b *op) int { return cmp.Compare(a.granted, b.granted) })
	slices.SortFunc(known, func(a, b *op) int { return cmp.Compare(a.called, b.called) })
	var largest *op
	for _, o := range known {
		for len(told) > 0 && told[0].granted < o.called {
			if largest == nil || told[0].value > largest.value {
				largest = told[0]
			}
			told = told[1:]
		}
		if largest != nil && o.value <= largest.value {
			c.found("counter", o.granted, "%v was told %d, after %v had been told %d", o, o.value, largest, largest.value)
			return
		}
	}
}

// onces: all who ask with a key are told the same result, of one who asked with it before
// they were told.
func (c *checker) onces() {
	type answer struct {
		result string
		o      *op
	}
	first := map[string]answer{}
	called := map[string]time.Duration{}
	for _, o := range c.ops {
		if o.kind == history.Once {
			called[o.key.String()] = o.called
		}
	}
	for _, o := range c.ops {
		if o.kind != history.Once || o.granted == never {
			continue
		}
		key, result, _ := strings.Cut(o.id, " ")
		at, known := called[result]
		if !known || at > o.granted {
			c.found("once", o.granted, "%v was told that %q was run by %q, who had not begun", o, key, result)
		}
		switch other, ok := first[o.name+" "+key]; {
		case !ok:
			first[o.name+" "+key] = answer{result, o}
		case other.result != result:
			c.found("once", o.granted, "%v was told that %q was run by %q, and %v by %q", o, key, result, other.o, other.result)
		}
	}
}
