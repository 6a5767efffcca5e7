package recipes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// An Item is a piece of work that this worker has claimed. It is the worker's until
// Ack or Return succeeds, or until the claim is lost. Queue.Take makes items. All
// methods may be called at the same time.
type Item[T any] struct {
	// Value is what was put.
	Value T

	queue *Queue[T]
	id    string
	hold  *Hold        // of the claim
	entry driver.Entry // with the attempt counted
	rec   itemRecord

	mu       sync.Mutex
	settled  bool      // Ack or Return has succeeded
	settling *settling // nil while neither is under way
}

// A settling is an Ack or Return that is under way. err is set before done is closed.
type settling struct {
	done chan struct{}
	err  error
}

// ID is the ID of the item, as Put returned it.
func (i *Item[T]) ID() string { return i.id }

// Attempt counts how often the item was handed out, this time included: 1 at
// first.
func (i *Item[T]) Attempt() int { return i.rec.Attempts }

// Context ends when the claim is lost, before the item can be handed to anyone
// else, or when Ack or Return has succeeded. context.Cause then is a *LostError
// for a loss. It has the values of the context that Take was called with.
func (i *Item[T]) Context() context.Context { return i.hold.ctx }

// Deadline is when the claim is lost if no further renewal succeeds.
func (i *Item[T]) Deadline() time.Time { return i.hold.Deadline() }

// Token is a fencing token, larger than that of every earlier attempt at the item;
// see Hold.Token.
func (i *Item[T]) Token() uint64 { return i.hold.Token() }

// Ack removes the item: its work is done. After Ack or Return has succeeded, both
// do nothing and return nil; while one of them is under way, a call of either waits for
// that.
//
// It returns ErrLost, and changes nothing of what the next worker has, if the
// claim was lost; the work may be done again then. So it does if the item is gone, the claim
// was lost, and the service did not tell who has removed the item: another may have done the
// work again. When ctx ends before that is known it
// returns ErrUnavailable with the context's error, while it goes on in the background until the
// service has answered or the client is closed. Other errors are ErrDenied, after
// which it may be called again, and ErrClosed.
func (i *Item[T]) Ack(ctx context.Context) error {
	return i.settle(ctx, "acknowledge", func() *itemRecord { return nil })
}

// Return gives the item back, to be handed out in its old place once the delay has
// passed. If it has no attempt left it becomes a dead letter. It returns
// ErrInvalid for a negative delay; otherwise it is as Ack.
func (i *Item[T]) Return(ctx context.Context, delay time.Duration) error {
	if delay < 0 {
		return &InvalidError{Field: "delay", Problem: "is negative"}
	}
	return i.settle(ctx, "return", func() *itemRecord {
		rec := i.rec
		if rec.Attempts >= i.queue.opts.MaxAttempts {
			rec.Dead = fmt.Sprintf("it was returned in attempt %d", rec.Attempts)
		}
		rec.Due = time.Time{} // without a delay no clock matters
		if delay > 0 {
			rec.Due = time.Now().UTC().Add(delay)
		}
		return &rec
	})
}

// settle has the service told what becomes of the item, nil for its removal, and waits for
// that.
func (i *Item[T]) settle(ctx context.Context, what string, next func() *itemRecord) error {
	err := i.told(ctx, next)
	if err != nil {
		return fmt.Errorf("%s item %s of queue %q: %w", what, i.id, i.queue.name, err)
	}
	return nil
}

func (i *Item[T]) told(ctx context.Context, next func() *itemRecord) error {
	s, err := i.tell(next)
	if s == nil {
		return err
	}
	select {
	case <-s.done:
	default:
		select {
		case <-s.done:
		case <-ctx.Done():
			if lost := context.Cause(i.hold.ctx); errors.Is(lost, ErrLost) {
				return lost
			}
			return fmt.Errorf("%w: not confirmed yet, goes on in the background: %w", ErrUnavailable, ctx.Err())
		}
	}
	return s.err
}

