package recipes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// LeaseMutexOptions adjust a LeaseMutex. A nil *LeaseMutexOptions means all defaults.
type LeaseMutexOptions struct {
	// Label, MinHold, MaxHold, Kind and Publish are as in MutexOptions.
	Label   string
	MinHold time.Duration
	MaxHold time.Duration
	Kind    Kind
	Publish any
}

// A LeaseMutex is a lock that one holder at a time has, among all processes that use
// the same store and name. Who waits gets it in any order: the store keeps no queue.
//
// It is made by LeaseClient.Mutex, sends nothing until it is used, and needs no closing.
// All methods may be called at the same time. It is not reentrant: a context that comes
// from a hold of the same lock and client is refused with ErrDeadlock. Most callers want
// Do.
type LeaseMutex struct {
	lockable
	core *leaseCore
	note template
	line chan struct{}                // has a value while a goroutine asks the store: the others wait for it
	seen atomic.Pointer[driver.Lease] // who has it, as that goroutine was told last; nil if it is not known
}

// Mutex makes a lock called name, by the rules of Client.Mutex. A nil opts means all
// defaults. It returns ErrInvalid when the name or an option is out of range.
func (c *LeaseClient) Mutex(name string, opts *LeaseMutexOptions) (*LeaseMutex, error) {
	return c.mutex(name, opts)
}

func (c *leaseCore) mutex(name string, opts *LeaseMutexOptions) (*LeaseMutex, error) {
	var o LeaseMutexOptions
	if opts != nil {
		o = *opts
	}
	l, err := c.client.lockable(name, &MutexOptions{
		Label: o.Label, MinHold: o.MinHold, MaxHold: o.MaxHold, Kind: o.Kind, Publish: o.Publish,
	})
	if err != nil {
		return nil, err
	}
	return &LeaseMutex{lockable: l, core: c, note: l.note(KindMutex, ""), line: make(chan struct{}, 1)}, nil
}

// Name is the name of the lock.
func (m *LeaseMutex) Name() string { return m.name }

// Lock waits until the lock is held. The context bounds the waiting, not the life of
// the hold; when it ends the error matches the context's, and ErrHeld if someone else
// holds the lock, else ErrUnavailable. What a request to the store may have done that
// got no reply is undone in the background.
//
// While Lock waits it rides out failures of the store. It returns ErrDenied when the
// store refuses the credentials, ErrDeadlock when the context is that of a hold of the
// same lock, and ErrClosed when the client is closed.
func (m *LeaseMutex) Lock(ctx context.Context) (*Hold, error) {
	if err := m.refuseReentry(ctx); err != nil {
		return nil, err
	}
	select {
	case m.line <- struct{}{}:
		defer func() {
			m.seen.Store(nil)
			<-m.line
		}()
	case <-ctx.Done():
		return nil, (&leaseWait{mutex: m, holder: m.seen.Load()}).gaveUp(ctx)
	case <-m.client.ctx.Done():
		return nil, ErrClosed
	}
	defer m.core.expect(m.name)()
	w := &leaseWait{mutex: m, want: m.lease()}
	defer w.end()
	for {
		freed := m.core.await(m.name)
		hold, err := w.attempt(ctx)
		m.seen.Store(w.holder)
		if hold != nil || err != nil {
			return hold, err
		}
		w.wait(ctx, freed)
		switch {
		case m.client.ctx.Err() != nil:
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, w.gaveUp(ctx)
		}
	}
}

// TryLock returns the lock if nobody has it, and otherwise a *HeldError at once. Other
// errors are ErrUnavailable, and as for Lock.
func (m *LeaseMutex) TryLock(ctx context.Context) (*Hold, error) {
	if err := m.refuseReentry(ctx); err != nil {
		return nil, err
	}
	w := &leaseWait{mutex: m, want: m.lease()}
	defer w.end()
	hold, err := w.attempt(ctx)
	switch {
	case hold != nil || err != nil:
		return hold, err
	case w.err != nil:
		return nil, fmt.Errorf("lock %q: %w", m.name, fault(w.err))
	}
	return nil, m.inWay(w.holder, nil)
}

