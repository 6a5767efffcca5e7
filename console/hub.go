package console

import (
	"bytes"
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

const (
	// maxGone is how many objects that are gone are remembered, for their records and
	// so that pages can be told that they went.
	maxGone = 1000
	// retryDenied is how long the console waits before it asks a service again that
	// refused it.
	retryDenied = 15 * time.Second
)

// errStopped is why backends are not live once the console has been stopped.
var errStopped = errors.New("the console has been stopped")

// A hub is the picture of all backends that every page is made from. Watches change
// it, viewers read it.
type hub struct {
	epoch string
	now   func() time.Time
	site  site

	ctx  context.Context // ends with the console, after the watches
	stop context.CancelFunc

	mu       sync.Mutex
	revision uint64 // of the latest change
	floor    uint64 // what changed up to here may be forgotten
	backends []*backend
	slots    map[string]*slot // by key
	order    *list.List       // of *slot, the one that changed last at the back
	gone     *list.List       // of *slot, those of which there is nothing, the oldest in front
	count    tally            // of what there is
	status   []part           // the state of the backends
	sums     []part           // the summary and the kinds; made when they are asked for
	changed  chan struct{}    // closed and replaced with every change
}

// A slot is the place of one object in the hub.
type slot struct {
	card  *card
	place *list.Element // in order
	gone  *list.Element // in gone, or nil
	due   *time.Timer   // makes the card anew when an item's delay has passed, or nil
}

type state string

// The states of a backend.
const (
	stateConnecting state = "connecting" // not heard of yet
	stateLive       state = "live"
	stateLost       state = "lost" // what is shown of it may be out of date
)

// backend is a service and what its watch says of it. The hub's mutex guards
// what changes.
type backend struct {
	name   string
	client Watcher

	state state
	since time.Time // of the state
	err   string    // why it is lost
	// seen has the keys of the objects that the watch has reported since it began, until
	// it has reported all there are; nil after that.
	seen map[string]bool
}

func newHub(backends []Backend, s site, now func() time.Time) *hub {
	h := &hub{
		epoch: rand.Text(), now: now, site: s,
		slots: map[string]*slot{}, count: newTally(), order: list.New(), gone: list.New(), changed: make(chan struct{}),
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	for _, b := range backends {
		h.backends = append(h.backends, &backend{name: b.Name, client: b.Client, state: stateConnecting, since: now()})
	}
	h.revise()
	h.floor = h.revision // revision 0 is a page that knows nothing
	h.restate()
	return h
}

// run follows all backends until the context ends.
func (h *hub) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, b := range h.backends {
		wg.Go(func() { h.follow(ctx, b) })
	}
	wg.Wait()
	<-ctx.Done() // all clients may have been closed before
}

// end ends the streams, and whatever was to happen later.
func (h *hub) end() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		if s.due != nil {
			s.due.Stop()
		}
	}
}

// follow watches one backend, and starts over when the watch says that trying
// again can't help: credentials can be put right on the service.
func (h *hub) follow(ctx context.Context, b *backend) {
	for {
		err := h.watch(ctx, b)
		if ctx.Err() != nil {
			h.lose(b, errStopped)
			return
		}
		h.lose(b, err)
		if errors.Is(err, recipes.ErrClosed) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryDenied):
		}
	}
}

func (h *hub) watch(ctx context.Context, b *backend) error {
	h.mu.Lock()
	b.seen = map[string]bool{}
	h.mu.Unlock()
	for change, err := range b.client.Watch(ctx, recipes.Filter{}) {
		if err != nil {
			return err
		}
		switch change.Kind {
		case recipes.ObjectChanged:
			h.set(b, change.Object)
		case recipes.WatchSynced:
			h.synced(b)
		case recipes.WatchLost:
			h.lose(b, change.Err)
		}
	}
	return ctx.Err()
}

// set takes in what the watch says of an object.
func (h *hub) set(b *backend, o recipes.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := cardKey(b.name, o)
	if b.seen != nil {
		b.seen[key] = true
	}
	s := h.slots[key]
	var record holds
	switch {
	case s == nil && o.Gone():
		return
	case s != nil && sameObject(s.card.object, o):
		return // told again, after the service was away
	case s != nil:
		record = s.card.holds
		if d, ok := finished(s.card.object, o); ok && b.state == stateLive {
			record = record.add(d)
		}
	}
	if b.state == stateLive {
		record.flow = record.flow.add(o, h.now())
	}
	h.put(b, o, record, false)
}

