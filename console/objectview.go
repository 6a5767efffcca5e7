package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

const (
	maxHosts = 3        // of a group's members that a row names
	maxValue = 16 << 10 // characters of a register's value that its page shows
)

// An objectView is an object as it looks at one moment.
type objectView struct {
	recipes.Object
	now time.Time
}

func newObjectView(c *card, now time.Time) objectView { return objectView{c.object, now} }

// family is the kind as far as the layout goes.
func (v objectView) family() recipes.Kind { return v.Kind.Family() }

// word is the state in a word.
func (v objectView) word() string { return statejson.Word(v.Object) }

// label is the state as people say it.
func (v objectView) label() string {
	if v.Kind != recipes.KindElection {
		return v.word()
	}
	if _, led := v.leader(); led {
		return "led"
	}
	return "no leader"
}

// summary is the state in a line.
func (v objectView) summary() text { return newText(summaryOf(v.Object, v.now)) }

func summaryOf(o recipes.Object, now time.Time) string {
	switch o.Kind {
	case recipes.KindElection:
		return election.Summary(o)
	case recipes.KindJob:
		return job.Summary(o)
	case recipes.KindLimiter:
		if !o.Gone() {
			return ratelimit.Summary(o)
		}
	}
	return o.Summary(now)
}

// head is who holds the lock, or is the first in line for it.
func (v objectView) head() ownerView { return ownerOf(v.Entries[0]) }

// more is how many others hold it too.
func (v objectView) more() int { return v.Holding - 1 }

func (v objectView) shared() bool { return len(v.Entries) > 0 && v.Entries[0].Shared }

// leader is who leads an election, and whether anybody does.
func (v objectView) leader() (election.Leader, bool) {
	if v.Kind != recipes.KindElection {
		return election.Leader{}, false
	}
	return election.LeaderOf(v.Object)
}

// proclaimed is what the leader of an election has said.
func (v objectView) proclaimed() text {
	leader, _ := v.leader()
	return newText(leader.Value)
}

// job is what is known of a job; nothing if what is stored can't be read.
func (v objectView) job() job.State {
	if v.Kind != recipes.KindJob {
		return job.State{}
	}
	s, err := job.StateOf(v.Object)
	if err != nil {
		return job.State{}
	}
	return s
}

// permits are those of a semaphore that are held, of all. It has no whole if there is no
// limit.
func (v objectView) permits() meter {
	m := meter{}
	if s, ok := v.State.(recipes.SemaphoreState); ok {
		m.Whole = s.Limit
	}
	for _, e := range v.Holders() {
		m.Full += e.Permits
	}
	return m
}

// counted is how far a latch was counted down.
func (v objectView) counted() meter {
	s, _ := v.State.(recipes.LatchState)
	return meter{Full: s.Count - s.Left, Whole: s.Count}
}

func (v objectView) open() bool { return v.word() == "open" }

// inside is how many of a round are inside.
func (v objectView) inside() meter {
	s, _ := v.State.(recipes.DoubleBarrierState)
	return meter{Full: v.Holding, Whole: s.Count}
}

// hosts are some of the members' hosts.
func (v objectView) hosts() []text {
	var hosts []text
	for _, e := range v.Entries[:min(maxHosts, len(v.Entries))] {
		if host := newText(e.Owner.Host); !host.empty() && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// items are those of a queue.
func (v objectView) items() []*recipes.ItemInfo {
	s, _ := v.State.(recipes.QueueState)
	return s.Items
}

// itemStates are the states of a queue's items, in the order in which they are shown.
func itemStates() []recipes.ItemState {
	return []recipes.ItemState{recipes.ItemReady, recipes.ItemDelayed, recipes.ItemTaken, recipes.ItemDead}
}

// tally is how many items are in each of the states.
func (v objectView) tally() []int {
	counts := recipes.QueueState{Items: v.items()}.Count(v.now)
	var all []int
	for _, state := range itemStates() {
		all = append(all, counts[state])
	}
	return all
}

// stock divides a bar among the states of a queue's items.
func (v objectView) stock() []share {
	var classes []string
	for _, state := range itemStates() {
		classes = append(classes, string(state))
	}
	return shares(classes, v.tally())
}

// value is what a register or a counter has, in one line.
func (v objectView) value() text {
	s, _ := v.State.(recipes.RegisterState)
	return newText(string(s.Value[:min(len(s.Value), maxTitle)]))
}

// document is what a register has, laid out to be read.
func (v objectView) document() string {
	s, _ := v.State.(recipes.RegisterState)
	if s.Value == nil {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, s.Value, "", "  ") != nil {
		return ""
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		lines[i] = termtext.Escape(line)
	}
	return clip(strings.Join(lines, "\n"), maxValue)
}

// keys are those of a Once whose results are recorded.
func (v objectView) keys() []string {
	s, _ := v.State.(recipes.OnceState)
	return s.Keys
}

// written says who wrote what is stored.
func (v objectView) written() recipes.Written {
	w, _ := writtenOf(v.State)
	return w
}

func writtenOf(state recipes.State) (recipes.Written, bool) {
	switch s := state.(type) {
	case recipes.SemaphoreState:
		return s.Written, true
	case recipes.JobState:
		return s.Written, true
	case recipes.LimiterState:
		return s.Written, true
	case recipes.RegisterState:
		return s.Written, true
	case recipes.LatchState:
		return s.Written, true
	case recipes.BarrierState:
		return s.Written, true
	case recipes.DoubleBarrierState:
		return s.Written, true
	case recipes.OnceState:
		return s.Written, true
	}
	return recipes.Written{}, false
}

// holder is what rows are sorted by as their holders: who holds it, or how it is.
func (v objectView) holder() string {
	if isLock(v.Kind) && len(v.Entries) > 0 {
		return v.head().sortKey()
	}
	return strings.ToLower(v.summary().Shown)
}

// round is the number of a double barrier's latest round.
func (v objectView) round() string {
	s, _ := v.State.(recipes.DoubleBarrierState)
	return fmt.Sprint(s.Round)
}
