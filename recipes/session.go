package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A session is a driver's session under supervision. It renews it, and ends it
// locally when the deadline passes, with or without word from the service.
//
// The deadline is: start of the last renewal that succeeded, plus TTL, minus a
// margin. The service received that renewal later than it was started and keeps
// the session for at least the TTL from then on, so the deadline is earlier than
// the moment at which the service can give a lock to someone else. No reply is
// needed to know it.
type session struct {
	client *Client
	drv    driver.Session
	id     string // the driver's, of which all entries of the session keep one copy

	ctx  context.Context // ends with the session; its cause is a *LostError
	end  context.CancelCauseFunc
	gone chan error // one value: how closing the driver's session ended

	mu       sync.Mutex
	deadline time.Time // with both clock readings
	holds    map[*Hold]struct{}
	waiting  map[*seat]context.CancelFunc
	lost     *LostError
	inbox    inbox
	keeping  map[*relay]struct{} // that may keep a place which nobody holds

	listening sync.Once
}

// The session's times, as parts of its TTL.
const (
	marginPart  = 8  // the deadline is this part of the TTL early
	renewPart   = 4  // renewals start, and are given up, after this part
	backoffPart = 20 // a renewal that failed is repeated after this part
)

// newSession takes over a driver's session whose opening began at start.
func newSession(c *Client, drv driver.Session, start time.Time) *session {
	s := &session{client: c, drv: drv, id: drv.ID(), gone: make(chan error, 1), holds: map[*Hold]struct{}{},
		waiting: map[*seat]context.CancelFunc{}, keeping: map[*relay]struct{}{}, inbox: inbox{notices: map[string]notice{}}}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.prove(start)
	c.wg.Go(s.keep)
	return s
}

func (s *session) margin() time.Duration { return s.drv.TTL() / marginPart }

// prove moves the deadline: the session was alive after start.
func (s *session) prove(start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = start.Add(s.drv.TTL() - s.margin())
}

// left is the time until the deadline. The monotonic clock stands still while
// the machine is suspended and the wall clock may be set back, so the clock that
// leaves less time counts.
func (s *session) left(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.deadline.Sub(now), s.deadline.Round(0).Sub(now.Round(0)))
}

// keep renews the session until it ends. It is the session's one goroutine; the
// renewal itself runs in another, bounded by its own context.
func (s *session) keep() {
	ttl := s.drv.TTL()
	type outcome struct {
		start time.Time
		err   error
	}
	outcomes := make(chan outcome, 1)
	renew := time.NewTimer(ttl / renewPart)
	defer renew.Stop()
	check := time.NewTimer(0)
	defer check.Stop()
	var lastErr error
	for {
		left := s.left(time.Now())
		if left <= 0 {
			s.lose(&LostError{Reason: LostExpired, Err: lastErr})
		}
		check.Reset(min(left, s.margin()/2)) // often enough to notice a suspended machine
		select {
		case <-s.ctx.Done():
			s.dispose()
			return
		case <-s.drv.Done():
			s.lose(&LostError{Reason: LostSession})
		case <-check.C:
		case <-renew.C:
			s.client.wg.Go(func() {
				ctx, cancel := context.WithTimeout(s.ctx, ttl/renewPart)
				defer cancel()
				start := time.Now()
				outcomes <- outcome{start, s.drv.Renew(ctx)}
			})
		case o := <-outcomes:
			switch {
			case o.err == nil:
				s.prove(o.start)
				lastErr = nil
				renew.Reset(time.Until(o.start.Add(ttl / renewPart)))
			case errors.Is(o.err, driver.ErrSessionOver), errors.Is(o.err, driver.ErrClosed):
				s.lose(&LostError{Reason: LostSession, Err: o.err})
			case errors.Is(o.err, driver.ErrGone): // of a lease
				s.lose(&LostError{Reason: LostUnknown, Err: o.err})
			default:
				lastErr = fault(o.err)
				renew.Reset(ttl / backoffPart)
			}
		}
	}
}