// synced notes that the watch is up to date.
func (h *hub) synced(b *backend) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.of(b) {
		o := s.card.object
		unseen := b.seen != nil && !b.seen[s.card.key]
		switch {
		case unseen && !o.Gone():
			h.put(b, recipes.Object{Kind: o.Kind, Name: o.Name}, s.card.holds, false)
		case s.card.stale:
			h.put(b, o, s.card.holds, false)
		}
	}
	b.seen = nil
	if b.state != stateLive {
		b.state, b.since, b.err = stateLive, h.now(), ""
		h.revise()
		h.restate()
	}
}

// lose notes that the backend can't be watched, and marks its objects.
func (h *hub) lose(b *backend, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	problem := "the watch ended"
	if err != nil {
		problem = clip(termtext.Escape(err.Error()), 300)
	}
	if b.state == stateLost && b.err == problem {
		return
	}
	if b.state != stateLost {
		b.state, b.since = stateLost, h.now()
	}
	b.err = problem
	for _, s := range h.of(b) {
		if !s.card.stale && !s.card.object.Gone() {
			h.put(b, s.card.object, s.card.holds, true)
		}
	}
	h.revise()
	h.restate()
}

// of returns the slots of a backend.
func (h *hub) of(b *backend) []*slot {
	var slots []*slot
	for _, s := range h.slots {
		if s.card.backend.Name == b.name {
			slots = append(slots, s)
		}
	}
	return slots
}

// put makes the card of an object anew and moves it to the end of the order.
func (h *hub) put(b *backend, o recipes.Object, record holds, stale bool) {
	h.revise()
	key := cardKey(b.name, o)
	s := h.slots[key]
	if s == nil {
		s = &slot{}
		s.place = h.order.PushBack(s)
		h.slots[key] = s
	} else {
		h.count.add(s.card.object, -1)
		h.order.MoveToBack(s.place)
		if s.due != nil {
			s.due.Stop()
			s.due = nil
		}
	}
	at := backendView{Name: b.name, Engine: b.client.Engine()}
	s.card = newCard(h, key, h.revision, at, o, record, stale)
	h.count.add(o, +1)
	h.sums = nil
	due, ok := nextDue(o, h.now())
	if record.flow.busy(h.now()) && !stale {
		due, ok = h.now().Add(time.Second), true // the chart moves
	}
	if ok {
		made := s.card
		s.due = time.AfterFunc(due.Sub(h.now()), func() { h.redo(b, s, made) })
	}
	switch gone := o.Gone(); {
	case gone && s.gone == nil:
		s.gone = h.gone.PushBack(s)
		h.forget()
	case !gone && s.gone != nil:
		h.gone.Remove(s.gone)
		s.gone = nil
	}
}

// redo makes the card of an object anew that has not changed, but looks different by
// now.
func (h *hub) redo(b *backend, s *slot, made *card) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.card == made && h.ctx.Err() == nil {
		h.put(b, made.object, made.holds, made.stale)
	}
}

// nextDue is when the next item of a queue can be handed out that can't be now.
func nextDue(o recipes.Object, now time.Time) (at time.Time, ok bool) {
	s, _ := o.State.(recipes.QueueState)
	for _, item := range s.Items {
		if item.State(now) == recipes.ItemDelayed && (!ok || item.Due.Before(at)) {
			at, ok = item.Due, true
		}
	}
	return at, ok
}

// forget drops the objects that have been gone for longest. Who has not been told
// of their last change can only be told everything.
func (h *hub) forget() {
	for h.gone.Len() > maxGone {
		s := h.gone.Front().Value.(*slot)
		h.gone.Remove(s.gone)
		h.order.Remove(s.place)
		delete(h.slots, s.card.key)
		h.floor = max(h.floor, s.card.revision)
	}
}

// revise counts a change and wakes the viewers.
func (h *hub) revise() {
	h.revision++
	close(h.changed)
	h.changed = make(chan struct{})
}

