package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// handoffBits are the low bits of a token, left for passing a hold on within a
// process, where no write to the service makes a new revision.
const handoffBits = 12

// maxRevision is the largest revision whose tokens fit into 63 bits, which is
// what an SQL bigint holds. etcd's revisions count writes; a zxid reaches it
// after half a million elections.
const maxRevision = 1<<(63-handoffBits) - 1

// token is the fencing token of the entry's first hold.
func token(entry driver.Entry) uint64 {
	if entry.Token != 0 {
		return entry.Token
	}
	return entry.Revision << handoffBits
}

// A Hold is a lock that is held. It lasts until Unlock, or until it is lost.
// The zero value is of no use; Lock and TryLock make holds. All methods may be
// called at the same time.
//
// Do the work under Context, and hand Token to whatever the lock protects.
type Hold struct {
	// A program may hold a hundred thousand locks, so this is what nearly all holds
	// need. What they have in common is the lock's, the rest is made when needed.

	stint
	lock  *lockable
	outer *Hold // of the context that the lock was taken with, or nil

	granted time.Time
	expiry  *time.Timer // ends the hold after maxHold; nil without

	asked    chan Request // made when first needed, under session.mu
	wasAsked bool         // under session.mu
	pinned   bool         // the entry is not to be passed on; under session.mu
	handed   bool         // the entry was passed on, or kept, or is about to be; under session.mu

	values context.Context // that the lock was taken with
	ctx    context.Context
	cancel context.CancelCauseFunc

	stored *stored // the entry's value; made when first needed, under session.mu

	release  sync.Once
	released chan struct{} // closed when err is set; made by release, nil for a hold that was passed on
	err      error         // what Unlock returns
}

// errReleased is the cause of the end of a hold's context that nobody lost.
var errReleased = fmt.Errorf("lock was released: %w", context.Canceled)

// heldKey is the key of the innermost hold among a context's values.
type heldKey struct{}

// A stint is a place in the queue that nothing is in the way of: a hold's, or one
// hold's after the other.
type stint struct {
	*spot
	passes uint64 // how many came after the first
}

// A spot is what all holds of a stint have in common.
type spot struct {
	session *session
	entry   driver.Entry // without its value if joined tells it
	joined  int64        // when the entry was made, as its value says, in Unix nanoseconds; or 0
	since   time.Time    // when the first hold was granted
	relay   *relay       // that passes it on, or nil
	alone   bool         // the session is this hold's alone, and ends with it
}

// spot makes the spot of a seat. Entries of a lock mostly differ in their time alone:
// the rest of the value need not be kept for each.
func (st *seat) spot(l *lockable, now time.Time) *spot {
	p := &spot{session: st.session, entry: st.own, since: now, relay: st.relay}
	if joined, ok := l.plain.timeOf(p.entry.Value); ok {
		p.joined, p.entry.Value = joined.UnixNano(), nil
	}
	return p
}

// whole is the entry with its value.
func (h *Hold) whole() driver.Entry {
	entry := h.entry
	if h.joined != 0 {
		entry.Value = h.lock.plain.at(time.Unix(0, h.joined))
	}
	return entry
}

// grant makes a hold of a seat with nothing in the way, provided that its session
// is alive: the deadline has not passed.
func (st *seat) grant(ctx context.Context, l *lockable) (*Hold, error) {
	now := time.Now()
	h := newHold(ctx, l, stint{spot: st.spot(l, now)}, now)
	alive, broken := h.register()
	switch {
	case !alive:
		err := st.session.err(st.name)
		h.cancel(err)
		return nil, err
	case broken != nil:
		st.abandon()
		h.cancel(broken)
		return nil, broken
	}
	return h, nil
}

func newHold(ctx context.Context, l *lockable, t stint, now time.Time) *Hold {
	h := &Hold{stint: t, lock: l, granted: now, values: ctx}
	h.outer, _ = ctx.Value(heldKey{}).(*Hold)
	h.ctx, h.cancel = context.WithCancelCause((*heldValues)(h))
	return h
}

