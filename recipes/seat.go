package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A seat is a place in a queue, from before it is confirmed until it is left.
// It is what every recipe that takes turns is made of.
type seat struct {
	session *session
	name    string // for errors
	own     driver.Entry
	ahead   *driver.Entry // what is in the way, as far as is known; nil for nothing
	shared  bool          // other shared entries ahead are not in the way
	broken  *LostError    // under session.mu: it was broken while it waited

	relay *relay // whose the seat is, which can use it when the wait for it is given up
	spare bool   // the wait was given up, and the seat was not
}

// enterAttempts bounds how many sessions one call goes through before it has a
// place.
const enterAttempts = 3

// enter takes a place at the end of the queue. A session of which the service says
// meanwhile that it is over, and so has no entry, is replaced.
func (c *Client) enter(ctx context.Context, name string, queue driver.Queue, value []byte) (*seat, error) {
	for attempt := 1; ; attempt++ {
		s, err := c.session(ctx)
		if err != nil {
			return nil, fmt.Errorf("lock %q: %w", name, err)
		}
		st, err := s.take(ctx, name, queue, value)
		if lost := (*LostError)(nil); errors.As(err, &lost) && lost.Reason == LostSession && attempt < enterAttempts {
			continue
		}
		return st, err
	}
}

// take enters the queue. The context bounds the waiting for the reply; when it
// ends first, the entry is removed in the background, whenever the service tells
// that it exists.
func (s *session) take(ctx context.Context, name string, queue driver.Queue, value []byte) (*seat, error) {
	st := &seat{session: s, name: name} // the goroutine's until it is done
	done := make(chan error, 1)
	if !s.client.start(func() {
		own, ahead, err := s.drv.Enter(s.ctx, queue, value)
		if own.Session == s.id {
			own.Session = s.id // one copy for all entries
		}
		st.own, st.ahead = own, ahead
		done <- err
	}) {
		return nil, ErrClosed
	}
	select {
	case err := <-done:
		switch {
		case err == nil && st.own.Revision > maxRevision:
			st.abandon()
			return nil, fmt.Errorf("lock %q: revision %d is too large for a fencing token", name, st.own.Revision)
		case err == nil:
			return st, nil
		case errors.Is(err, driver.ErrSessionOver):
			s.lose(&LostError{Reason: LostSession, Err: err})
			return nil, &LostError{Name: name, Reason: LostSession, Err: err}
		case s.over():
			return nil, s.err(name)
		}
		return nil, fmt.Errorf("lock %q: %w", name, fault(err))
	case <-ctx.Done():
		s.client.start(func() { // if the client is closed, its session's end removes the entry
			if err := <-done; err == nil {
				_ = s.leave(name, st.own) // whatever it says, the entry is gone
			}
		})
		return nil, fmt.Errorf("lock %q: %w: no reply to the request to enter the queue: %w", name, ErrUnavailable, ctx.Err())
	}
}

// unseen gives the seat up, and returns the error of who could not see how it stands.
func (st *seat) unseen(ctx context.Context, err error) error {
	if errors.Is(err, driver.ErrGone) { // a list does not tell why
		if _, why := st.session.missing(ctx, st.name, st.own); why != nil {
			return why
		}
		err = errors.New("the service does not say how the place in the queue stands")
	}
	st.abandon()
	return fmt.Errorf("lock %q: %w", st.name, fault(err))
}

// wait returns when nothing is in the way any more. On error the seat is given up.
func (st *seat) wait(ctx context.Context) error {
	if st.ahead == nil {
		return nil
	}
	return st.insist(ctx, func(ctx context.Context) (bool, error) {
		if st.ahead == nil {
			return true, nil
		}
		looked, awaited := st.await(ctx)
		switch {
		case awaited != nil && (permanent(awaited) || ctx.Err() != nil):
			return false, awaited
		case looked && (awaited == nil || errors.Is(awaited, driver.ErrGone)):
			return st.ahead == nil, awaited
		}
		// After waiting has failed too: where only that does not work, the lock is
		// found free all the same, if later.
		if err := st.look(ctx); err != nil || st.ahead == nil {
			return err == nil, err
		}
		return false, awaited
	})
}