// Do locks, calls f and unlocks, as Mutex.Do.
func (m *LeaseMutex) Do(ctx context.Context, f func(ctx context.Context, hold *Hold) error) error {
	return do(ctx, m.Lock, m.minHold+m.client.opts.CloseTimeout, f)
}

func (m *LeaseMutex) lease() driver.Lease {
	return driver.Lease{Name: m.name, ID: rand.Text(), Value: m.note.at(time.Now())}
}

// inWay is the error of who did not get the lock because of a holder, nil if it is not
// known, or because its context ended.
func (m *LeaseMutex) inWay(holder *driver.Lease, cause error) error {
	err := &HeldError{Name: m.name, Err: cause}
	if holder != nil {
		if n, ok := readNote(holder.Value); ok {
			err.Holder, err.Since = n.Owner, n.Since
		}
	}
	return err
}

// A leaseWait is one call that wants a lease, under one ID.
type leaseWait struct {
	mutex  *LeaseMutex
	want   driver.Lease
	undo   chan bool     // tells who is there to undo it whether that is to be done; nil while nothing is unsettled
	holder *driver.Lease // who had it at the last attempt
	err    error         // why the last attempt told nothing
	pause  time.Duration

	watching chan (<-chan struct{}) // has the watch once it has begun
	watch    <-chan struct{}        // of releases; nil while there is none
	unwatch  func()                 // nil before there was one
}

// end undoes what is unsettled.
func (w *leaseWait) end() {
	if w.unwatch != nil {
		w.unwatch()
	}
	w.settled(true)
}

// unsettled notes that a request without a reply may have taken the lease, or may take it
// yet. From then on there is a goroutine to undo that, which Close waits for.
func (w *leaseWait) unsettled() {
	if w.undo != nil {
		return
	}
	core, want, undo := w.mutex.core, w.want, make(chan bool, 1)
	if core.client.start(func() {
		if <-undo {
			core.takeBack(want)
		}
	}) {
		w.undo = undo
	}
}

// settled ends that, and says whether it is to be undone.
func (w *leaseWait) settled(undo bool) {
	if w.undo != nil {
		w.undo <- undo
		w.undo = nil
	}
}

// takeBack releases a lease that was perhaps granted, until the store confirms or the lease
// has expired; once the client is closed, one more time. It is called in a goroutine of
// the client.
func (c *leaseCore) takeBack(want driver.Lease) {
	expired := time.Now().Add(c.ttl)
	for backoff := firstPause; time.Now().Before(expired); backoff = nextPause(backoff) {
		open := c.client.ctx
		closing := open.Err() != nil
		if closing {
			open = context.Background()
		}
		ctx, cancel := context.WithTimeout(open, c.client.opts.CloseTimeout)
		err := c.leaser.Release(ctx, want)
		cancel()
		if err == nil || permanent(err) && !errors.Is(err, driver.ErrGone) || closing {
			return
		}
		pause(c.client.ctx, jitter(backoff)) // also if it is gone: the request may be on its way
	}
}

// unknown reports whether the request that failed may have been carried out.
func unknown(err error) bool {
	return err != nil && !permanent(err) && !errors.Is(err, driver.ErrTaken)
}

// attempt asks for the lease once. It returns neither hold nor error if another has it,
// or if nothing is known.
func (w *leaseWait) attempt(ctx context.Context) (*Hold, error) {
	type outcome struct {
		session *session
		lease   driver.Lease
		err     error
	}
	c, want := w.mutex.core, w.want
	done := make(chan outcome, 1)
	start := time.Now()
	asking, cancel := context.WithTimeout(c.client.ctx, min(c.client.opts.ConnectTimeout, c.ttl/renewPart))
	if !c.client.start(func() {
		defer cancel()
		lease, err := c.leaser.Acquire(asking, want, c.ttl)
		o := outcome{lease: lease, err: err}
		if err == nil {
			o.session = c.begin(lease, start)
		}
		done <- o
		if unknown(err) && c.client.ctx.Err() != nil {
			c.takeBack(want)
		}
	}) {
		cancel()
		return nil, ErrClosed
	}
	select {
	case o := <-done:
		if o.err == nil {
			w.settled(false)
			return w.grant(ctx, o.session, o.lease, start)
		}
		return nil, w.settle(o.lease, o.err)
	case <-ctx.Done():
		cancel()
		before := w.undo != nil
		w.settled(false)
		c.client.start(func() { // if the client is closed, that ends the session
			if o := <-done; o.session != nil {
				o.session.lose(&LostError{Reason: LostClosed})
			} else if before || unknown(o.err) {
				c.takeBack(want)
			}
		})
		return nil, w.gaveUp(ctx)
	}
}