// heldValues are a hold as the parent of its context: it never ends, and has the hold
// beside the values of the context that the lock was taken with.
type heldValues Hold

func (h *heldValues) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (h *heldValues) Done() <-chan struct{}                   { return nil }
func (h *heldValues) Err() error                              { return nil }

func (h *heldValues) Value(key any) any {
	if key == (heldKey{}) {
		return (*Hold)(h)
	}
	return h.values.Value(key)
}

// register makes the hold one of its session's. It reports whether the session is
// alive, and how the hold was broken before it began.
func (h *Hold) register() (alive bool, broken *LostError) {
	s := h.session
	if s.left(h.granted) <= 0 {
		s.lose(&LostError{Reason: LostExpired})
	}
	s.listen()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return false, nil
	}
	if broken = s.heardOf(h); broken != nil {
		return true, broken
	}
	s.holds[h] = struct{}{}
	if h.lock.maxHold > 0 {
		h.expiry = time.AfterFunc(h.lock.maxHold, h.expire)
	}
	return true, nil
}

// holdsAlready reports whether the context comes from a hold of the queue.
func holdsAlready(ctx context.Context, c *Client, q driver.Queue) bool {
	h, _ := ctx.Value(heldKey{}).(*Hold)
	for ; h != nil; h = h.outer {
		if h.session.client == c && h.entry.Queue == q && h.ctx.Err() == nil {
			return true
		}
	}
	return false
}

// Context ends when the lock is lost, before the service can give it to anyone
// else, or when Unlock begins. context.Cause then is a *LostError for a loss.
// It has the values of the context that Lock was called with, and neither its
// deadline nor its cancellation.
func (h *Hold) Context() context.Context { return h.ctx }

// Token is the fencing token: larger than the token of every earlier holder of
// the lock, whatever the session, and never 0. It fits into 63 bits. Let the
// protected resource remember the largest token it has seen and refuse smaller
// ones; then a holder that does not know yet that it has lost the lock can do no
// harm. Only the order of tokens means anything.
func (h *Hold) Token() uint64 { return token(h.entry) + h.passes }

// Deadline is the moment at which the hold is lost if no further renewal
// succeeds, or when MaxHold ends. Renewals move it on, by the local monotonic
// clock.
func (h *Hold) Deadline() time.Time {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	deadline := h.session.deadline
	if end := h.granted.Add(h.lock.maxHold); h.lock.maxHold > 0 && end.Before(deadline) {
		return end
	}
	return deadline
}

// Owner is how the holder presents itself in the queue.
func (h *Hold) Owner() Owner { return h.lock.owner }

// Name is the name of the lock.
func (h *Hold) Name() string { return h.lock.name }

// SessionID is the id of the session that the hold lives in, as the service's
// own tools show it.
func (h *Hold) SessionID() string { return h.session.drv.ID() }

// Pin returns the hold's entry as its engine made it, for functions of that engine
// such as etcd.Guard and zk.Guard. From then on the entry is this hold's alone:
// Unlock removes it, and neither passes it on to another goroutine nor retains it, see
// Mutex. So whoever sees the entry there knows that the hold is not over.
//
// It returns ErrLost if the hold is over and its entry was passed on or retained.
func (h *Hold) Pin() (driver.Entry, error) {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.handed {
		return driver.Entry{}, &LostError{Name: h.lock.name, Reason: LostUnknown, Err: errReleased}
	}
	h.pinned = true
	return h.whole(), nil
}

