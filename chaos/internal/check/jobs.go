//go:build linux

package check

import (
	"slices"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// resets is what it may take to reset a job.
const resets = 10 * time.Second

// ticks: the work for a tick is started once at the most, unless the job was reset since.
func (c *checker) ticks() {
	for _, name := range c.names(history.Job) {
		first := map[string]*op{}
		for _, o := range c.ops {
			if o.kind != history.Job || o.name != name || o.granted == never {
				continue
			}
			other := first[o.id]
			first[o.id] = o
			if other != nil && !slices.ContainsFunc(c.resets[name], func(at time.Duration) bool {
				return at > other.granted-resets && at < o.granted
			}) {
				c.found("ticks", o.granted, "%v ran the tick of %s, which %v had run", o, o.id, other)
			}
		}
	}
}
