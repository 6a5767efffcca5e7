//go:build linux

package check

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/recipes"
)

// isTarget reports whether an operator was about to break what the op was granted.
func (o *op) isTarget(b history.Event) bool {
	return o.kind == history.Seized && o.token>>passBits == b.Token>>passBits
}

// What a worker is told whose entry was removed by hand, which operators do to one lock:
// that alone, or by whom and why. Who takes an entry for gone that is there leaves it
// behind, in everybody's way.
var (
	removed  = recipes.LostBroken.String()
	brokenBy = regexp.MustCompile(`lost: broken by .*: (\S+)$`)
)

func tellsOfBreak(err string) bool {
	return strings.Contains(err, removed) || brokenBy.MatchString(err)
}

// wasBroken reports whether an operator was about to remove the entry that its owner was
// told was removed by hand, and for the reason that it was told. One who waits knows no
// token yet.
func (c *checker) wasBroken(e history.Event) bool {
	o := c.byKey[opKey{e.Proc, e.Op}]
	if o == nil || o.kind != history.Seized {
		return false
	}
	why := brokenBy.FindStringSubmatch(e.Err)
	return slices.ContainsFunc(c.breaking[o.name], func(b history.Event) bool {
		if why != nil && why[1] != (opKey{b.Proc, b.Op}).String() {
			return false
		}
		if o.granted == never {
			return b.ID == e.Proc && o.called <= b.T && b.T <= e.T
		}
		return o.isTarget(b) && b.T <= e.T
	})
}

// seized: a holder whose lock an operator has broken learns of it within a TTL, if nothing
// else is wrong.
func (c *checker) seized() {
	for name, all := range c.breaking {
		holds := c.grantedOf(name, history.Seized)
		for _, b := range all {
			by := c.byKey[opKey{b.Proc, b.Op}]
			if by == nil || by.granted == never || by.token == 0 {
				continue
			}
			last := by.granted + c.opts.TTL
			for _, o := range holds {
				if o.isTarget(b) && o.known() > last && c.present(o, b.T, last) && c.calm(b.Proc, b.T, last) {
					c.found("seized", by.granted, "%v went on for more than %v after an operator had broken it", o, c.opts.TTL)
				}
			}
		}
	}
}

// asked: when an operator is told that those have released a lock whom it asked to, nobody
// who held it when it asked takes itself for its holder.
func (c *checker) asked() {
	holds := map[string][]*op{}
	for _, name := range c.names(history.Seized) {
		holds[name] = c.grantedOf(name, history.Seized)
	}
	for _, e := range c.events {
		if e.What != history.Asking {
			continue
		}
		by := c.byKey[opKey{e.Proc, e.Op}]
		if by == nil || by.granted == never || c.opts.StaleReads && !c.calm(e.Proc, e.T, by.granted) {
			continue
		}
		for _, o := range holds[e.Name] {
			if o.granted < e.T && o.known() > by.granted && c.until(o) > by.granted && c.present(o, e.T, by.granted) {
				c.found("asked", by.granted, "%v was held all the time in which an operator asked for it, who was told that it was released", o)
			}
		}
	}
}

// known is when the op's process knew that it was over.
func (o *op) known() time.Duration { return min(o.release, o.ended) }

// present reports whether the op's process ran all the time.
func (c *checker) present(o *op, from, to time.Duration) bool {
	if killed, ok := c.killed[o.key.proc]; ok && killed <= to {
		return false
	}
	return !slices.ContainsFunc(c.down[o.key.proc], func(s span) bool { return s.from <= to && from <= s.to+catchUp })
}
