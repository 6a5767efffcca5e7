package recipes

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// maxValue is the greatest size of a register's value, as JSON. ZooKeeper and
// etcd take about a megabyte; a register is meant for much less.
const maxValue = 256 << 10

// A space is one element of a path of the service.
const (
	maxSpace     = 64
	spaceLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"
)

// A Register is a small value that all processes see, with a version that changes
// whenever it is written: the recipe of optimistic concurrency. Read, compute,
// and write if nobody else wrote in between; no lock is needed.
//
// The value is stored as JSON, and stays when its writers are gone. All methods
// may be called at the same time. Most callers want Update.
type Register[T any] struct {
	client *Client
	name   string
	queue  driver.Queue
}

// A Versioned is the value of a register at one version.
type Versioned[T any] struct {
	// Value is the zero value of T when the register has none.
	Value T
	// Version is 0 when the register has no value. It grows with every write, also
	// over a removal.
	Version uint64
	// By is who wrote it, and At when, by the writer's clock.
	By Owner
	At time.Time
}

// envelope is a register's value as it is stored. The ID is new for each write,
// so that a writer whose reply was lost recognises its own.
type envelope struct {
	ID    string          `json:"id"`
	By    Owner           `json:"by"`
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value"`
}

// NewRegister makes a register called name, by the rules of Client.Mutex. It
// sends nothing. Registers and locks of the same name have nothing to do with
// each other. It returns ErrInvalid for a bad name.
func NewRegister[T any](c *Client, name string) (*Register[T], error) {
	return newRegister[T](c, driver.SpaceRegister, name)
}

// NewRegisterIn is NewRegister for recipes that are built outside of this package,
// and keep what they remember in a space of their own: 1 to 64 lower-case letters,
// digits and hyphens. Registers of one name in different spaces have nothing to do
// with each other. It returns ErrInvalid for a bad space or name.
func NewRegisterIn[T any](c *Client, space, name string) (*Register[T], error) {
	if space == "" || len(space) > maxSpace || strings.Trim(space, spaceLetters) != "" {
		return nil, &InvalidError{Field: "space", Problem: fmt.Sprintf("is not 1 to %d lower-case letters, digits and hyphens", maxSpace)}
	}
	return newRegister[T](c, space, name)
}

func newRegister[T any](c *Client, space, name string) (*Register[T], error) {
	if err := validateName(name); err != nil {
		return nil, err
	}
	return &Register[T]{client: c, name: name, queue: driver.Queue{Space: space, Name: name}}, nil
}

// Name is the name of the register.
func (r *Register[T]) Name() string { return r.name }

// Get returns the present value. A register without one has version 0 and no
// error. Errors are ErrUnavailable, ErrDenied, ErrClosed, and ErrConflict if what
// is stored is not a T.
func (r *Register[T]) Get(ctx context.Context) (Versioned[T], error) {
	_, _, value, err := r.read(ctx)
	return value, err
}

// CompareAndSwap writes a value if the register is still at the version; version
// 0 means that it has none yet. It returns what is there now, with ErrConflict if
// that is another version. With ErrUnavailable the outcome may be unknown; Get
// tells what it was, unless others have written since.
func (r *Register[T]) CompareAndSwap(ctx context.Context, version uint64, value T) (Versioned[T], error) {
	old, _, present, err := r.read(ctx)
	if err != nil {
		return present, err
	}
	if present.Version != version {
		return present, fmt.Errorf("register %q: %w: at version %d, not %d", r.name, ErrConflict, present.Version, version)
	}
	_, written, err := r.write(ctx, old, value)
	return written, err
}

// Update reads the value, has f compute the next one, and writes that if nobody
// else wrote in between; otherwise it does so again, for as long as the context
// lets it. f can be called several times and must not depend on that. An error of
// f ends Update, which returns it and writes nothing.
//
// With ErrUnavailable the outcome may be unknown, as for CompareAndSwap.
func (r *Register[T]) Update(ctx context.Context, f func(T) (T, error)) (Versioned[T], error) {
	known, err := r.Snapshot(ctx)
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		if err != nil {
			return known.Versioned, err
		}
		next, refused := f(known.Value)
		if refused != nil {
			return known.Versioned, refused
		}
		written, failed := r.Replace(ctx, known, next)
		if failed == nil || !errors.Is(failed, ErrConflict) {
			return written.Versioned, failed
		}
		if known = written; !known.Known() { // or else who was first is known, and it is tried at once
			pause(ctx, jitter(backoff/4))
			known, err = r.Snapshot(ctx)
		}
		if ctx.Err() != nil {
			return known.Versioned, fmt.Errorf("register %q: others kept writing: %w: %w", r.name, ErrConflict, ctx.Err())
		}
	}
}

// Delete removes the value if the register is still at the version. Errors are as
// for CompareAndSwap; removing what is not there is none.
func (r *Register[T]) Delete(ctx context.Context, version uint64) error {
	old, _, present, err := r.read(ctx)
	switch {
	case err != nil:
		return err
	case present.Version != version:
		return fmt.Errorf("register %q: %w: at version %d, not %d", r.name, ErrConflict, present.Version, version)
	case version == 0:
		return nil
	}
	if _, err := r.client.store.Swap(ctx, old, nil); err != nil {
		return r.fault("remove", err)
	}
	return nil
}

