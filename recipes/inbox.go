package recipes

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// Each session has an inbox: a queue in a space of its own, named by the session.
// Who asks something of an entry's owner enters a notice there, under its own
// session, so that it goes with whoever wrote it. The owner watches its inbox, with
// one watch for the session's life, from the first time that it holds or waits.
// Nothing depends on a notice being read: Break removes the entry in any case.

// A Request asks a holder to release its lock, see Hold.Asked. By and Why were
// written by another process: treat them as untrusted text.
type Request struct {
	By  Owner     // who asks
	Why string    // for what reason
	At  time.Time // when, by the clock of who asks
}

// The kinds of notices.
const (
	noticeAsk   = "ask"
	noticeBreak = "break"
)

// notice is an inbox entry's value as it is stored.
type notice struct {
	Kind  string    `json:"kind"`
	Lock  string    `json:"lock"`
	Entry string    `json:"entry"` // its ID
	Why   string    `json:"why"`
	At    time.Time `json:"at"`
	Owner           // who wrote it, flattened into the same object
	// Grace is for how many milliseconds the entry of a break is left to its owner.
	Grace int64 `json:"grace,omitempty"`

	round int // of the watch, in which it was seen last
}

func (n notice) concerns(e driver.Entry) bool {
	return n.Lock == e.Queue.Name && n.Entry == e.ID && e.Queue.Space == driver.SpaceLock
}

func (n notice) request() Request { return Request{By: n.Owner, Why: n.Why, At: n.At} }

func (n notice) lost() *LostError {
	return &LostError{Name: n.Lock, Reason: LostBroken, By: n.Owner, Why: n.Why}
}

// grace is what the work gets of the time that the breaker waits: the rest is for
// the removal.
func (n notice) grace() time.Duration { return time.Duration(n.Grace) * time.Millisecond / 2 }

// An inbox is what a session knows of its notices, under session.mu.
type inbox struct {
	notices map[string]notice // by the notices' IDs
	round   int               // counts how often the watch has started over
}

// listen starts the watch of the inbox, once.
func (s *session) listen() {
	s.listening.Do(func() {
		scope := driver.Scope{Space: driver.SpaceInbox, Name: s.drv.ID(), Lazy: true}
		s.client.start(func() {
			// An inbox that may not be read is no reason not to lock: holders are then
			// broken without being told.
			_ = s.client.store.Watch(s.ctx, scope, s.hear)
		})
	})
}

// hear takes an event of the inbox's watch, and acts on each notice once.
func (s *session) hear(ev driver.Event) {
	s.mu.Lock()
	in := &s.inbox
	switch ev.Type {
	case driver.Reset:
		in.round++
	case driver.Delete:
		delete(in.notices, ev.Entry.ID)
	case driver.Synced:
		for id, n := range in.notices {
			if n.round != in.round {
				delete(in.notices, id)
			}
		}
	case driver.Put:
		_, known := in.notices[ev.Entry.ID]
		var n notice
		if json.Unmarshal(ev.Entry.Value, &n) != nil {
			break // another program's
		}
		n.round = in.round
		in.notices[ev.Entry.ID] = n
		if !known {
			s.mu.Unlock()
			s.obey(n)
			return
		}
	}
	s.mu.Unlock()
}

// obey does what a notice says, if its entry is held or waits.
func (s *session) obey(n notice) {
	s.mu.Lock()
	var found *Hold
	for h := range s.holds {
		if n.concerns(h.entry) {
			found = h
		}
	}
	if found != nil && n.Kind == noticeAsk {
		found.ask(n.request())
	}
	for st, cancel := range s.waiting {
		if n.Kind == noticeBreak && n.concerns(st.own) {
			st.broken = n.lost()
			cancel()
		}
	}
	keeping := slices.Collect(maps.Keys(s.keeping))
	s.mu.Unlock()
	for _, r := range keeping {
		r.heed(n)
	}
	if found != nil && n.Kind == noticeBreak {
		found.broken(n.lost(), min(n.grace(), s.margin()))
	}
}

// heardOf gives a new hold what its entry was asked before, and returns the loss
// if it was broken. It is called with s.mu held.
func (s *session) heardOf(h *Hold) *LostError {
	for _, n := range s.inbox.notices {
		switch {
		case !n.concerns(h.entry):
		case n.Kind == noticeBreak:
			return n.lost()
		case n.Kind == noticeAsk:
			h.ask(n.request())
		}
	}
	return nil
}

// expect has a break of a waiting seat call cancel.
func (s *session) expect(st *seat, cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[st] = cancel
	if st.broken != nil { // while it went from one to the next
		cancel()
	}
	for _, n := range s.inbox.notices {
		if n.Kind == noticeBreak && n.concerns(st.own) {
			st.broken = n.lost()
			cancel()
		}
	}
}

func (s *session) unexpect(st *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, st)
}

// brokenSeat is why a waiting seat is lost, or nil if nobody broke it.
func (s *session) brokenSeat(st *seat) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.broken == nil {
		return nil
	}
	return st.broken
}

// ask hands on a request, the latest in place of an earlier one that nobody has
// taken. It is called with session.mu held.
func (h *Hold) ask(r Request) {
	asked := h.askedChan()
	h.wasAsked = true
	select {
	case <-asked:
	default:
	}
	asked <- r // nobody else sends
}

func (h *Hold) askedChan() chan Request {
	if h.asked == nil {
		h.asked = make(chan Request, 1)
	}
	return h.asked
}

// Asked receives when someone asks for the lock to be released, see Client.Ask.
// What becomes of that is up to the holder. Of several requests that were not
// received yet the latest is kept. It is always the same channel, and never
// closed. A hold of a lock with MutexOptions.Path can't be asked.
func (h *Hold) Asked() <-chan Request {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	return h.askedChan()
}
