package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lockctl/lockctl/recipes/driver"
)

// maxPublished is the greatest size of what an entry publishes, as JSON.
const maxPublished = 64 << 10

// publication is a value as it is published.
func publication(field string, value any) (json.RawMessage, error) {
	if value == nil {
		return nil, nil
	}
	data, err := json.Marshal(value)
	switch {
	case err != nil:
		return nil, &InvalidError{Field: field, Problem: "can't be stored as JSON: " + err.Error()}
	case len(data) > maxPublished:
		return nil, &InvalidError{Field: field, Problem: fmt.Sprintf("is %d bytes as JSON, more than %d", len(data), maxPublished)}
	}
	return data, nil
}

// Publish shows a value, as JSON of at most 64 KiB, to everybody who looks at the
// lock: it is Entry.Published of the hold's entry, until another takes its place or
// the entry is gone. nil shows nothing. It costs one write; calls at the same time
// are done one after the other.
//
// It returns nil when the service has confirmed, so the hold was there at that
// moment; ErrLost if the hold is lost or released; ErrInvalid for a value that
// can't be stored; ErrUnavailable with the context's error if that ended first: the
// value then may or may not show, until the next Publish that returns nil.
func (h *Hold) Publish(ctx context.Context, value any) error {
	shows, err := publication("value", value)
	if err != nil {
		return err
	}
	return h.rewrite(ctx, "publish in", func(n *note) { n.Published = shows })
}

// stored is the value of a hold's entry as it was confirmed last.
type stored struct {
	writing chan struct{} // has a value while someone writes
	entry   driver.Entry
}

// storing is what is known of the entry's value, from the first write on.
func (h *Hold) storing() *stored {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	if h.stored == nil {
		h.stored = &stored{writing: make(chan struct{}, 1), entry: h.whole()}
	}
	return h.stored
}

// rewrite changes the note in the hold's entry. It repeats what got no answer for
// as long as the context lets it.
func (h *Hold) rewrite(ctx context.Context, what string, change func(*note)) error {
	stored := h.storing()
	select {
	case stored.writing <- struct{}{}:
		defer func() { <-stored.writing }()
	case <-ctx.Done():
		return fmt.Errorf("%s %q: %w: another write is under way: %w", what, h.lock.name, ErrUnavailable, ctx.Err())
	case <-h.ctx.Done():
		return h.ended()
	}
	n, _ := readNote(stored.entry.Value) // our own
	change(&n)
	value, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("%s %q: %w", what, h.lock.name, err)
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		if h.ctx.Err() != nil {
			return h.ended()
		}
		entry, err := h.session.drv.Update(both, stored.entry, value)
		switch {
		case err == nil:
			stored.entry = entry
			return nil
		case errors.Is(err, driver.ErrGone):
			return &LostError{Name: h.lock.name, Reason: LostBroken}
		case h.ctx.Err() != nil:
			continue
		case permanent(err), ctx.Err() != nil:
			return fmt.Errorf("%s %q: %w", what, h.lock.name, fault(err))
		}
		pause(both, jitter(backoff))
	}
}

// ended is the error of a call that needs the hold when it is over.
func (h *Hold) ended() error {
	return &LostError{Name: h.lock.name, Reason: LostUnknown, Err: context.Cause(h.ctx)}
}
