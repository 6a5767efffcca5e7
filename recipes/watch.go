package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A ChangeKind says what a Change reports.
type ChangeKind int

// The kinds of changes, see Client.Watch.
const (
	// ObjectChanged: an object is not as it was reported last.
	ObjectChanged ChangeKind = iota + 1
	// WatchSynced: everything is reported as it is; from here on the picture is live.
	WatchSynced
	// WatchLost: the service can't be reached, so the picture may be out of date.
	// The watch goes on trying, and WatchSynced follows when it has caught up.
	WatchLost
)

// A Change is one message of Client.Watch.
type Change struct {
	Kind   ChangeKind
	Object Object // with ObjectChanged; see Object.Gone
	Err    error  // with WatchLost: what happened
}

// Watch reports the objects that the filter selects: first each as it is, then
// WatchSynced, then each change; one that is gone, or is a lock of another kind now, is
// reported as Gone. A consumer that is slower than the changes gets the latest state of
// each object and not every state in between; memory is bounded by what exists. No final
// state is ever missed.
//
// The sequence ends when the context does, without an error, when the consumer
// breaks off, or with an error when trying again cannot help: ErrInvalid,
// ErrDenied or ErrClosed. It needs no session.
//
// It costs the service one watch on etcd, whatever the filter, and on ZooKeeper one for
// each space, queue and entry. If what the filter selects is kept in several spaces,
// as that of queues, semaphores, double barriers and Onces, the watch is on all spaces.
func (c *Client) Watch(ctx context.Context, filter Filter) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if err := filter.validate(); err != nil {
			yield(Change{}, err)
			return
		}
		space := ""
		if within := spaces(filter.Kinds); len(within) == 1 {
			space = within[0]
		}
		for change, err := range c.show(ctx, filter.scope(space), newPicture(partOf, filter)) {
			if !yield(change, err) {
				return
			}
		}
	}
}

// follow watches the queues in scope, whatever recipe they are of, each as an object by
// itself. It yields and ends as Watch does.
func (c *Client) follow(ctx context.Context, scope driver.Scope) iter.Seq2[Change, error] {
	return c.show(ctx, scope, newPicture(itself, Filter{}))
}

// show yields what is new in a picture of the scope.
func (c *Client) show(ctx context.Context, scope driver.Scope, p *picture) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()

		ended := make(chan error, 1)
		if !c.start(func() { ended <- c.store.Watch(ctx, scope, p.apply) }) {
			yield(Change{}, ErrClosed)
			return
		}
		for {
			select {
			case <-p.wake:
				for _, change := range p.take() {
					if !yield(change, nil) {
						return
					}
				}
			case err := <-ended:
				switch {
				case c.ctx.Err() != nil:
					yield(Change{}, ErrClosed)
				case ctx.Err() == nil || errors.Is(err, driver.ErrDenied):
					yield(Change{}, fmt.Errorf("watch: %w", fault(err)))
				}
				return
			}
		}
	}
}

// A picture is what a watch has seen. The driver applies events on one side, the
// consumer takes what has changed since it last asked on the other.
type picture struct {
	wake   chan struct{} // has a value when there is something to take
	locate locator
	filter Filter

	mu     sync.Mutex
	live   map[objectKey]model
	next   map[objectKey]model // being filled, between Reset and Synced
	dirty  map[objectKey]bool  // to report
	shown  map[objectKey]Kind  // as reported last, unless as gone
	synced bool                // to be reported
	lost   error               // to be reported
}

func newPicture(locate locator, filter Filter) *picture {
	return &picture{
		wake: make(chan struct{}, 1), locate: locate, filter: filter,
		live: map[objectKey]model{}, dirty: map[objectKey]bool{}, shown: map[objectKey]Kind{},
	}
}

func (p *picture) apply(ev driver.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev.Type {
	case driver.Reset:
		p.next = map[objectKey]model{}
	case driver.Put, driver.Delete:
		p.change(ev)
	case driver.Synced:
		p.adopt()
		p.synced, p.lost = true, nil
	case driver.Lost:
		p.synced, p.lost = false, ev.Err
	}
	if p.synced || p.lost != nil || len(p.dirty) > 0 {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// change takes in an entry, or its end.
func (p *picture) change(ev driver.Event) {
	q := ev.Entry.Queue
	key, part, ok := p.locate(q)
	if !ok {
		return
	}
	models := p.live
	if p.next != nil {
		models = p.next
	}
	m := models[key]
	if m == nil {
		m = newModel(key.family)
		models[key] = m
	}
	if ev.Type == driver.Put {
		m.put(ev.Entry, part)
	} else {
		m.remove(q, part, ev.Entry.ID)
	}
	if p.next == nil { // it has changed now
		if lock, ok := m.(*lockModel); ok {
			lock.turn(time.Now())
		}
		p.dirty[key] = true
	}
}

// adopt makes the picture filled since Reset the live one. What was known of a
// holder that is still first stays known.
func (p *picture) adopt() {
	if p.next == nil {
		return
	}
	for key := range p.live {
		p.dirty[key] = true
	}
	for key, m := range p.next {
		p.dirty[key] = true
		if lock, ok := m.(*lockModel); ok {
			lock.turn(time.Time{})
			if old, ok := p.live[key].(*lockModel); ok {
				lock.succeed(old)
			}
		}
	}
	p.live, p.next = p.next, nil
}

// take returns what there is to report, objects in order.
func (p *picture) take() []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	var changes []Change
	for key := range p.dirty {
		if o, ok := p.report(key); ok {
			changes = append(changes, Change{Kind: ObjectChanged, Object: o})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return compareObjects(a.Object, b.Object) })
	clear(p.dirty)
	if p.synced {
		changes = append(changes, Change{Kind: WatchSynced})
	}
	if p.lost != nil {
		changes = append(changes, Change{Kind: WatchLost, Err: fault(p.lost)})
	}
	p.synced, p.lost = false, nil
	return changes
}

// report returns an object as it is now, unless that is of no interest to whoever
// filters.
func (p *picture) report(key objectKey) (o Object, ok bool) {
	before, shown := p.shown[key]
	m := p.live[key]
	if m != nil {
		o = m.look(key.name)
	}
	if m == nil || o.Gone() {
		o.Kind, o.Name = cmp.Or(before, o.Kind, key.family), key.name
	}
	if m != nil && m.empty() {
		delete(p.live, key)
	}
	switch {
	case !p.filter.has(o):
		delete(p.shown, key)
		return Object{Kind: before, Name: key.name}, shown
	case o.Gone():
		delete(p.shown, key)
	default:
		p.shown[key] = o.Kind
	}
	return o, true
}

// objects returns the objects that exist, of a picture that was listed, in order.
func (p *picture) objects() []Object {
	objects := []Object{}
	for key, m := range p.live {
		if o := m.look(key.name); p.filter.has(o) && !o.Gone() {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, compareObjects)
	return objects
}

func compareObjects(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}