// settle notes what an attempt has told that did not get the lease. It returns an
// error if others would not either.
func (w *leaseWait) settle(holder driver.Lease, err error) error {
	w.holder, w.err = nil, nil
	switch {
	case errors.Is(err, driver.ErrTaken):
		w.holder = &holder
		return nil
	case w.mutex.client.ctx.Err() != nil:
		return ErrClosed
	case permanent(err):
		return fmt.Errorf("lock %q: %w", w.mutex.name, fault(err))
	}
	w.err = err
	w.unsettled()
	return nil
}

// grant makes a hold of a lease.
func (w *leaseWait) grant(ctx context.Context, s *session, lease driver.Lease, start time.Time) (*Hold, error) {
	m := w.mutex
	entry := entryOfLease(lease)
	entry.Value = w.want.Value
	now := time.Now()
	h := newHold(ctx, &m.lockable, stint{spot: &spot{session: s, entry: entry, since: now, alone: true}}, now)
	if alive, _ := h.register(); !alive {
		err := s.err(m.name)
		h.cancel(err)
		if errors.Is(err, ErrClosed) {
			return nil, err
		}
		w.err = fmt.Errorf("the reply took %v, too long for a lease of %v", now.Sub(start), m.core.ttl)
		w.want = m.lease() // that session releases what it had
		return nil, nil
	}
	return h, nil
}

// gaveUp is the error of a wait whose context has ended.
func (w *leaseWait) gaveUp(ctx context.Context) error {
	if w.holder != nil {
		return w.mutex.inWay(w.holder, ctx.Err())
	}
	if w.err != nil {
		return fmt.Errorf("lock %q: %w: %w: %w", w.mutex.name, ErrUnavailable, w.err, ctx.Err())
	}
	return fmt.Errorf("lock %q: %w: no reply of the store: %w", w.mutex.name, ErrUnavailable, ctx.Err())
}

// wait returns when it is time for another attempt.
func (w *leaseWait) wait(ctx context.Context, freed <-chan struct{}) {
	c := w.mutex.core
	w.listen(ctx)
	w.pause = min(max(2*w.pause, c.poll/firstPollPart), c.poll)
	pause := jitter(w.pause)
	if w.watch != nil {
		pause = jitter(c.poll)
	}
	if w.holder != nil && w.holder.Left > 0 {
		pause = min(pause, w.holder.Left+jitter(expiryPause)) // it may have expired then
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-freed:
	case w.watch = <-w.watching: // what happened before it began is not known
	case _, ok := <-w.watch:
		if !ok {
			w.watch = nil
		}
	case <-ctx.Done():
	case <-c.client.ctx.Done():
	}
}

const (
	firstPollPart = 32                   // the first pause is this part of the longest one
	expiryPause   = 5 * time.Millisecond // after an expiry, so that it is over by the store's clock
)

// listen begins to watch for releases, once, in the background: until then the store is
// asked from time to time, which does as well, if later.
func (w *leaseWait) listen(ctx context.Context) {
	c, name := w.mutex.core, w.mutex.name
	watcher, ok := c.leaser.(driver.ReleaseWatcher)
	if !ok || w.unwatch != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.client.ctx, cancel)
	w.unwatch = func() {
		stop()
		cancel()
	}
	watching := make(chan (<-chan struct{}), 1)
	w.watching = watching
	c.client.start(func() {
		late := time.AfterFunc(c.client.opts.ConnectTimeout, cancel)
		if watch, err := watcher.Releases(ctx, name); late.Stop() && err == nil {
			watching <- watch
		}
	})
}
