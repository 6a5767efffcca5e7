//go:build linux

package check

import "github.com/lockctl/lockctl/chaos/internal/history"

// items: each that was put is worked on at least once, by one worker at a time, and
// acknowledged once; nobody gets one that was acknowledged or never put.
func (c *checker) items() {
	for _, name := range c.names(history.Queue) {
		put := map[string]bool{} // true: confirmed
		for _, e := range c.events {
			switch {
			case e.Kind != history.Queue || e.Name != name:
			case e.What == history.Putting:
				put[e.ID] = false
			case e.What == history.Put && e.Err == "":
				put[e.ID] = true
			}
		}
		rounds := map[string][]*op{}
		for _, o := range c.ops {
			// Also of those whose session had ended: what they say of an item counts until
			// another has it.
			if o.kind != history.Queue || o.name != name || o.granted == never {
				continue
			}
			rounds[o.id] = append(rounds[o.id], o)
			if _, known := put[o.id]; !known {
				c.found("items", o.granted, "%v got item %s, which nobody put", o, o.id)
			}
		}
		for id, confirmed := range put {
			if confirmed && len(rounds[id]) == 0 {
				c.found("items", 0, "nobody got item %s of queue %q", id, name)
			}
			c.item(id, rounds[id], confirmed)
		}
	}
}

// item looks at the rounds of one item. Whoever has acknowledged it had the last token.
func (c *checker) item(id string, rounds []*op, confirmed bool) {
	var acknowledged *op
	unknown := false
	for i, o := range rounds {
		if acknowledged != nil && o.token > acknowledged.token {
			c.found("items", o.granted, "%v got item %s, which %v had acknowledged", o, id, acknowledged)
		}
		if i > 0 {
			c.oneAtATime(id, rounds[i-1], o)
		}
		if o.value != itemAcknowledged {
			continue
		}
		switch {
		case o.err != "" || o.released == never:
			unknown = true
		case acknowledged != nil:
			c.found("items", o.released, "item %s was acknowledged by %v and by %v", id, acknowledged, o)
		default:
			acknowledged = o
		}
	}
	if confirmed && len(rounds) > 0 && acknowledged == nil && !unknown {
		c.found("items", 0, "item %s was given to workers %d times and never acknowledged", id, len(rounds))
	}
}

const itemAcknowledged = 1 // see worker.Acknowledged

// oneAtATime compares two rounds of an item, the later of which was granted later.
func (c *checker) oneAtATime(id string, earlier, later *op) {
	if c.lateRecord(later) || c.lateRecord(earlier) {
		return
	}
	if c.until(earlier) > later.granted {
		if c.ran(earlier.key.proc, later.granted) {
			c.found("items", later.granted, "item %s was given to %v while %v worked on it", id, later, earlier)
		} else {
			c.unaware[earlier] = true
		}
	}
	if later.token <= earlier.token || later.n <= earlier.n {
		c.found("items", later.granted, "item %s: attempt %d of %v came after attempt %d of %v", id, later.n, later, earlier.n, earlier)
	}
}
