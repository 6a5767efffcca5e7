package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A DoubleBarrier has an exact number of members begin together and end together,
// again and again. Enter waits until so many are there, Leave waits until all of
// them have left. All methods may be called at the same time.
//
// # Guarantees
//
//   - A round begins when the exact number of members is there at one moment: the
//     first in line. Who comes late, or early for the next round, waits until all of
//     this round have left, and is then in the next.
//   - Who gives up in time is not counted, nor is who has died: the round waits for
//     another. If the round begins while a member gives up, either the member is in
//     it, and Enter says so, or it is not counted.
//   - A member that dies inside has left.
//
// # Non-guarantees
//
//   - A member that loses its session as the round begins may have been counted. It
//     has left then. So may one that gives up while the service does not answer.
//
// # Costs
//
// Entering is one commit, and one more for each round; the beginning of a round
// wakes all its members. Who gives up writes once, which wakes those who wait.
type DoubleBarrier struct {
	lockable
	rounds *Register[rounds]
	count  int
	note   template
}

// rounds is what all agree on. The members of a round are in it for as long as
// their entries exist.
type rounds struct {
	Count   int      `json:"count"`             // of members in a round
	Number  uint64   `json:"number"`            // of the latest round
	Members []string `json:"members,omitempty"` // of the latest round, by their entries
	Quit    []string `json:"quit,omitempty"`    // entries that don't count any more
}

// maxMembers is as many as a round can have: their entries' names, and those of who gave
// up, are one value of the service.
const maxMembers = 2000

// DoubleBarrier makes a double barrier called name for count members, by the rules
// of Client.Mutex. It sends nothing. It returns ErrInvalid if the name is unfit or
// count is not 1 to 2000.
func (c *Client) DoubleBarrier(name string, count int) (*DoubleBarrier, error) {
	if count < 1 || count > maxMembers {
		return nil, &InvalidError{Field: "count", Problem: fmt.Sprintf("is %d, not between 1 and %d", count, maxMembers)}
	}
	l, err := c.lockable(name, nil)
	if err != nil {
		return nil, err
	}
	l.queue.Space = driver.SpaceDoubleBarrier
	state, err := newRegister[rounds](c, driver.SpaceRound, name)
	return &DoubleBarrier{l, state, count, newTemplate(KindDoubleBarrier, "", l.owner)}, err
}

// Name is the name of the double barrier.
func (b *DoubleBarrier) Name() string { return b.name }

// Enter waits until the round begins. When the context ends first it withdraws,
// for which it waits for the service, CloseTimeout for each of two requests at the
// most, and returns the context's error; if the round began before it could, it returns
// nil and is inside.
//
// It returns ErrConflict if others use another count, ErrLost when the session
// ends, ErrUnavailable when no session can be opened, and with the context's error
// when the service did not confirm that it withdrew, ErrDeadlock when the context
// is that of a member inside, ErrDenied and ErrClosed.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Crossing, error) {
	if holdsAlready(ctx, b.client, b.queue) {
		return nil, fmt.Errorf("double barrier %q: the caller is inside: %w", b.name, ErrDeadlock)
	}
	if err := b.agree(ctx); err != nil {
		return nil, err
	}
	// An entry that may exist must be withdrawn like any other, so the reply is
	// waited for.
	patient, cancel := b.client.patient(ctx)
	defer cancel()
	st, err := b.client.enter(patient, b.name, b.queue, b.note.at(time.Now()))
	if err != nil {
		return nil, err
	}
	e := &entrant{barrier: b, seat: st, caller: ctx}
	if err := st.insist(context.WithoutCancel(ctx), e.step); err != nil {
		return nil, err
	}
	if e.gaveUp != nil {
		st.abandon()
		return nil, fmt.Errorf("double barrier %q: gave up waiting for others: %w", b.name, e.gaveUp)
	}
	hold, err := st.grant(ctx, &b.lockable)
	if err != nil {
		return nil, err
	}
	return &Crossing{barrier: b, hold: hold, members: e.members}, nil
}

// patient is a context that goes on for CloseTimeout after ctx has ended.
func (c *Client) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		pause(patient, c.opts.CloseTimeout)
		cancel()
	})
	return patient, func() { stop(); cancel() }
}

// agree makes sure that all use the same count.
func (b *DoubleBarrier) agree(ctx context.Context) error {
	for {
		stored, err := b.rounds.Get(ctx)
		if err != nil {
			return err
		}
		if stored.Version != 0 {
			return b.check(stored.Value)
		}
		_, err = b.rounds.CompareAndSwap(ctx, 0, rounds{Count: b.count})
		if !errors.Is(err, ErrConflict) && (!errors.Is(err, errUnsettled) || ctx.Err() != nil) {
			return err // nobody else was first
		}
	}
}

func (b *DoubleBarrier) check(r rounds) error {
	if r.Count != b.count {
		return fmt.Errorf("double barrier %q: %w: it is for %d members, not %d", b.name, ErrConflict, r.Count, b.count)
	}
	return nil
}

// entries lists who is inside or waits.
func (b *DoubleBarrier) entries(ctx context.Context) ([]driver.Entry, error) {
	return b.client.store.List(ctx, driver.Scope{Space: b.queue.Space, Name: b.queue.Name})
}

// An entrant waits for a round to begin.
type entrant struct {
	barrier *DoubleBarrier
	seat    *seat
	caller  context.Context // bounds the waiting
	members []string        // of the round that it is in
	gaveUp  error
}