// restate renders the state of the backends at the present revision.
func (h *hub) restate() {
	h.status = newStatus(h.revision, h.views())
}

func (h *hub) views() []backendView {
	views := make([]backendView, 0, len(h.backends))
	for _, b := range h.backends {
		views = append(views, backendView{
			Name: b.name, Engine: b.client.Engine(), State: b.state, Since: b.since, Error: b.err,
		})
	}
	return views
}

// summary returns the parts that sum up all objects, as of the present revision.
func (h *hub) summary() []part {
	if h.sums != nil {
		return h.sums
	}
	m := summaryModel{tally: h.count.clone()}
	for _, s := range h.slots {
		o := s.card.object
		if isLock(o.Kind) && len(o.Entries) > 0 && (m.Longest == nil || o.HeldSince.Before(m.Longest.object.HeldSince)) {
			m.Longest = s.card
		}
	}
	h.sums = []part{
		newPart(h.revision, "summary", summaryStrip(h.site, m)),
		newPart(h.revision, "kinds", kindLinks(newKindsModel(h.site, m.tally, listQuery{}))),
	}
	return h.sums
}

// A tally counts what there is.
type tally struct {
	objects int
	held    int                  // holders of locks
	waiting int                  // those who wait for locks
	items   int                  // of work queues, but for dead letters
	dead    int                  // dead letters
	kinds   map[recipes.Kind]int // objects of each kind
}

func newTally() tally { return tally{kinds: map[recipes.Kind]int{}} }

// clone is a tally that is not changed any more.
func (t tally) clone() tally {
	t.kinds = maps.Clone(t.kinds)
	return t
}

// add counts an object, or with sign -1 takes it out again.
func (t *tally) add(o recipes.Object, sign int) {
	if o.Gone() {
		return
	}
	t.objects += sign
	if t.kinds[o.Kind] += sign; t.kinds[o.Kind] == 0 {
		delete(t.kinds, o.Kind)
	}
	if isLock(o.Kind) {
		t.held += sign * len(o.Holders())
		t.waiting += sign * len(o.Waiters())
	}
	if s, ok := o.State.(recipes.QueueState); ok {
		dead := s.Count(time.Time{})[recipes.ItemDead]
		t.dead += sign * dead
		t.items += sign * (len(s.Items) - dead)
	}
}

// finished says how long the hold lasted that was over with the change from
// before to after, if its begin and its end were both seen. recipes gives a hold that it saw
// begin another time than the one its entry was made at, and a lock that it saw
// become free the time of that.
func finished(before, after recipes.Object) (time.Duration, bool) {
	if !isLock(before.Kind) || len(before.Entries) == 0 || !turned(before) || !turned(after) {
		return 0, false
	}
	if len(after.Entries) > 0 && after.Entries[0].ID == before.Entries[0].ID {
		return 0, false
	}
	return after.HeldSince.Sub(before.HeldSince), true
}

// turned reports whether HeldSince is when the watch saw the lock change hands.
func turned(l recipes.Object) bool {
	if len(l.Entries) == 0 {
		return !l.HeldSince.IsZero()
	}
	return !l.HeldSince.Equal(l.Entries[0].Since)
}

func sameObject(a, b recipes.Object) bool {
	return a.Kind == b.Kind && a.Holding == b.Holding && a.HeldSince.Equal(b.HeldSince) &&
		slices.EqualFunc(a.Entries, b.Entries, sameEntry) && sameState(a.State, b.State)
}

func sameEntry(a, b recipes.Entry) bool {
	return a.ID == b.ID && a.Session == b.Session && a.Kind == b.Kind && a.Part == b.Part && a.Owner == b.Owner &&
		a.Shared == b.Shared && a.Permits == b.Permits && a.Since.Equal(b.Since) && a.Token == b.Token &&
		bytes.Equal(a.Published, b.Published) && bytes.Equal(a.Value, b.Value)
}

// sameState compares the items of queues by their places in memory: each change makes
// a new one.
func sameState(a, b recipes.State) bool {
	before, ok := a.(recipes.QueueState)
	after, also := b.(recipes.QueueState)
	if ok && also {
		return slices.Equal(before.Items, after.Items)
	}
	return reflect.DeepEqual(a, b)
}