// tell begins to write what becomes of the item, or returns what is under way. It
// returns neither if there is nothing to do.
func (i *Item[T]) tell(next func() *itemRecord) (*settling, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.settled || i.settling != nil {
		return i.settling, nil
	}
	if err := i.lost(); err != nil {
		return nil, err
	}
	s, rec := &settling{done: make(chan struct{})}, next()
	if !i.queue.client.start(func() {
		defer close(s.done)
		s.err = i.write(rec)
		i.mu.Lock()
		defer i.mu.Unlock()
		i.settled, i.settling = s.err == nil, nil
	}) {
		return nil, ErrClosed
	}
	i.settling = s
	return s, nil
}

// write writes what becomes of the item, and gives up the claim. That its session has
// ended does not matter while nobody else has claimed the item.
func (i *Item[T]) write(rec *itemRecord) error {
	c := i.queue.client
	err := c.insistOnItem(c.ctx, i.entry, rec)
	switch {
	case errors.Is(err, errItemGone):
		// While the claim is there nobody else has had one, so it was this worker who has
		// removed the item.
		lost := i.claimLost()
		if i.hold.letGo(); lost != nil {
			return fmt.Errorf("%w: %w", lost, errItemGone)
		}
	case errors.Is(err, errItemChanged):
		i.hold.letGo()
		return &LostError{Name: i.hold.Name(), Reason: LostUnknown, Err: errItemChanged}
	case err != nil:
		return err
	case rec == nil:
		i.hold.letGo()
	default: // it can be handed out again once the claim is gone
		_ = i.hold.Unlock(c.ctx) // a claim that is lost is gone too
	}
	return nil
}

// claimLost asks the service whether the claim was lost, until it tells or the session has
// ended.
func (i *Item[T]) claimLost() error {
	s := i.hold.session
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		if err := i.lost(); err != nil {
			return err
		}
		if known, why := s.missing(s.ctx, i.hold.Name(), i.hold.entry); why != nil {
			return why
		} else if known {
			return i.lost()
		}
		pause(s.ctx, jitter(backoff))
	}
}

// lost is why the claim was lost, or nil.
func (i *Item[T]) lost() error {
	if i.hold.ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(i.hold.ctx); errors.Is(cause, ErrLost) {
		return cause
	}
	return &LostError{Name: i.hold.Name(), Reason: LostUnknown} // let go of after a conflict
}

// itemRecord is an item as it is stored.
type itemRecord struct {
	Write    string          `json:"write"` // new for each write, so that a writer recognises its own
	By       Owner           `json:"by"`    // who put it
	At       time.Time       `json:"at"`    // when, by the clock of By
	Priority int             `json:"priority,omitempty"`
	First    uint64          `json:"first,omitempty"` // revision of the put; 0 until it is written again
	Due      time.Time       `json:"due,omitzero"`
	Attempts int             `json:"attempts,omitempty"`
	Dead     string          `json:"dead,omitempty"` // why it is a dead letter, or ""
	Value    json.RawMessage `json:"value"`
}

// encode gives the record a new Write. Of nil, which stands for no item, there is nothing
// to store.
func (r *itemRecord) encode() ([]byte, error) { return r.encodeIn(maxValue + itemRoom) }

// itemRoom is what an item that was put can grow by, for what is stored with it later.
const itemRoom = 4 << 10

func (r *itemRecord) encodeIn(most int) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	r.Write = rand.Text()
	data, err := json.Marshal(r)
	if err != nil {
		return nil, &InvalidError{Field: "value", Problem: "can't be stored as JSON: " + err.Error()}
	}
	if len(data) > most {
		return nil, &InvalidError{Field: "value", Problem: fmt.Sprintf("is %d bytes as JSON, more than %d", len(data), most)}
	}
	return data, nil
}