// Unlock gives the lock up. The hold's context ends first, then the entry is
// removed, provided that it is still this hold's own.
//
// It returns nil when the service has confirmed, and again when called again.
// With MutexOptions.MinHold the entry stays until that time has passed. Where
// another goroutine waits for the same Mutex, the entry may become its hold's, and
// with MutexOptions.Retain it may stay: see Mutex.
// It returns ErrLost if the hold was lost before, and touches nothing then.
// When ctx ends first, or had ended, it returns the context's error while the
// release goes on in the background until the service confirms it; Close of the
// client waits for that.
func (h *Hold) Unlock(ctx context.Context) error {
	h.release.Do(func() {
		if h.relay == nil || !h.relay.pass(h) {
			h.end(errReleased, h.lock.minHold-time.Since(h.granted))
		}
	})
	if h.released == nil {
		return nil
	}
	select {
	case <-h.released:
		return h.err
	default:
	}
	select {
	case <-h.released:
		return h.err
	case <-ctx.Done():
		return fmt.Errorf("unlock %q: not confirmed yet, goes on in the background: %w", h.lock.name, ctx.Err())
	}
}

// expire ends the hold when MaxHold has passed. The work gets the margin to stop
// before the lock goes to another.
func (h *Hold) expire() {
	h.release.Do(func() {
		h.end(&LostError{Name: h.lock.name, Reason: LostMaxHold}, h.session.margin())
	})
}

// broken ends the hold because someone broke it. The work gets the given time to
// stop before the lock goes to another.
func (h *Hold) broken(lost *LostError, after time.Duration) {
	h.release.Do(func() { h.end(lost, after) })
}

// end is called by release. It ends the hold's context for the cause, and removes the
// entry after a while, in the background. What is removed for a loss does not count as released.
func (h *Hold) end(cause error, after time.Duration) {
	h.released = make(chan struct{})
	s := h.session
	s.mu.Lock()
	lost := s.lost // before it was released, in whatever order the context hears of it
	expiry := h.expiry
	delete(s.holds, h)
	s.mu.Unlock()
	if expiry != nil {
		expiry.Stop()
	}
	if lost != nil {
		err := &LostError{Name: h.lock.name, Reason: lost.Reason, Err: lost.Err}
		h.cancel(err)
		h.settle(err)
		return
	}
	h.cancel(cause)
	if !s.client.start(func() {
		pause(s.ctx, after)
		err := s.leave(h.lock.name, h.entry)
		if lost := (*LostError)(nil); errors.As(cause, &lost) {
			err = cause
		}
		h.settle(err)
	}) {
		h.settle(&LostError{Name: h.lock.name, Reason: LostClosed})
	}
}

func (h *Hold) settle(err error) {
	h.err = err
	close(h.released)
	h.vacate()
	if h.alone {
		h.session.lose(&LostError{Reason: LostClosed})
	}
}

// passed ends a hold whose place is another's now, or is kept.
func (h *Hold) passed() { h.cancel(errReleased) }

// unregister takes the hold from its session, so that its place can be another's.
// It reports false if the place is to be given up.
func (h *Hold) unregister() bool {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil || h.wasAsked || h.pinned {
		return false
	}
	h.handed = true
	delete(s.holds, h)
	if h.expiry != nil {
		h.expiry.Stop()
	}
	return true
}

// published reports whether the entry shows something of this hold, or is about to.
func (h *Hold) published() bool {
	h.session.mu.Lock()
	stored := h.stored
	h.session.mu.Unlock()
	if stored == nil {
		return false
	}
	select {
	case stored.writing <- struct{}{}:
		defer func() { <-stored.writing }()
		return stored.entry.Version != h.entry.Version
	default:
		return true
	}
}

// next makes the next hold of a place whose last one was unregistered, or returns
// nil if that can't be.
func (t stint) next(ctx context.Context, l *lockable) *Hold {
	t.passes++
	h := newHold(ctx, l, t, time.Now())
	alive, broken := h.register()
	if alive && broken == nil {
		return h
	}
	h.cancel(errReleased)
	return nil
}

// vacate lets others of the process take the lock by a place of their own.
func (h *Hold) vacate() {
	if h.relay != nil {
		h.relay.vacate(h)
	}
}