// lose ends the session locally, holds first. Only the first reason counts.
func (s *session) lose(why *LostError) {
	s.mu.Lock()
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	s.lost = why
	holds := s.holds
	s.holds = nil
	s.mu.Unlock()

	for h := range holds {
		h.cancel(&LostError{Name: h.lock.name, Reason: why.Reason, Err: why.Err})
		h.vacate()
	}
	s.end(why)
}

// dispose has the service remove what is left of the session: until it confirms
// or, once the client is closed, for CloseTimeout at most. After an expiry it
// leaves the holders the margin to end their work, which the service would have
// left them too.
func (s *session) dispose() {
	if s.reason() == LostExpired {
		pause(s.client.ctx, s.margin())
	}
	var err error
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		ctx, cancel := context.WithTimeout(context.Background(), s.client.opts.CloseTimeout)
		err = s.drv.Close(ctx)
		cancel()
		if err == nil || permanent(err) || s.client.ctx.Err() != nil {
			break
		}
		pause(s.client.ctx, jitter(backoff))
	}
	if errors.Is(err, driver.ErrSessionOver) {
		err = nil
	}
	s.gone <- err
}

// over reports whether the session has ended.
func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}

func (s *session) reason() Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost.Reason
}

// err is why the session ended, told of the lock called name.
func (s *session) err(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		return nil
	}
	if s.lost.Reason == LostClosed {
		return ErrClosed
	}
	return &LostError{Name: name, Reason: s.lost.Reason, Err: s.lost.Err}
}

// leave removes an entry. It goes on until the service confirms, or until the
// session ends, which removes it too. An entry that is gone after a call whose
// outcome is unknown was removed by that call.
func (s *session) leave(name string, entry driver.Entry) error {
	unsettled := false
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		ctx, cancel := context.WithTimeout(s.ctx, s.drv.TTL()/renewPart)
		err := s.drv.Leave(ctx, entry)
		cancel()
		switch {
		case err == nil, unsettled && errors.Is(err, driver.ErrGone):
			return nil
		case errors.Is(err, driver.ErrGone):
			return &LostError{Name: name, Reason: LostBroken}
		case errors.Is(err, driver.ErrSessionOver):
			return &LostError{Name: name, Reason: LostSession, Err: err}
		case s.ctx.Err() != nil:
			return s.err(name)
		case permanent(err):
			s.client.start(func() { s.insistOnLeaving(entry) })
			return fmt.Errorf("release %q: %w", name, fault(err))
		}
		unsettled = true
		pause(s.ctx, jitter(backoff))
	}
}

// insistOnLeaving removes an entry although that was refused before: rights can be given
// back, and nobody else removes it while the session lives.
func (s *session) insistOnLeaving(entry driver.Entry) {
	for s.ctx.Err() == nil {
		pause(s.ctx, jitter(2*lastPause))
		ctx, cancel := context.WithTimeout(s.ctx, s.drv.TTL()/renewPart)
		err := s.drv.Leave(ctx, entry)
		cancel()
		if err == nil || errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrSessionOver) || errors.Is(err, driver.ErrClosed) {
			return
		}
	}
}

// missing asks the service why an entry was not in a list of its queue, which does not tell.
// It returns nil if the entry is there after all, or, and then not known, if that can't be
// said now.
func (s *session) missing(ctx context.Context, name string, own driver.Entry) (known bool, why error) {
	_, err := s.drv.Ahead(ctx, own)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, driver.ErrGone):
		return true, &LostError{Name: name, Reason: LostBroken}
	case errors.Is(err, driver.ErrSessionOver):
		s.lose(&LostError{Reason: LostSession, Err: err})
		return true, s.err(name)
	}
	return false, nil
}

const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

func nextPause(d time.Duration) time.Duration { return min(2*d, lastPause) }

// jitter is between half of d and d, so that many clients don't act at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// pause waits, or returns when the context ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
