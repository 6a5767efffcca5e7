package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// MutexOptions adjust a Mutex or an RWMutex. A nil *MutexOptions means all
// defaults.
type MutexOptions struct {
	// Label is shown beside the owner, at most 256 bytes. Defaults to the label of
	// the client's owner.
	Label string
	// Path is a path of the service, taken as it is, for excluding other programs
	// that lock it by the same layout. The mutex's name is then only for messages
	// and errors. Defaults to a place under the client's root, made from the name.
	Path string
	// MinHold is the shortest time for which a hold keeps others out, also when it
	// is unlocked earlier: Unlock waits for it, and goes on in the background when
	// its context ends. Closing the client or losing the session ends it. Defaults
	// to 0.
	MinHold time.Duration
	// MaxHold is the longest time for which a hold lasts; then it is lost, with
	// LostMaxHold. Defaults to no limit.
	MaxHold time.Duration
	// Retain is for how long after Unlock the lock stays with this process while
	// nobody else wants it. Until then the process locks it again without asking the
	// service, by the same Mutex, and Unlock returns without doing so. It is given up
	// as soon as the service tells that another has entered the queue, which costs a
	// watch of it that is kept alive; when the watch can't tell; when it is asked for or
	// broken; and when its token can't grow any more, after 4095 times. To others it looks held. It applies to a Mutex without
	// MinHold. Defaults to 0: not at all.
	Retain time.Duration
	// Kind is what the entries are shown as, for recipes that are made of a lock. It
	// changes nothing else. Defaults to the lock's own kind, such as "mutex".
	Kind Kind
	// Publish is what the entries show from the start, as JSON of at most 64 KiB:
	// see Hold.Publish. Defaults to nothing.
	Publish any
}

func (o *MutexOptions) validate() error {
	if problem := textProblem(o.Label, maxText); problem != "" {
		return &InvalidError{Field: "MutexOptions.Label", Problem: problem}
	}
	if problem := textProblem(o.Path, 4*driver.MaxName); problem != "" {
		return &InvalidError{Field: "MutexOptions.Path", Problem: problem}
	}
	if o.Kind != "" && !o.Kind.plain() {
		return &InvalidError{Field: "MutexOptions.Kind", Problem: fmt.Sprintf("%q is not a word as kinds are", o.Kind)}
	}
	if o.MinHold < 0 {
		return &InvalidError{Field: "MutexOptions.MinHold", Problem: "is negative"}
	}
	if o.MaxHold < 0 {
		return &InvalidError{Field: "MutexOptions.MaxHold", Problem: "is negative"}
	}
	if o.Retain < 0 {
		return &InvalidError{Field: "MutexOptions.Retain", Problem: "is negative"}
	}
	if o.MaxHold > 0 && o.MinHold > o.MaxHold {
		return &InvalidError{Field: "MutexOptions.MinHold", Problem: "is more than MaxHold"}
	}
	return nil
}

// A lockable is what locks of a name have in common, whatever their mode.
type lockable struct {
	client *Client
	name   string
	queue  driver.Queue
	*lockStyle
}

// A lockStyle is what many locks of a client have in common. It does not change.
type lockStyle struct {
	owner   Owner
	minHold time.Duration
	maxHold time.Duration
	kind    Kind            // "" for the lock's own
	shows   json.RawMessage // what entries publish from the start
	plain   template        // of most entries; nil if they have nothing in common
}

// note is the template of the lock's entries.
func (l *lockable) note(kind Kind, mode string) template {
	if l.kind != "" {
		kind = l.kind
	}
	return newTemplate(kind, mode, l.owner).publishing(l.shows)
}

func (c *Client) lockable(name string, opts *MutexOptions) (lockable, error) {
	l := lockable{
		client: c, name: name, lockStyle: &c.style,
		queue: driver.Queue{Space: driver.SpaceLock, Name: name},
	}
	if err := validateName(name); err != nil || opts == nil {
		return l, err
	}
	if err := opts.validate(); err != nil {
		return l, err
	}
	if opts.Path != "" {
		l.queue = driver.Queue{Raw: opts.Path}
	}
	if opts.Label == "" && opts.MinHold == 0 && opts.MaxHold == 0 && opts.Kind == "" && opts.Publish == nil {
		return l, nil
	}
	shows, err := publication("MutexOptions.Publish", opts.Publish)
	style := lockStyle{owner: c.opts.Owner, minHold: opts.MinHold, maxHold: opts.MaxHold, kind: opts.Kind, shows: shows}
	if opts.Label != "" {
		style.owner.Label = opts.Label
	}
	l.lockStyle = &style
	style.plain = l.note(KindMutex, "")
	return l, err
}

func validateName(name string) error {
	if name == "" {
		return &InvalidError{Field: "name", Problem: "is empty"}
	}
	if problem := textProblem(name, driver.MaxName); problem != "" {
		return &InvalidError{Field: "name", Problem: problem}
	}
	return nil
}

// refuseReentry returns ErrDeadlock if the context is that of a hold of the queue.
func (l *lockable) refuseReentry(ctx context.Context) error {
	if holdsAlready(ctx, l.client, l.queue) {
		return fmt.Errorf("lock %q: held by the caller already: %w", l.name, ErrDeadlock)
	}
	return nil
}

