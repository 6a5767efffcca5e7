package recipes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	// viewLinger is how long a queue's watch outlasts the last Take, so that a worker
	// that takes one item after the other does not read the queue each time. What took
	// long to begin, for there are many items or the service is slow, is kept for
	// lingerPart times as long, up to lingerLimit.
	viewLinger  = 2 * time.Second
	lingerPart  = 20
	lingerLimit = time.Minute
	// passFor is how long an item is passed over that was found to be other than the
	// watch shows, unless the watch shows a change to it earlier.
	passFor = 50 * time.Millisecond
	// lookAgain is the longest wait for a change; nothing depends on it.
	lookAgain = time.Minute
)

// An itemView is what a watch shows of a queue's items and of the claims on them.
// It may lag behind; what it shows is checked before anything is done.
type itemView struct {
	stop  context.CancelFunc
	begun time.Time

	mu      sync.Mutex
	items   map[string]itemRecord // by ID, without their values; dead letters are left out
	claims  map[string]bool
	passed  map[string]time.Time // until when
	live    map[string]bool      // by space: the watch is up to date
	took    time.Duration        // until both were for the first time
	changed chan struct{}        // closed at each change, then replaced
	err     error                // why the watch has ended

	users  int         // guarded by the queue's mutex, as is linger
	linger *time.Timer // ends the watch; runs while there are no users
}

// watch returns the queue's view, and starts one if there is none.
func (q *Queue[T]) watch() *itemView {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.view == nil || q.view.ended() != nil {
		ctx, stop := context.WithCancel(q.client.ctx)
		q.view = &itemView{
			stop: stop, begun: time.Now(), items: map[string]itemRecord{}, claims: map[string]bool{}, passed: map[string]time.Time{},
			live: map[string]bool{}, changed: make(chan struct{}),
		}
		q.view.follow(ctx, q.client, q.scope(driver.SpaceItem))
		q.view.follow(ctx, q.client, q.scope(driver.SpaceClaim))
	}
	if q.view.linger != nil {
		q.view.linger.Stop()
	}
	q.view.users++
	return q.view
}

// unwatch ends the watch when it has not been used for a while.
func (q *Queue[T]) unwatch(v *itemView) {
	q.mu.Lock()
	defer q.mu.Unlock()
	v.users--
	if v.users > 0 {
		return
	}
	if v.ended() != nil {
		v.stop()
		return
	}
	if v.linger == nil {
		v.linger = time.AfterFunc(v.lingers(), func() { q.forget(v) })
		return
	}
	v.linger.Reset(v.lingers())
}

// lingers is for how long the view is worth being kept.
func (v *itemView) lingers() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return min(max(viewLinger, lingerPart*v.took), lingerLimit)
}

// forget ends a watch that nobody uses.
func (q *Queue[T]) forget(v *itemView) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if v.users > 0 {
		return
	}
	v.stop()
	if q.view == v {
		q.view = nil
	}
}

// follow keeps one space of the view up to date until the context ends.
func (v *itemView) follow(ctx context.Context, c *Client, scope driver.Scope) {
	if !c.start(func() {
		for change, err := range c.follow(ctx, scope) {
			v.apply(scope.Space, change, err)
		}
	}) {
		v.apply(scope.Space, Change{}, ErrClosed)
	}
}

func (v *itemView) apply(space string, change Change, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id := idOf(change.Object.Name)
	switch {
	case err != nil:
		v.err = err
	case change.Kind != ObjectChanged:
		v.live[space] = change.Kind == WatchSynced
		if v.took == 0 && v.live[driver.SpaceItem] && v.live[driver.SpaceClaim] {
			v.took = time.Since(v.begun)
		}
	case space == driver.SpaceClaim:
		delete(v.passed, id)
		delete(v.claims, id)
		if len(change.Object.Entries) > 0 {
			v.claims[id] = true
		}
	default:
		delete(v.passed, id)
		delete(v.items, id)
		if n := len(change.Object.Entries); n > 0 {
			rec := readRecord(change.Object.Entries[n-1].stored)
			rec.Value = nil
			if rec.Dead == "" {
				v.items[id] = rec
			}
		}
	}
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *itemView) ended() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// pass leaves an item aside for a moment.
func (v *itemView) pass(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.passed[id] = time.Now().Add(passFor)
}

