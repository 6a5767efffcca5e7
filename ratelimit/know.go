package ratelimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/lockctl/lockctl/recipes"
)

// know reads the register, unless what is known is likely to be the present value.
func (b *bucket) know(ctx context.Context, must bool) error {
	if b.fresh && b.lonely && !must && b.sent == nil {
		return nil
	}
	snap, received, err := b.look(ctx)
	if err = native(snap, err); err != nil {
		return err
	}
	b.lonely = b.own != 0 && snap.Version == b.own
	if snap.Version == 0 {
		config, err := b.first(ctx)
		if err != nil {
			return err
		}
		snap.Value = *newRecord(config, rand.Text()[:8])
		b.clock.begin(&snap.Value, received)
		b.lose(nil)
	} else {
		b.clock.observe(&snap.Value, received)
		b.settle(&snap.Value)
	}
	if !b.met && !b.l.opts.Strict && snap.Version != 0 {
		b.meet(&snap, received)
	}
	b.met = true
	b.known, b.fresh = snap, true
	if b.key != "" {
		if b.l.base.view.Load().alive {
			return nil
		}
		_, err = b.l.base.peek(ctx)
	}
	return err
}

// native is the error of a read, or that what was read is not a limiter's.
func native(snap recipes.Snapshot[record], err error) error {
	switch {
	case errors.Is(err, recipes.ErrConflict):
		return fmt.Errorf("%w: %w", errForeign, err)
	case err == nil && snap.Version != 0 && snap.Value.Rate.problem() != "":
		return fmt.Errorf("%w: %w", errForeign, recipes.ErrConflict)
	}
	return err
}

// look reads the register, or takes what a write was told that came too late.
func (b *bucket) look(ctx context.Context) (snap recipes.Snapshot[record], received int64, err error) {
	if told := b.told; told != nil {
		b.told = nil
		return *told, b.toldAt, nil
	}
	snap, err = b.reg.Snapshot(ctx)
	return snap, b.present(), err
}

// late notes what a write was told, if it came too late.
func (b *bucket) late(snap recipes.Snapshot[record], err error) {
	b.fresh = false
	if errors.Is(err, recipes.ErrConflict) && snap.Known() {
		b.told, b.toldAt = &snap, b.l.now()
	}
}

// first is the configuration of a register that has no value.
func (b *bucket) first(ctx context.Context) (Config, error) {
	if b.key != "" {
		return b.l.base.peek(ctx)
	}
	if b.l.opts.Config.Rate == (Rate{}) {
		return Config{}, ErrUnset
	}
	return b.l.opts.Config, nil
}

// peek reads the configuration, which it stores if there is none. It is for all
// goroutines.
func (b *bucket) peek(ctx context.Context) (Config, error) {
	for {
		snap, err := b.reg.Snapshot(ctx)
		if err = native(snap, err); err != nil {
			return Config{}, err
		}
		if snap.Version == 0 {
			config, err := b.first(ctx)
			if err != nil {
				return config, err
			}
			snap, err = b.reg.Replace(ctx, snap, *newRecord(config, rand.Text()[:8]))
			if errors.Is(err, recipes.ErrConflict) {
				continue
			}
			if err != nil {
				return config, err
			}
		}
		config := snap.Value.Config
		b.see(func(v *view) { v.config, v.alive = config, true })
		return config, nil
	}
}
