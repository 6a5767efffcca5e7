package recipes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A State is what is stored of an object beside its entries.
type State interface {
	// summary says it in a few words.
	summary(o Object, now time.Time) string
}

// Written says who has written what is stored, and when.
type Written struct {
	Version uint64    // grows with every write
	By      Owner     // who wrote last
	At      time.Time // when, by the clock of By
}

// SemaphoreState is the limit of a semaphore.
type SemaphoreState struct {
	Written
	Limit int // of permits that are held at the same time
}

// JobState is what package job remembers of a job, for job.StateOf to read.
type JobState struct {
	Written
	Record json.RawMessage
}

// LimiterState is what package ratelimit stores of a limiter, for ratelimit.StateOf to
// read.
type LimiterState struct {
	Written
	Record json.RawMessage
}

// RegisterState is the value of a register or a counter.
type RegisterState struct {
	Written
	Value json.RawMessage // nil if it is not stored as a register stores it
}

// LatchState is how far a latch was counted down.
type LatchState struct {
	Written
	Count int // from which it was counted
	Left  int // until it opens; 0 when it is open
}

// BarrierState is there while a barrier is set; Written says who has set it.
type BarrierState struct{ Written }

// DoubleBarrierState is the latest round of a double barrier.
type DoubleBarrierState struct {
	Written
	Count int    // of members in a round
	Round uint64 // its number, 0 before the first
}

// OnceState has the keys of a Once whose results are recorded, the oldest first.
type OnceState struct {
	Written
	Keys []string
}

// QueueState has the items of a queue in the order in which they would be handed out if
// all were due, and the dead letters behind them.
type QueueState struct {
	Items []*ItemInfo
}

// An ItemInfo is what can be seen of a queue's item, but for its value. What is in it
// was written by other processes.
type ItemInfo struct {
	ID       string
	Priority int
	Attempts int       // how often it was handed out
	By       Owner     // who put it
	At       time.Time // when, by the clock of By
	Due      time.Time // not handed out before; zero for at once
	// Worker is who works on it, nil for nobody.
	Worker *Owner
	// Dead says why the item is a dead letter, "" if it is none.
	Dead string

	first uint64 // orders items of the same priority
}

// An ItemState says what can become of an item.
type ItemState string

// The states of items.
const (
	ItemReady   ItemState = "ready"   // can be handed out
	ItemDelayed ItemState = "delayed" // is not due yet
	ItemTaken   ItemState = "taken"   // a worker has it
	ItemDead    ItemState = "dead"    // is a dead letter
)

// State is the item's state at that time of day.
func (i *ItemInfo) State(now time.Time) ItemState {
	switch {
	case i.Dead != "":
		return ItemDead
	case i.Worker != nil:
		return ItemTaken
	case i.Due.After(now):
		return ItemDelayed
	}
	return ItemReady
}

// compare orders items: the dead last, otherwise as they are handed out.
func (i *ItemInfo) compare(o *ItemInfo) int {
	if dead := i.Dead != ""; dead != (o.Dead != "") {
		if dead {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(o.Priority, i.Priority), cmp.Compare(i.first, o.first), strings.Compare(i.ID, o.ID))
}

// Count returns how many items are in each state at that time of day.
func (s QueueState) Count(now time.Time) map[ItemState]int {
	counts := map[ItemState]int{}
	for _, item := range s.Items {
		counts[item.State(now)]++
	}
	return counts
}

func (s SemaphoreState) summary(o Object, _ time.Time) string {
	if len(o.Entries) > 0 && o.Entries[0].Permits == 0 {
		return o.held() // a mutex of the same name, say, which keeps everybody out
	}
	taken := 0
	for _, e := range o.Holders() {
		taken += e.Permits
	}
	text := fmt.Sprintf("%d of %d permits held", taken, s.Limit)
	if taken > 0 {
		text += " by " + o.others()
	}
	return text
}

func (s JobState) summary(o Object, _ time.Time) string {
	if len(o.Entries) == 0 {
		return "nobody runs it"
	}
	return o.held()
}

func (s LimiterState) summary(Object, time.Time) string { return "last written by " + s.By.String() }

// maxSummary is how many characters of a value are in a summary.
const maxSummary = 60

func (s RegisterState) summary(Object, time.Time) string {
	if s.Value == nil {
		return "a value that can't be read"
	}
	text := []rune(string(s.Value[:min(len(s.Value), utf8.UTFMax*maxSummary)]))
	if len(text) < maxSummary {
		return string(text)
	}
	return string(text[:maxSummary-1]) + "…"
}

func (s LatchState) summary(Object, time.Time) string {
	if s.Left == 0 {
		return fmt.Sprintf("open, counted from %d", s.Count)
	}
	return fmt.Sprintf("%d of %d left", s.Left, s.Count)
}

func (s BarrierState) summary(Object, time.Time) string { return "set by " + s.By.String() }

func (s DoubleBarrierState) summary(o Object, _ time.Time) string {
	if o.Holding == 0 {
		return fmt.Sprintf("%d of %d there", len(o.Waiters()), s.Count)
	}
	return fmt.Sprintf("round %d, %d of %d inside", s.Round, o.Holding, s.Count)
}

func (s OnceState) summary(o Object, _ time.Time) string {
	return fmt.Sprintf("%d running, %d recorded", o.Holding, len(s.Keys))
}

func (s QueueState) summary(_ Object, now time.Time) string {
	counts := s.Count(now)
	var parts []string
	for _, state := range []ItemState{ItemReady, ItemDelayed, ItemTaken, ItemDead} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if parts == nil {
		return "no items"
	}
	return strings.Join(parts, ", ")
}
