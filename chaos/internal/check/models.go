//go:build linux

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// A window has so many rounds; half of them are in the next window too. The memory
// that the search needs grows with the square of it.
const window = 3000

// models: the histories of locks and registers are linearizable.
func (c *checker) models() {
	for _, kinds := range lockKinds {
		for _, name := range c.names(kinds...) {
			ops := c.grantedOf(name, kinds...)
			for from := 0; from == 0 || from+window/2 < len(ops); from += window / 2 {
				c.search(kinds[0]+" "+name, c.lockModel(kinds[0]), c.lockHistory(ops[from:min(from+window, len(ops))]))
			}
		}
	}
	for name, accesses := range c.accesses() {
		for _, part := range quiet(accesses) {
			c.search("register "+name, registerModel(), part)
		}
	}
}

func (c *checker) search(what string, model porcupine.Model, ops []porcupine.Operation) {
	c.counts.Checked += len(ops)
	switch porcupine.CheckOperationsTimeout(model, ops, c.opts.Patience) {
	case porcupine.Illegal:
		c.found("model", time.Duration(ops[0].Call), "%s: no order of its %d operations from here on explains what was seen", what, len(ops))
	case porcupine.Unknown:
		c.found("model", time.Duration(ops[0].Call), "%s: gave up on %d operations after %v, which proves nothing", what, len(ops), c.opts.Patience)
	}
}

// A lockInput is one operation of the model of locks.
type lockInput struct {
	what  string // "acquire", "release", or "share" of a writer that becomes a reader
	id    string
	units int
	token uint64
}

// A lockState is who holds how much, sorted, and the tokens so far.
type lockState struct {
	holders string // "id units\n"…
	sum     int
	largest uint64 // of all tokens
	writers uint64 // of the exclusive ones
}

// lockHistory turns grants into pairs of an acquire and a release. To leave a pair out
// never makes a good history a bad one, so windows can be looked at by themselves.
func (c *checker) lockHistory(ops []*op) []porcupine.Operation {
	var all []porcupine.Operation
	add := func(call, ret time.Duration, in lockInput) {
		all = append(all, porcupine.Operation{ClientId: len(all), Input: in, Call: int64(call), Return: int64(ret)})
	}
	for _, o := range ops {
		units := units(o)
		id := fmt.Sprintf("%s/%d", o.key.proc, o.key.op)
		add(o.called, o.granted, lockInput{what: "acquire", id: id, units: units, token: o.token})
		if o.changing < c.until(o) {
			add(o.changing, o.changed, lockInput{what: "share", id: id})
		}
		if o.err == "" && o.released != never && c.until(o) == o.release {
			add(o.release, o.released, lockInput{what: "release", id: id})
			continue
		}
		// The service takes it away, at some time after its process was sure to know.
		add(c.outage(o, c.until(o)), never, lockInput{what: "release", id: id})
	}
	return all
}

func (c *checker) lockModel(kind string) porcupine.Model {
	limit := c.limit(kind)
	return porcupine.Model{
		Init: func() any { return lockState{} },
		Step: func(state, input, _ any) (bool, any) {
			return state.(lockState).step(input.(lockInput), limit, ordered(kind))
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

func (s lockState) step(in lockInput, limit int, ordered bool) (bool, lockState) {
	held, units, rest := s.find(in.id)
	switch in.what {
	case "acquire":
		least := s.largest
		if in.units < limit {
			least = s.writers
		}
		if held || s.sum+in.units > limit || ordered && in.token <= least {
			return false, s
		}
		s = s.with(rest, in.id, in.units, in.units)
		s.largest = max(s.largest, in.token)
		if in.units == limit {
			s.writers = max(s.writers, in.token)
		}
		return true, s
	case "share":
		if !held {
			return true, s // it was lost before
		}
		return true, s.with(rest, in.id, 1, 1-units)
	}
	if !held {
		return false, s
	}
	s.holders = rest
	s.sum -= units
	return true, s
}

// find is how much id holds, and what the others do.
func (s lockState) find(id string) (held bool, units int, rest string) {
	var b strings.Builder
	for line := range strings.Lines(s.holders) {
		if who, n, _ := strings.Cut(strings.TrimSpace(line), " "); who == id {
			held = true
			_, _ = fmt.Sscan(n, &units) // it was printed
			continue
		}
		b.WriteString(line)
	}
	return held, units, b.String()
}

func (s lockState) with(rest, id string, units, more int) lockState {
	lines := append(slices.Collect(strings.Lines(rest)), fmt.Sprintf("%s %d\n", id, units))
	slices.Sort(lines)
	s.holders = strings.Join(lines, "")
	s.sum += more
	return s
}

// An accessInput is one operation of the model of registers.
type accessInput struct {
	write bool
	token uint64
	value int64
}

// An accessOutput is what it was told.
type accessOutput struct {
	unknown bool
	refused bool
	value   int64
}

// accesses are the operations on registers, by name.
func (c *checker) accesses() map[string][]porcupine.Operation {
	type key struct {
		opKey
		write bool
	}
	began := map[key]history.Event{}
	all := map[string][]porcupine.Operation{}
	add := func(b history.Event, ret time.Duration, out accessOutput) {
		in := accessInput{write: b.What == history.Writing, token: b.Token, value: b.Value}
		all[b.Name] = append(all[b.Name], porcupine.Operation{
			ClientId: len(all[b.Name]), Input: in, Output: out, Call: int64(b.T), Return: int64(ret),
		})
	}
	for _, e := range c.events {
		if e.Kind != history.Register {
			continue
		}
		k := key{opKey{e.Proc, e.Op}, e.What == history.Writing || e.What == history.Wrote}
		switch e.What {
		case history.Opening, history.Writing:
			began[k] = e
		case history.Opened, history.Wrote:
			unknown := e.Err != "" && e.Err != history.RefusedByFence
			ret := e.T
			if unknown {
				ret = never
			}
			add(began[k], ret, accessOutput{unknown: unknown, refused: e.Err == history.RefusedByFence, value: e.Value})
			delete(began, k)
		}
	}
	for _, b := range began { // of processes that were killed
		add(b, never, accessOutput{unknown: true})
	}
	return all
}

// quiet cuts a history where nothing is under way, into parts that are not too long.
// What may be applied for ever is in each part that comes after it.
func quiet(ops []porcupine.Operation) [][]porcupine.Operation {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var parts [][]porcupine.Operation
	var part, open []porcupine.Operation
	busy := int64(0)
	for _, o := range ops {
		if len(part) >= window && o.Call > busy {
			parts = append(parts, part)
			part = slices.Clone(open)
		}
		part = append(part, o)
		if o.Return == int64(never) {
			open = append(open, o)
		} else {
			busy = max(busy, o.Return)
		}
	}
	return append(parts, part)
}

// A registerState is a fenced register. At the beginning of a part it is not known.
type registerState struct {
	known bool
	token uint64
	value int64
}

func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return registerState{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(registerState).step(input.(accessInput), output.(accessOutput))
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

func (s registerState) step(in accessInput, out accessOutput) (bool, registerState) {
	late := s.known && in.token < s.token
	switch {
	case out.unknown && (late || !s.known):
		return true, s
	case out.refused:
		return late || !s.known, s
	case late:
		return false, s
	case in.write:
		return true, registerState{true, in.token, in.value}
	case !out.unknown && s.known && out.value != s.value:
		return false, s
	case out.unknown:
		return true, registerState{s.known, in.token, s.value}
	}
	return true, registerState{true, in.token, out.value}
}
