package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// Break takes a lock from who holds it, or a place in line from who waits: it
// removes the entry as it was seen in the queue of the lock called name, by Lock,
// Objects or Watch, and never another. The reason, 1 to 256 bytes, is told to the
// owner: a holder's context ends with a *LostError whose reason is LostBroken and
// which says who and why, a waiter's Lock returns that error.
//
// The owner is told first. Its context ends, its work gets half of BreakGrace to
// stop (or an eighth of its session's TTL, if that is less), and it removes the
// entry itself. If it has not done so within ClientOptions.BreakGrace, Break
// removes the entry. An owner that could not be told, because it is paused or cut
// off, may go on working until it looks: only a resource that checks the token
// refuses such late work.
//
// Break returns nil when the entry is gone by the word of the service. It returns
// ErrConflict, and touches nothing, if the entry is not in the queue any more when
// Break begins; ErrInvalid, ErrDenied or ErrClosed; and ErrUnavailable or the
// context's error, after which the entry may or may not be gone. It costs two
// reads and two or three commits.
func (c *Client) Break(ctx context.Context, name string, entry Entry, reason string) error {
	if err := validateAsking(name, reason); err != nil {
		return err
	}
	if entry.ID == "" {
		return &InvalidError{Field: "entry", Problem: "has no ID"}
	}
	target, err := c.find(ctx, name, entry)
	if err != nil {
		return fmt.Errorf("break lock %q: %w", name, err)
	}
	if target == nil {
		return fmt.Errorf("break lock %q: %w: entry %s is not in the queue any more", name, ErrConflict, entry.ID)
	}
	note := notice{Kind: noticeBreak, Why: reason, Grace: c.opts.BreakGrace.Milliseconds()}
	told, err := c.tell(ctx, name, *target, note)
	if err != nil {
		return fmt.Errorf("break lock %q: %w", name, err)
	}
	if told != nil {
		grace, cancel := context.WithTimeout(ctx, c.opts.BreakGrace)
		defer cancel()
		if c.awaitGone(grace, told.session, name, entry) == nil {
			told.abandon()
			return nil
		}
		defer c.start(func() { // an owner that was slow to hear of it may yet do so
			pause(c.ctx, noticeTime)
			told.abandon()
		})
	}
	if err := c.remove(ctx, *target); err != nil {
		return fmt.Errorf("break lock %q: %w", name, err)
	}
	return nil
}

// noticeTime is for how long a notice stays whose owner did not heed it.
const noticeTime = 10 * time.Second

// Ask asks those who hold the lock called name to release it, for a reason of 1 to
// 256 bytes, and waits until all of them have done so; see Hold.Asked. It returns
// nil then, and at once if nobody holds the lock. Those who wait in line are not
// asked, and may hold the lock when Ask returns.
//
// When ctx ends first, the request is withdrawn and the error is a *HeldError that
// names a holder and matches the context's error. Other errors are ErrUnavailable,
// also when ctx ends before the service has confirmed the request, ErrDenied, ErrInvalid, ErrLost if the session ended meanwhile, and ErrClosed. It
// costs two commits for each holder.
func (c *Client) Ask(ctx context.Context, name, reason string) error {
	if err := validateAsking(name, reason); err != nil {
		return err
	}
	lock, err := c.Lock(ctx, name)
	if err != nil {
		return fmt.Errorf("ask for lock %q: %w", name, err)
	}
	sessions := make([]*session, len(lock.Holders()))
	for i, e := range lock.Holders() {
		told, err := c.tell(ctx, name, e.stored, notice{Kind: noticeAsk, Why: reason})
		if told != nil {
			defer told.abandon()
			sessions[i] = told.session
		} else if err == nil {
			sessions[i], err = c.session(ctx)
		}
		if err != nil {
			return fmt.Errorf("ask for lock %q: %w", name, err)
		}
	}
	for i, e := range lock.Holders() {
		err := c.awaitGone(ctx, sessions[i], name, e)
		if ctx.Err() != nil {
			return &HeldError{Name: name, Holder: e.Owner, Since: e.Since, Err: ctx.Err()}
		}
		if err != nil {
			return fmt.Errorf("ask for lock %q: %w", name, err)
		}
	}
	return nil
}

func validateAsking(name, reason string) error {
	if err := validateName(name); err != nil {
		return err
	}
	if reason == "" {
		return &InvalidError{Field: "reason", Problem: "is empty"}
	}
	if problem := textProblem(reason, maxText); problem != "" {
		return &InvalidError{Field: "reason", Problem: problem}
	}
	return nil
}

// find returns an entry of the queue as it is now, or nil if it is gone. Another
// program can use an ID again, but not a revision.
func (c *Client) find(ctx context.Context, name string, entry Entry) (*driver.Entry, error) {
	entries, err := c.list(ctx, driver.Scope{Space: driver.SpaceLock, Name: name})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.ID == entry.ID && token(e) == entry.Token })
	if i < 0 {
		return nil, nil
	}
	return &entries[i], nil
}

// tell enters a notice into the inbox of the entry's session. It returns no seat
// for an entry of another program, which reads no notices.
func (c *Client) tell(ctx context.Context, name string, entry driver.Entry, n notice) (*seat, error) {
	if _, ours := readNote(entry.Value); !ours || entry.Session == "" {
		return nil, nil
	}
	n.Lock, n.Entry, n.Owner, n.At = name, entry.ID, c.opts.Owner, time.Now().UTC()
	value, err := json.Marshal(n)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	return c.enter(ctx, name, driver.Queue{Space: driver.SpaceInbox, Name: entry.Session}, value)
}

// awaitGone returns nil when the entry is gone from the queue.
func (c *Client) awaitGone(ctx context.Context, s *session, name string, entry Entry) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for backoff := firstPause; ; {
		target, err := c.find(ctx, name, entry)
		if err == nil && target == nil {
			return nil
		}
		if err == nil {
			err = s.drv.Await(ctx, *target)
		}
		switch {
		case s.over():
			return s.err(name)
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			backoff = firstPause
			continue
		case errors.Is(err, driver.ErrGone): // for the list to confirm
		case permanent(err), errors.Is(err, ErrClosed), errors.Is(err, ErrDenied):
			return fault(err)
		}
		pause(ctx, jitter(backoff))
		backoff = nextPause(backoff)
	}
}

// remove removes the entry of another. It repeats that for as long as the context
// lets it: an entry that is gone stays gone.
func (c *Client) remove(ctx context.Context, target driver.Entry) error {
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		s, err := c.session(ctx)
		if err != nil {
			return err
		}
		err = s.drv.Leave(ctx, target)
		switch {
		case err == nil, errors.Is(err, driver.ErrGone):
			return nil
		case errors.Is(err, driver.ErrSessionOver):
			s.lose(&LostError{Reason: LostSession, Err: err}) // the next one can do it
		case permanent(err):
			return fault(err)
		}
		pause(ctx, jitter(backoff))
		if ctx.Err() != nil {
			return fmt.Errorf("%w: outcome unknown: %w", fault(err), ctx.Err())
		}
	}
}
