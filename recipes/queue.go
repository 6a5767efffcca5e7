package recipes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	defaultMaxAttempts = 10
	// maxItemID is the greatest length of an item's ID, in bytes.
	maxItemID    = 64
	maxQueueName = driver.MaxName - len(driver.PartSeparator) - maxItemID
)

// A Queue hands out work: each item to one worker at a time. It is made by
// NewQueue, sends nothing until it is used, and needs no closing. All methods may
// be called at the same time.
//
//	item, err := queue.Take(ctx)
//	…
//	if err := work(item.Context(), item.Value); err != nil {
//		return item.Return(ctx, time.Minute)
//	}
//	return item.Ack(ctx)
//
// # Guarantees
//
//   - An item that Put has confirmed stays until it is acknowledged, or becomes a
//     dead letter and is removed as such.
//   - At least once: an item whose worker dies, closes its client or loses its
//     session is handed out again, with the next Attempt and a larger Token.
//   - One at a time: an item's context ends before the item can be handed to
//     another, as a Hold's does.
//   - Acknowledged once: after a loss Ack and Return fail with ErrLost, and change
//     nothing of what the next worker has.
//   - Attempts are counted before the item is handed out, so that a crash counts.
//   - Items come in order of priority, the largest first, and of the moment of Put
//     within a priority. One that was returned, or whose worker died, is back in
//     its old place.
//   - Workers wait in line, and only the first of them looks for items: a new item
//     wakes one worker, however many there are.
//
// # Non-guarantees
//
//   - A worker that is paused can go on working on an item after it was handed to
//     another. Let what it writes to check the Token.
//   - A worker sees the queue by way of a watch; an item put a moment ago may be
//     overtaken by one that was seen already.
//   - The end of a delay is a time of day, by the clock of who gave it, compared
//     with the clock of who takes: clocks that differ shift it by their difference.
//   - An attempt can be counted that nobody got to see: its worker died, or its
//     Take ended, just then.
//
// # Costs
//
// Put is one commit. Take is four: into the line of workers, the claim, the count
// of the attempt, and out of the line; and two reads of the item. Ack and Return
// are two. ZooKeeper adds the nodes that entries are kept in. The first worker in
// line reads the whole queue and then has a watch on it, which stays for two
// seconds after the last Take of the process; dead letters count as part of the
// queue. Queues are meant for thousands of items, not for millions.
type Queue[T any] struct {
	client   *Client
	name     string
	opts     QueueOptions
	template template
	turn     lockable // the line of workers

	mu   sync.Mutex
	view *itemView // what the last watch shows; nil before the first, and after it ended
}

// QueueOptions adjust a Queue. A nil *QueueOptions means all defaults.
type QueueOptions struct {
	// MaxAttempts is how often an item is handed out before it becomes a dead
	// letter. The worker that hands it out applies its own; let all have the same.
	// Defaults to 10.
	MaxAttempts int
}

// PutOptions adjust an item. A nil *PutOptions means all defaults.
type PutOptions struct {
	// Priority comes before the order of arrival: larger ones first. Defaults to 0.
	Priority int
	// Delay is for how long the item is not handed out. Defaults to 0.
	Delay time.Duration
	// ID names the item: at most 64 bytes of UTF-8 without control characters.
	// While the queue has an item of that ID, also as a dead letter, Put adds no
	// other. Defaults to a new one.
	ID string
}

// NewQueue makes a queue called name: 1 to 447 bytes, otherwise by the rules of
// Client.Mutex. A nil opts means all defaults. Values are stored as JSON. It sends
// nothing, and returns ErrInvalid when the name or an option is out of range.
func NewQueue[T any](c *Client, name string, opts *QueueOptions) (*Queue[T], error) {
	if err := validateName(name); err != nil {
		return nil, err
	}
	if len(name) > maxQueueName {
		return nil, &InvalidError{Field: "name", Problem: fmt.Sprintf("is %d bytes long, more than %d", len(name), maxQueueName)}
	}
	q := &Queue[T]{
		client: c, name: name, opts: QueueOptions{MaxAttempts: defaultMaxAttempts},
		template: newTemplate(KindQueue, "", c.opts.Owner),
		turn: lockable{
			client: c, name: name, lockStyle: &c.style,
			queue: driver.Queue{Space: driver.SpaceTurn, Name: name},
		},
	}
	switch {
	case opts == nil || opts.MaxAttempts == 0:
	case opts.MaxAttempts < 0:
		return nil, &InvalidError{Field: "QueueOptions.MaxAttempts", Problem: "is negative"}
	default:
		q.opts.MaxAttempts = opts.MaxAttempts
	}
	return q, nil
}

// Name is the name of the queue.
func (q *Queue[T]) Name() string { return q.name }

// Put adds an item and returns its ID. A nil opts means all defaults.
//
// A lost reply is settled by the ID, and nothing is ever sent twice. Where that
// can't tell, the error is ErrUnavailable, comes with the ID, and the item may or
// may not be in the queue, or have been worked on already. To put it again with
// PutOptions.ID is safe as long as nobody has acknowledged it. Other errors are
// ErrInvalid, ErrDenied and ErrClosed.
func (q *Queue[T]) Put(ctx context.Context, value T, opts *PutOptions) (id string, err error) {
	if opts == nil {
		opts = &PutOptions{}
	}
	if id, err = opts.id(); err != nil {
		return "", err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "", &InvalidError{Field: "value", Problem: "can't be stored as JSON: " + err.Error()}
	}
	now := time.Now().UTC()
	rec := itemRecord{By: q.client.opts.Owner, At: now, Priority: opts.Priority, Value: data}
	if opts.Delay > 0 {
		rec.Due = now.Add(opts.Delay)
	}
	encoded, err := rec.encodeIn(maxValue)
	if err != nil {
		return "", err
	}
	if q.client.ctx.Err() != nil {
		return id, ErrClosed
	}
	_, err = q.client.store.Swap(ctx, driver.Entry{Queue: q.item(id)}, encoded)
	switch {
	case err == nil, errors.Is(err, driver.ErrConflict): // it is there, whoever put it
		return id, nil
	case !permanent(err):
		if present, _, readErr := q.client.readItem(ctx, q.item(id)); readErr == nil && present.ID != "" {
			return id, nil
		}
	}
	return id, fmt.Errorf("put %s into queue %q: %w", id, q.name, fault(err))
}