// Watch yields the present value, then each change; a consumer that is slower than
// the changes gets the latest value and not every one in between. It ends as
// Client.Watch does. While the service can't be reached it yields nothing.
func (r *Register[T]) Watch(ctx context.Context) iter.Seq2[Versioned[T], error] {
	scope := driver.Scope{Space: r.queue.Space, Name: r.queue.Name}
	return func(yield func(Versioned[T], error) bool) {
		var last uint64
		var queue []Entry
		first := true
		for change, err := range r.client.follow(ctx, scope) {
			if err != nil {
				yield(Versioned[T]{}, err)
				return
			}
			if change.Kind == ObjectChanged {
				queue = change.Object.Entries
			}
			if change.Kind == WatchLost || change.Kind == ObjectChanged && first {
				continue // there is no value to speak of before the first WatchSynced
			}
			value, err := r.latest(queue)
			if !first && value.Version == last && err == nil {
				continue
			}
			first, last = false, value.Version
			if !yield(value, err) {
				return
			}
		}
	}
}

// read returns the stored entry, or one to begin with, and what it says.
func (r *Register[T]) read(ctx context.Context) (driver.Entry, envelope, Versioned[T], error) {
	var none Versioned[T]
	old := driver.Entry{Queue: r.queue}
	entries, err := r.client.list(ctx, driver.Scope{Space: r.queue.Space, Name: r.queue.Name})
	if err != nil {
		return old, envelope{}, none, fmt.Errorf("register %q: read: %w", r.name, err)
	}
	if len(entries) == 0 {
		return old, envelope{}, none, nil
	}
	env, value, err := r.decode(entries[len(entries)-1])
	return entries[len(entries)-1], env, value, err
}

// latest is the value in a register's queue. On a service where a write is one
// entry that goes and one that comes, both may show for a moment.
func (r *Register[T]) latest(queue []Entry) (Versioned[T], error) {
	if len(queue) == 0 {
		return Versioned[T]{}, nil
	}
	_, value, err := r.decode(queue[len(queue)-1].stored)
	return value, err
}

func (r *Register[T]) decode(entry driver.Entry) (envelope, Versioned[T], error) {
	var env envelope
	value := Versioned[T]{Version: entry.Revision}
	err := json.Unmarshal(entry.Value, &env)
	if err == nil {
		value.By, value.At = env.By, env.At
		err = json.Unmarshal(env.Value, &value.Value)
	}
	if err != nil {
		return env, value, fmt.Errorf("register %q: %w: its value is not a %T: %w", r.name, ErrConflict, value.Value, err)
	}
	return env, value, nil
}

// write swaps the value and settles a lost reply: if the stored value has the ID
// of this write it was done, if it is still the old one the write is repeated. That
// there is still no value does not say that: another can have removed this one.
func (r *Register[T]) write(ctx context.Context, old driver.Entry, value T) (driver.Entry, Versioned[T], error) {
	var none Versioned[T]
	env, data, err := r.encode(value)
	if err != nil {
		return old, none, err
	}
	unsettled := false
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		entry, err := r.client.store.Swap(ctx, old, data)
		switch {
		case err == nil:
			return entry, Versioned[T]{Value: value, Version: entry.Revision, By: env.By, At: env.At}, nil
		case errors.Is(err, driver.ErrConflict) && !unsettled:
			now, known := r.instead(entry)
			if !known {
				entry = driver.Entry{}
			}
			return entry, now, r.fault("write", err)
		case permanent(err):
			return old, none, r.fault("write", err)
		}
		unsettled = true
		present, stored, now, readErr := r.read(ctx)
		switch {
		case readErr != nil:
			return old, none, fmt.Errorf("register %q: write: %w: %w", r.name, errUnsettled, fault(err))
		case stored.ID == env.ID:
			return present, now, nil
		case old.ID == "" && present.ID == "":
			return old, none, fmt.Errorf("register %q: write: %w, there is no value: %w", r.name, errUnsettled, fault(err))
		case !bytes.Equal(present.Value, old.Value) || present.Revision != old.Revision:
			return old, now, fmt.Errorf("register %q: write: %w, others have written since: %w", r.name, errUnsettled, fault(err))
		}
		pause(ctx, jitter(backoff))
	}
}

// errUnsettled says that a write may have been done, or not.
var errUnsettled = errors.New("outcome unknown")

// instead is what an engine says is there instead of what was expected, if it does.
func (r *Register[T]) instead(entry driver.Entry) (now Versioned[T], known bool) {
	if entry.Queue == (driver.Queue{}) || entry.ID == "" {
		return now, entry.Queue != (driver.Queue{})
	}
	_, now, err := r.decode(entry)
	return now, err == nil
}

// encode is the value as it is stored.
func (r *Register[T]) encode(value T) (envelope, []byte, error) {
	env := envelope{ID: rand.Text(), By: r.client.opts.Owner, At: time.Now().UTC()}
	data, err := json.Marshal(value)
	if err == nil {
		env.Value = data
		data, err = json.Marshal(env)
	}
	switch {
	case err != nil:
		return env, nil, &InvalidError{Field: "value", Problem: "can't be stored as JSON: " + err.Error()}
	case len(data) > maxValue:
		return env, nil, &InvalidError{Field: "value", Problem: fmt.Sprintf("is %d bytes as JSON, more than %d", len(data), maxValue)}
	}
	return env, data, nil
}

func (r *Register[T]) fault(what string, err error) error {
	if errors.Is(err, driver.ErrConflict) {
		return fmt.Errorf("register %q: %s: %w: %w", r.name, what, ErrConflict, err)
	}
	return fmt.Errorf("register %q: %s: %w", r.name, what, fault(err))
}