// lock enters the queue and waits until nothing is in the way.
func (l *lockable) lock(ctx context.Context, note template, shared bool) (*Hold, error) {
	if err := l.refuseReentry(ctx); err != nil {
		return nil, err
	}
	st, err := l.client.enter(ctx, l.name, l.queue, note.at(time.Now()))
	if err != nil {
		return nil, err
	}
	st.shared = shared
	if err := st.wait(ctx); err != nil {
		return nil, err
	}
	return st.grant(ctx, l)
}

// tryLock enters the queue only if nothing is in the way before, and leaves it
// again if something is then.
func (l *lockable) tryLock(ctx context.Context, note template, shared bool) (*Hold, error) {
	st, err := l.trySeat(ctx, note, shared)
	if err != nil {
		return nil, err
	}
	return st.grant(ctx, l)
}

func (l *lockable) trySeat(ctx context.Context, note template, shared bool) (*seat, error) {
	if err := l.refuseReentry(ctx); err != nil {
		return nil, err
	}
	scope := driver.Scope{Space: l.queue.Space, Name: l.queue.Name, Raw: l.queue.Raw, First: !shared}
	entries, err := l.client.list(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", l.name, err)
	}
	before := &seat{name: l.name, shared: shared}
	for i, e := range entries {
		if before.blockedBy(e) {
			before.ahead = &entries[i]
			return nil, before.held(nil)
		}
	}
	st, err := l.client.enter(ctx, l.name, l.queue, note.at(time.Now()))
	if err != nil {
		return nil, err
	}
	st.shared = shared
	if st.ahead != nil && shared {
		err = st.look(ctx)
	}
	switch {
	case err != nil:
		return nil, st.unseen(ctx, err)
	case st.ahead != nil:
		st.abandon()
		return nil, st.held(nil)
	}
	return st, nil
}

// A Mutex is a lock that one holder at a time has, among all processes that use
// the same service, root and name. Waiting is first come, first served.
//
// It is made by Client.Mutex, sends nothing until it is used, and needs no
// closing. All methods may be called at the same time. It is not reentrant: a
// context that comes from a hold of the same mutex and client is refused with
// ErrDeadlock. Most callers want Do.
//
// Goroutines that use the same Mutex line up inside the process, in order, and pass
// the lock on: up to 4095 times, and for 20 ms at most, so that others wait for one
// hold longer at the most that began within that time. Each hold has a larger token
// than the one before, and none of them costs the service anything; in the queue
// they are one entry. Those that use Mutexes of their own, or one with MinHold, each
// stand in the queue.
type Mutex struct {
	lockable
	relay *relay // nil for one that is part of another recipe
}

// Mutex makes a mutex called name: 1 to 512 bytes of UTF-8 without control
// characters. Names may contain "/", which means nothing: "a" and "a/b" never
// block each other. A nil opts means all defaults. It returns ErrInvalid when
// the name or an option is out of range.
func (c *Client) Mutex(name string, opts *MutexOptions) (*Mutex, error) {
	l, err := c.lockable(name, opts)
	if err != nil {
		return nil, err
	}
	if l.kind != "" || l.shows != nil || l.minHold != 0 {
		return &Mutex{lockable: l}, nil
	}
	m := &struct { // one piece of memory for both
		Mutex
		own relay
	}{Mutex: Mutex{lockable: l}}
	m.own.lock, m.own.note, m.relay = &m.lockable, m.plain, &m.own
	if opts != nil {
		m.own.retain = opts.Retain
	}
	return &m.Mutex, nil
}

// Name is the name of the mutex.
func (m *Mutex) Name() string { return m.name }

// Lock waits in line until the lock is held. The context bounds the waiting,
// not the life of the hold; when it ends, the place in the queue is given up and
// the error matches the context's and ErrHeld, or ErrUnavailable if the service
// did not even confirm the place.
//
// While Lock waits it rides out restarts and failures of the service for as long
// as the session can last. It returns ErrLost when the session ends or the place
// is removed by someone else, ErrUnavailable when no session can be opened,
// ErrDenied when the service refuses the credentials, ErrDeadlock when the context
// is that of a hold of the same mutex, and ErrClosed when the client is closed.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	if m.relay == nil {
		return m.lock(ctx, m.plain, false)
	}
	if err := m.refuseReentry(ctx); err != nil {
		return nil, err
	}
	return m.relay.run(ctx)
}

// TryLock returns the lock if nobody has it or waits for it, and otherwise a
// *HeldError at once. If the lock was taken while TryLock entered the queue, it
// leaves again in the background. Other errors are as for Lock.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	if m.relay == nil {
		return m.tryLock(ctx, m.plain, false)
	}
	if err := m.refuseReentry(ctx); err != nil {
		return nil, err
	}
	return m.relay.try(ctx)
}

// Do locks, calls f and unlocks, also when f panics. The context given to f ends
// when the lock is lost or when ctx ends; so ctx bounds the waiting and the work.
// Do returns f's error joined with that of the release: ErrLost if the lock was
// lost while f ran, even if f returned nil.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, hold *Hold) error) error {
	return do(ctx, m.Lock, m.minHold+m.client.opts.CloseTimeout, f)
}

// do calls f while a lock is held. The release has the given time.
func do[H Held](ctx context.Context, lock func(context.Context) (H, error), within time.Duration, f func(context.Context, H) error) (err error) {
	hold, err := lock(ctx)
	if err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(hold.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(nil)
		release, end := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer end()
		err = errors.Join(err, hold.Unlock(release))
	}()
	return f(work, hold)
}