// step looks whether the round has begun, begins it if all are there, and
// otherwise waits for something to change.
//
// The state is read before the queue. Who gives up writes the state before it
// leaves the queue; so whoever begins a round with an entry that was given up
// fails to write it.
func (e *entrant) step(ctx context.Context) (bool, error) {
	b := e.barrier
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.caller, cancel)()
	old, _, state, err := b.rounds.read(waiting)
	if err == nil {
		err = b.check(state.Value)
	}
	begun := slices.Contains(state.Value.Members, e.seat.own.ID)
	var entries []driver.Entry
	if err == nil && !begun {
		entries, err = b.entries(waiting)
	}
	switch {
	case e.caller.Err() != nil:
		return e.withdraw(ctx)
	case err != nil:
		return false, err
	case begun:
		e.members = state.Value.Members
		return true, nil
	}
	line := state.Value.line(entries)
	switch {
	case !slices.Contains(line.all, e.seat.own.ID):
		return false, driver.ErrGone
	case line.inside != nil: // late for this round
		err = e.seat.session.drv.Await(waiting, *line.inside)
	case len(line.waiting) >= b.count:
		next := rounds{Count: b.count, Number: state.Value.Number + 1, Members: line.waiting[:b.count], Quit: line.quit}
		if _, _, err = b.rounds.write(waiting, old, next); errors.Is(err, ErrConflict) {
			err = nil // another has written: look what
		}
	default:
		err = e.seat.session.drv.Await(waiting, old)
	}
	if e.caller.Err() != nil {
		return e.withdraw(ctx)
	}
	return false, err
}

// withdraw gives up, unless the round has begun with this entry.
func (e *entrant) withdraw(ctx context.Context) (bool, error) {
	b, id := e.barrier, e.seat.own.ID
	ctx, cancel := context.WithTimeout(ctx, b.client.opts.CloseTimeout)
	defer cancel()
	state, err := b.rounds.Update(ctx, func(r rounds) (rounds, error) {
		if slices.Contains(r.Members, id) {
			return r, errOpen
		}
		entries, err := b.entries(ctx) // after the state: who quit and is not there now has left
		if err != nil {
			return r, err
		}
		r.Quit = append(r.line(entries).quit, id)
		return r, nil
	})
	switch {
	case errors.Is(err, errOpen):
		e.members = state.Value.Members
	case err != nil:
		e.gaveUp = fmt.Errorf("%w: %w: %w", ErrUnavailable, e.caller.Err(), err)
	default:
		e.gaveUp = e.caller.Err()
	}
	return true, nil
}

// line is how the entries stand to a round, by their IDs.
type line struct {
	all     []string
	waiting []string      // in order, for the next round
	quit    []string      // gave up, and are still there
	inside  *driver.Entry // one that is in the round, or nil
}

func (r rounds) line(entries []driver.Entry) (l line) {
	for i, e := range entries {
		l.all = append(l.all, e.ID)
		switch {
		case slices.Contains(r.Members, e.ID):
			l.inside = &entries[i]
		case slices.Contains(r.Quit, e.ID):
			l.quit = append(l.quit, e.ID)
		default:
			l.waiting = append(l.waiting, e.ID)
		}
	}
	return l
}

// A Crossing is one member's being inside a DoubleBarrier, from Enter to Leave.
// The zero value is of no use. All methods may be called at the same time.
type Crossing struct {
	barrier *DoubleBarrier
	hold    *Hold
	members []string // of the round
}

// Context ends when the member's session is lost, so that others see it as having
// left, or when Leave begins. See Hold.Context.
func (c *Crossing) Context() context.Context { return c.hold.Context() }

// Deadline is when the member's session is lost if no further renewal succeeds.
func (c *Crossing) Deadline() time.Time { return c.hold.Deadline() }

// Leave leaves, and waits until all members of the round have left or died. When
// the context ends first it returns the context's error; the member has left all
// the same, in the background if need be, and Leave can be called again to wait.
// If the member's session was lost it waits as well and returns ErrLost. While the
// service can't be reached the wait goes on.
func (c *Crossing) Leave(ctx context.Context) error {
	left := c.hold.Unlock(ctx)
	if left != nil && !errors.Is(left, ErrLost) {
		return left
	}
	if left == nil && c.awaitOthers(ctx) {
		return nil
	}
	b := c.barrier
	var queue []Entry
	synced := false
	for change, err := range b.client.follow(ctx, driver.Scope{Space: b.queue.Space, Name: b.queue.Name}) {
		if err != nil {
			return errors.Join(left, fmt.Errorf("double barrier %q: %w", b.name, err))
		}
		switch change.Kind {
		case ObjectChanged:
			queue = change.Object.Entries
		case WatchSynced:
			synced = true
		}
		if synced && !slices.ContainsFunc(queue, func(e Entry) bool { return c.inside(e.ID) }) {
			return left
		}
	}
	return errors.Join(left, fmt.Errorf("double barrier %q: others are inside still: %w", b.name, ctx.Err()))
}

// inside reports whether an entry is in the round.
func (c *Crossing) inside(id string) bool { return slices.Contains(c.members, id) }

// awaitOthers waits for those who are inside, one after the other, by the member's
// session. That is sooner than a watch of the queue, which etcd serves late in its first
// tenth of a second. It reports false if it can't tell, such as without a session.
func (c *Crossing) awaitOthers(ctx context.Context) bool {
	s := c.hold.session
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for {
		entries, err := c.barrier.entries(ctx)
		if err != nil {
			return false
		}
		i := slices.IndexFunc(entries, func(e driver.Entry) bool { return c.inside(e.ID) })
		if i < 0 {
			return true
		}
		if err := s.drv.Await(ctx, entries[i]); err != nil {
			return false
		}
	}
}
