package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Barrier keeps everybody waiting for as long as it is set. It belongs to no
// session: it stays when those who set it are gone. All methods may be called at
// the same time. To keep others out for as long as a process lives, use a Mutex.
//
// Setting and lifting cost a read and a commit, waiting costs a watch.
type Barrier struct {
	state *Register[struct{}] // has a value while the barrier is set
}

// Barrier makes a barrier called name, by the rules of Client.Mutex. It sends
// nothing. Barriers have names of their own. It returns ErrInvalid for a bad name.
func (c *Client) Barrier(name string) (*Barrier, error) {
	state, err := newRegister[struct{}](c, driver.SpaceBarrier, name)
	return &Barrier{state}, err
}

// Name is the name of the barrier.
func (b *Barrier) Name() string { return b.state.name }

// Set sets the barrier. One that is set stays as it is. Errors are ErrUnavailable,
// after which it may or may not be set and Set can be called again, ErrDenied and
// ErrClosed.
func (b *Barrier) Set(ctx context.Context) error {
	_, err := b.state.CompareAndSwap(ctx, 0, struct{}{})
	if errors.Is(err, ErrConflict) { // it is set
		return nil
	}
	return err
}

// Lift lets everybody pass who waits, and all who come later until it is set
// again. One that is not set stays as it is. Errors are as for Set.
func (b *Barrier) Lift(ctx context.Context) error {
	v, err := b.state.Get(ctx)
	if err != nil || v.Version == 0 {
		return err
	}
	err = b.state.Delete(ctx, v.Version)
	if errors.Is(err, ErrConflict) { // another has lifted it
		return nil
	}
	return err
}

// IsSet reports whether the barrier is set. Errors are those of Register.Get.
func (b *Barrier) IsSet(ctx context.Context) (bool, error) {
	v, err := b.state.Get(ctx)
	return v.Version != 0, err
}

// Wait returns when the barrier is not set, or was lifted after Wait saw it set,
// even if it was set again at once. While the service can't be reached the wait
// goes on.
//
// It returns the context's error when that ends first, ErrDenied or ErrClosed.
func (b *Barrier) Wait(ctx context.Context) error {
	var first uint64
	for v, err := range b.state.Watch(ctx) {
		switch {
		case err != nil:
			return fmt.Errorf("barrier %q: %w", b.state.name, err)
		case v.Version == 0, first != 0 && v.Version != first:
			return nil
		}
		first = v.Version
	}
	return fmt.Errorf("barrier %q: still set: %w", b.state.name, ctx.Err())
}