// first keeps the revision that orders the item, which a write changes.
func (r *itemRecord) first(entry driver.Entry) {
	if r.First == 0 {
		r.First = entry.Revision
	}
}

// info is what the item shows of itself.
func (r *itemRecord) info(id string) *ItemInfo {
	return &ItemInfo{
		ID: id, Priority: r.Priority, Attempts: r.Attempts, By: r.By, At: r.At, Due: r.Due, Dead: r.Dead, first: r.First,
	}
}

// before orders items.
func (r *itemRecord) before(o *itemRecord) int {
	if r.Priority != o.Priority {
		return cmp.Compare(o.Priority, r.Priority)
	}
	return cmp.Compare(r.First, o.First)
}

// readRecord reads a stored item. One that can't be read is a dead letter.
func readRecord(entry driver.Entry) itemRecord {
	var rec itemRecord
	if err := json.Unmarshal(entry.Value, &rec); err != nil {
		rec = itemRecord{Dead: "it is not as this program stores items: " + err.Error()}
	}
	rec.first(entry)
	return rec
}

// readItem reads an item; one that does not exist has no ID.
func (c *Client) readItem(ctx context.Context, at driver.Queue) (driver.Entry, itemRecord, error) {
	entries, err := c.list(ctx, driver.Scope{Space: at.Space, Name: at.Name})
	if err != nil || len(entries) == 0 {
		return driver.Entry{Queue: at}, itemRecord{}, err
	}
	entry := entries[len(entries)-1]
	return entry, readRecord(entry), nil
}

// errItemChanged says that an item is not as its worker left it.
var errItemChanged = errors.New("the item was handed to another worker or removed")

// errItemGone says that an item is not there any more, removed by this worker or by another.
var errItemGone = errors.New("the item is gone, by whom is not known")

// swapItem writes an item, or removes it if next is nil, provided that it is still
// as old says. If the service does not answer, the outcome is unknown.
func (c *Client) swapItem(ctx context.Context, old driver.Entry, next *itemRecord) (driver.Entry, error) {
	data, err := next.encode()
	if err != nil {
		return old, err
	}
	entry, err := c.swapEncoded(ctx, old, next, data, false)
	if errors.Is(err, errItemGone) { // which is all that was wanted
		err = nil
	}
	return entry, err
}

// insistOnItem is swapItem until the service answers.
func (c *Client) insistOnItem(ctx context.Context, old driver.Entry, next *itemRecord) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		_, err = c.swapEncoded(ctx, old, next, data, backoff > firstPause)
		switch {
		case ctx.Err() != nil && err != nil:
			return ErrClosed
		case !errors.Is(err, ErrUnavailable):
			return err
		}
		pause(ctx, jitter(backoff))
	}
}

// swapEncoded writes an item that was encoded. A lost reply is settled: versions are never
// used twice, so while the old one is there nothing was done, and doing it again does no
// harm. An earlier write of the same may have been done if it is unsettled. A removal that
// can't be settled is errItemGone.
func (c *Client) swapEncoded(ctx context.Context, old driver.Entry, next *itemRecord, data []byte, unsettled bool) (driver.Entry, error) {
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		if c.ctx.Err() != nil {
			return old, ErrClosed
		}
		entry, err := c.store.Swap(ctx, old, data)
		switch {
		case err == nil:
			return entry, nil
		case errors.Is(err, driver.ErrConflict) && !unsettled:
			return old, errItemChanged
		case permanent(err):
			return old, fault(err)
		}
		unsettled = true
		present, rec, readErr := c.readItem(ctx, old.Queue)
		switch {
		case readErr != nil:
			return old, fmt.Errorf("outcome unknown: %w", readErr)
		case present.ID == "" && next == nil:
			return present, errItemGone
		case present.ID != "" && next != nil && rec.Write == next.Write:
			return present, nil
		case present.ID == "" || present.Version != old.Version:
			return old, errItemChanged
		}
		pause(ctx, jitter(backoff))
	}
}