// next is the first item that is due and seems free, or "" with the time after
// which there may be one, and a channel that is closed when something changes.
func (v *itemView) next(now time.Time) (id string, wait time.Duration, changed <-chan struct{}, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil || !v.live[driver.SpaceItem] || !v.live[driver.SpaceClaim] {
		return "", lookAgain, v.changed, v.err
	}
	var best itemRecord
	wait = lookAgain
	for candidate, rec := range v.items {
		until := rec.Due
		if passed, ok := v.passed[candidate]; ok && passed.After(until) {
			until = passed
		}
		switch {
		case v.claims[candidate]:
		case until.After(now):
			wait = min(wait, until.Sub(now))
		case id == "" || rec.before(&best) < 0:
			id, best = candidate, rec
		}
	}
	for passed, until := range v.passed {
		if !until.After(now) {
			delete(v.passed, passed)
		}
	}
	return id, wait, v.changed, nil
}

// A QueuedItem is an item as seen from outside. What is in it was written by
// other processes.
type QueuedItem[T any] struct {
	ItemInfo
	Value T               // the zero value if what is stored is not a T
	Raw   json.RawMessage // the value as it is stored
}

// List returns the items that wait or are worked on, in the order in which they
// would be handed out if all were due. It costs two reads, of all that the queue
// has. Errors are ErrUnavailable, ErrDenied, ErrClosed and the context's.
func (q *Queue[T]) List(ctx context.Context) ([]QueuedItem[T], error) { return q.list(ctx, false) }

// DeadLetters returns the items that are not handed out any more, in the same
// order. They stay until Revive or Remove. Costs and errors are those of List.
func (q *Queue[T]) DeadLetters(ctx context.Context) ([]QueuedItem[T], error) {
	return q.list(ctx, true)
}

// Len is how many items List would return. Costs and errors are those of List.
func (q *Queue[T]) Len(ctx context.Context) (int, error) {
	items, err := q.List(ctx)
	return len(items), err
}

func (q *Queue[T]) list(ctx context.Context, dead bool) ([]QueuedItem[T], error) {
	entries, err := q.client.list(ctx, q.scope(driver.SpaceItem))
	if err != nil {
		return nil, fmt.Errorf("list queue %q: %w", q.name, err)
	}
	claims, err := q.client.list(ctx, q.scope(driver.SpaceClaim))
	if err != nil {
		return nil, fmt.Errorf("list queue %q: %w", q.name, err)
	}
	m, values := newQueueModel(), map[string]json.RawMessage{}
	for _, e := range entries {
		rec, id := readRecord(e), idOf(e.Queue.Name)
		m.item(e, id, &rec)
		values[id] = rec.Value // for a moment there may be two entries, the latest last
	}
	for _, e := range claims {
		m.put(e, idOf(e.Queue.Name))
	}
	items := make([]QueuedItem[T], 0, len(m.ordered))
	for _, info := range m.ordered {
		if (info.Dead != "") != dead {
			continue
		}
		item := QueuedItem[T]{ItemInfo: *info, Raw: values[info.ID]}
		if json.Unmarshal(item.Raw, &item.Value) != nil {
			item.Value = *new(T)
		}
		items = append(items, item)
	}
	return items, nil
}

// Revive hands a dead letter out again, in its old place and with no attempt
// counted. It returns ErrConflict if the queue has no dead letter of that ID;
// other errors are those of Ack.
func (q *Queue[T]) Revive(ctx context.Context, id string) error {
	return q.settleDead(ctx, "revive", id, true)
}

// Remove removes a dead letter. Errors are those of Revive.
func (q *Queue[T]) Remove(ctx context.Context, id string) error {
	return q.settleDead(ctx, "remove", id, false)
}

func (q *Queue[T]) settleDead(ctx context.Context, what, id string, revive bool) error {
	if problem := textProblem(id, maxItemID); problem != "" || id == "" {
		return &InvalidError{Field: "id", Problem: cmp.Or(problem, "is empty")}
	}
	entry, rec, err := q.client.readItem(ctx, q.item(id))
	switch {
	case err != nil:
	case rec.Dead == "":
		err = fmt.Errorf("%w: no such dead letter", ErrConflict)
	case revive && rec.Write == "":
		err = fmt.Errorf("%w: %s", ErrConflict, rec.Dead)
	}
	if err == nil {
		var next *itemRecord
		if revive {
			rec.Dead, rec.Attempts, rec.Due = "", 0, time.Time{}
			next = &rec
		}
		_, err = q.client.swapItem(ctx, entry, next)
	}
	if errors.Is(err, errItemChanged) {
		err = fmt.Errorf("%w: someone else was first", ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("%s %s of queue %q: %w", what, id, q.name, err)
	}
	return nil
}