// await waits for what is in the way, and reports whether it knows what is in the
// way then.
func (st *seat) await(ctx context.Context) (looked bool, err error) {
	drv := st.session.drv
	if st.shared {
		if st.ahead.Revision == 0 || !st.blockedBy(*st.ahead) {
			return false, nil
		}
		return false, drv.Await(ctx, *st.ahead)
	}
	advancer, ok := drv.(driver.Advancer)
	if !ok {
		return false, drv.Await(ctx, *st.ahead)
	}
	ahead, err := advancer.Advance(ctx, st.own, *st.ahead)
	if err == nil {
		st.ahead = ahead
	}
	return true, err
}

// insist takes steps until one says that the waiting is over. Steps that fail
// are repeated for as long as that can help. On error the seat is given up, or
// spare.
func (st *seat) insist(ctx context.Context, step func(ctx context.Context) (done bool, err error)) error {
	s := st.session
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	s.listen()
	s.expect(st, cancel)
	defer func() {
		if !st.spare { // or else it is told of a break until another has it
			s.unexpect(st)
		}
	}()

	for backoff := firstPause; ; {
		done, err := step(both)
		broken := s.brokenSeat(st)
		switch {
		case broken != nil:
			st.abandon()
			return broken
		case err == nil && done:
			return nil
		case err == nil:
			backoff = firstPause
			continue
		case s.over():
			return s.err(st.name)
		case errors.Is(err, driver.ErrSessionOver):
			s.lose(&LostError{Reason: LostSession, Err: err})
			return s.err(st.name)
		case errors.Is(err, driver.ErrGone):
			// An entry that is there after all must not be left behind.
			if _, why := s.missing(both, st.name, st.own); why != nil {
				return why
			}
		case ctx.Err() != nil:
			if st.spare = st.relay != nil; !st.spare {
				st.abandon()
			}
			return st.held(ctx.Err())
		case permanent(err):
			st.abandon()
			return fmt.Errorf("lock %q: %w", st.name, fault(err))
		}
		pause(both, jitter(backoff))
		backoff = nextPause(backoff)
	}
}

// blockedBy reports whether an entry ahead is in the way.
func (st *seat) blockedBy(ahead driver.Entry) bool { return !st.shared || !isShared(ahead) }

// look finds what is in the way now: the entry directly ahead or, for a shared
// seat, the last exclusive one ahead. All shared seats behind the same exclusive
// one wait for that one, and so are granted together.
func (st *seat) look(ctx context.Context) (err error) {
	if !st.shared {
		ahead, err := st.session.drv.Ahead(ctx, st.own)
		if err == nil {
			st.ahead = ahead
		}
		return err
	}
	q := st.own.Queue
	entries, err := st.session.client.store.List(ctx, driver.Scope{Space: q.Space, Name: q.Name, Raw: q.Raw})
	if err != nil {
		return err
	}
	var blocker *driver.Entry
	for i, e := range entries {
		switch {
		case e.ID == st.own.ID:
			st.ahead = blocker
			return nil
		case st.blockedBy(e):
			blocker = &entries[i]
		}
	}
	return driver.ErrGone
}

// abandon leaves the queue in the background.
func (st *seat) abandon() {
	st.session.client.start(func() {
		_ = st.session.leave(st.name, st.own) // whatever it says, the entry is gone
	})
}

// held is the error that names who is ahead.
func (st *seat) held(cause error) error {
	err := &HeldError{Name: st.name, Err: cause}
	if st.ahead != nil {
		if n, ok := readNote(st.ahead.Value); ok {
			err.Holder, err.Since = n.Owner, n.Since
		}
	}
	return err
}