func (o *PutOptions) id() (string, error) {
	if o.Delay < 0 {
		return "", &InvalidError{Field: "PutOptions.Delay", Problem: "is negative"}
	}
	if problem := textProblem(o.ID, maxItemID); problem != "" {
		return "", &InvalidError{Field: "PutOptions.ID", Problem: problem}
	}
	if o.ID != "" {
		return o.ID, nil
	}
	return rand.Text(), nil
}

// item is where an item is stored.
func (q *Queue[T]) item(id string) driver.Queue {
	return driver.Queue{Space: driver.SpaceItem, Name: q.name + driver.PartSeparator + id}
}

// scope is all items of the queue, or all claims on them.
func (q *Queue[T]) scope(space string) driver.Scope {
	return driver.Scope{Space: space, Name: q.name + driver.PartSeparator, Prefix: true}
}

// Take waits for an item that is due and nobody works on, and claims it. The
// context bounds the waiting, not the work: that ends with the item's own.
//
// An item whose value is not a T becomes a dead letter, and so does one that has
// no attempt left because its worker was lost in the last.
//
// Waiting rides out failures of the service and the loss of the session. Errors
// are the context's, ErrUnavailable when no session can be opened or the item's
// state can't be read, ErrDenied and ErrClosed.
func (q *Queue[T]) Take(ctx context.Context) (*Item[T], error) {
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		item, err := q.takeTurn(ctx)
		var lost *LostError
		switch {
		case err == nil:
			return item, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("take from queue %q: %w", q.name, ctx.Err())
		case !errors.As(err, &lost) || lost.Reason == LostClosed:
			return nil, fmt.Errorf("take from queue %q: %w", q.name, err)
		}
		pause(ctx, jitter(backoff))
	}
}

// takeTurn waits in the line of workers, and then for an item. The line keeps
// workers from running for the same item, and is not what makes a claim exclusive.
func (q *Queue[T]) takeTurn(ctx context.Context) (*Item[T], error) {
	turn, err := q.turn.lock(ctx, q.template, false)
	if err != nil {
		return nil, err
	}
	defer turn.letGo()
	view := q.watch()
	defer q.unwatch(view)

	looking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(turn.ctx, cancel)()
	for {
		id, wait, changed, err := view.next(time.Now())
		if err != nil {
			return nil, err
		}
		if id != "" {
			view.pass(id) // until the watch shows what becomes of it
			item, err := q.claim(looking, id)
			switch {
			case item != nil:
				return item, nil
			case turn.ctx.Err() != nil:
				return nil, context.Cause(turn.ctx)
			case err != nil:
				return nil, err
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-looking.Done():
		}
		timer.Stop()
		switch {
		case turn.ctx.Err() != nil:
			return nil, context.Cause(turn.ctx)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

// claim takes an item that the watch shows to be free. It returns nil if it isn't
// any more, or has become a dead letter.
func (q *Queue[T]) claim(ctx context.Context, id string) (*Item[T], error) {
	at := q.item(id)
	claims := driver.Queue{Space: driver.SpaceClaim, Name: at.Name}
	name := q.name + "/" + id
	taken, err := q.client.list(ctx, driver.Scope{Space: claims.Space, Name: claims.Name})
	if err != nil || len(taken) > 0 {
		return nil, err
	}
	// Read after the claims were seen to be gone, and swapped as it was read: a
	// worker that comes in between makes that fail.
	entry, rec, err := q.client.readItem(ctx, at)
	if err != nil || entry.ID == "" || rec.Dead != "" || rec.Due.After(time.Now()) {
		return nil, err
	}
	st, err := q.client.enter(ctx, name, claims, q.template.at(time.Now()))
	if err != nil {
		return nil, err
	}
	if st.ahead != nil {
		st.abandon()
		return nil, nil
	}
	hold, err := st.grant(ctx, &lockable{client: q.client, name: name, queue: claims, lockStyle: &q.client.style})
	if err != nil {
		return nil, err
	}
	item := &Item[T]{queue: q, id: id, hold: hold, rec: rec}
	invalid := json.Unmarshal(rec.Value, &item.Value)
	switch {
	case invalid != nil:
		item.rec.Dead = fmt.Sprintf("its value is not a %T: %v", item.Value, invalid)
	case rec.Attempts >= q.opts.MaxAttempts:
		item.rec.Dead = fmt.Sprintf("its worker was lost in attempt %d", rec.Attempts)
	default:
		item.rec.Attempts++
	}
	item.rec.first(entry)
	item.entry, err = q.client.swapItem(ctx, entry, &item.rec)
	if err == nil && item.rec.Dead == "" {
		return item, nil
	}
	hold.letGo()
	if errors.Is(err, errItemChanged) {
		err = nil
	}
	return nil, err
}

// letGo unlocks in the background.
func (h *Hold) letGo() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.Unlock(ended) // it goes on; a hold that was lost needs nothing
}

// idOf is the ID of the item that a driver's queue stands for.
func idOf(name string) string {
	_, id, _ := strings.Cut(name, driver.PartSeparator)
	return id
}
