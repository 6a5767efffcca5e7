package recipes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Latch opens when it was counted down as often as it says, and stays open. It
// belongs to no session: it stays when its users are gone, and a process that dies
// before it counts down keeps it closed. All methods may be called at the same
// time. For processes that wait for each other see DoubleBarrier.
//
// Counting down costs a read and a commit, and another of each for every count of
// others that came in between. Waiting costs a watch.
type Latch struct {
	state *Register[latchState]
	count int
}

type latchState struct {
	ID    string `json:"id"` // of this use of the name
	Total int    `json:"total"`
	Left  int    `json:"left"`
}

// errOpen ends an update that has nothing to do.
var errOpen = errors.New("open already")

// Latch makes a latch called name that is to be counted down from count, by the
// rules of Client.Mutex. It sends nothing. Latches have names of their own. It
// returns ErrInvalid if the name is unfit or count is less than 1.
func (c *Client) Latch(name string, count int) (*Latch, error) {
	if count < 1 || count > math.MaxInt32 {
		return nil, &InvalidError{Field: "count", Problem: fmt.Sprintf("is %d, not between 1 and %d", count, math.MaxInt32)}
	}
	state, err := newRegister[latchState](c, driver.SpaceLatch, name)
	return &Latch{state, count}, err
}

// Name is the name of the latch.
func (l *Latch) Name() string { return l.state.name }

// CountDown counts once and returns how often it has to be counted down still. An
// open latch stays as it is. It returns ErrConflict if others count from another
// number; other errors are those of Register.Update. With ErrUnavailable it may or
// may not have counted.
func (l *Latch) CountDown(ctx context.Context) (left int, err error) {
	v, err := l.state.Update(ctx, func(s latchState) (latchState, error) {
		if s.ID == "" {
			s = l.fresh()
		}
		switch {
		case s.Total != l.count:
			return s, l.conflict(s)
		case s.Left == 0:
			return s, errOpen
		}
		s.Left--
		return s, nil
	})
	if errors.Is(err, errOpen) {
		return 0, nil
	}
	return v.Value.Left, err
}

func (l *Latch) fresh() latchState {
	return latchState{ID: rand.Text(), Total: l.count, Left: l.count}
}

func (l *Latch) conflict(s latchState) error {
	return fmt.Errorf("latch %q: %w: it counts from %d, not %d", l.state.name, ErrConflict, s.Total, l.count)
}

// Left returns how often the latch has to be counted down until it opens. Errors
// are those of Register.Get, and ErrConflict if others count from another number.
func (l *Latch) Left(ctx context.Context) (int, error) {
	v, err := l.state.Get(ctx)
	switch {
	case err != nil:
		return 0, err
	case v.Version == 0:
		return l.count, nil
	case v.Value.Total != l.count:
		return 0, l.conflict(v.Value)
	}
	return v.Value.Left, nil
}

// Wait returns when the latch is open, and at once if it is. A latch that was
// opened and removed, and perhaps used again, since Wait saw it counted counts as
// open. One that nobody had counted yet is not told from the next one of its name, if
// it is opened and removed while the service can't be reached. While it can't, the
// wait goes on.
//
// It returns the context's error when that ends first, ErrConflict if others count
// from another number, ErrDenied or ErrClosed.
func (l *Latch) Wait(ctx context.Context) error {
	id := ""
	for v, err := range l.state.Watch(ctx) {
		s := v.Value
		switch {
		case err != nil:
			return fmt.Errorf("latch %q: %w", l.state.name, err)
		case id != "" && s.ID != id:
			return nil // it was removed, which only an open one can be
		case v.Version == 0:
			continue // nobody has counted yet
		case s.Total != l.count:
			return l.conflict(s)
		case s.Left == 0:
			return nil
		}
		id = s.ID
	}
	return fmt.Errorf("latch %q: not open yet: %w", l.state.name, ctx.Err())
}

// Remove removes an open latch, so that its name can be used again. It returns
// ErrConflict for one that is not open, nil for one that does not exist, and the
// errors of Register.Delete.
func (l *Latch) Remove(ctx context.Context) error {
	v, err := l.state.Get(ctx)
	if err != nil || v.Version == 0 {
		return err
	}
	if v.Value.Left > 0 {
		return fmt.Errorf("latch %q: %w: it is not open", l.state.name, ErrConflict)
	}
	return l.state.Delete(ctx, v.Version)
}
