//go:build linux

package check

import (
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// longestWindow is how many grants of a limiter a window has at the most.
const longestWindow = 500

// limits: in no window more tokens are spent than the limiter allows. They are spent at
// some time between the call and the record of the grant, so a window has those for sure
// that were called for after it began and granted before it ended. Nothing excuses more:
// a pause, a crash or a wrong clock adds no tokens.
func (c *checker) limits() {
	for _, name := range c.names(history.Limiter) {
		ops := c.grantedOf(name, history.Limiter)
		for i, first := range ops {
			spent := 0
			for _, o := range ops[i:min(i+longestWindow, len(ops))] {
				if o.called < first.called {
					continue
				}
				spent += o.n
				window := o.granted - first.called
				if float64(spent) > c.opts.Burst+c.opts.Rate*window.Seconds() {
					c.found("limits", o.granted, "limiter %q: %d tokens in %v", name, spent, window.Round(time.Microsecond))
					return
				}
			}
		}
	}
}
