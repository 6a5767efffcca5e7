package ratelimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockctl/lockctl/recipes"
)

// A Concurrency limits how many go on at the same time, and not how many begin: it is a
// recipes.Semaphore for each key. Made by NewConcurrency it sends nothing until it is used,
// and needs no closing. All methods may be called at the same time.
type Concurrency struct {
	client *recipes.Client
	name   string
	limit  int
}

// NewConcurrency makes a limit of so many at the same time, called name; a limit of 0 is
// the one that is stored. The limit can be changed by recipes.Semaphore.SetLimit, or
// "lockctl permits". It returns ErrInvalid for a bad name or limit.
func NewConcurrency(c *recipes.Client, name string, limit int) (*Concurrency, error) {
	if _, err := c.Semaphore(name, limit, nil); err != nil {
		return nil, fmt.Errorf("concurrency limit: %w", err)
	}
	return &Concurrency{c, name, limit}, nil
}

// TryAcquire takes one of a key's permits if one is free: the hold is for its release, and
// its context ends if it is lost. The hold is nil if the decision refuses. Errors are those
// of recipes.Semaphore.TryAcquire but for ErrHeld.
func (l *Concurrency) TryAcquire(ctx context.Context, key string) (*recipes.Hold, Decision, error) {
	s, err := l.semaphore(key)
	if err != nil {
		return nil, Decision{}, err
	}
	hold, err := s.TryAcquire(ctx, 1)
	d := Decision{OK: err == nil, Limit: int64(l.limit)}
	if errors.Is(err, recipes.ErrHeld) {
		return nil, d, nil
	}
	return hold, d, err
}

// Acquire waits for one of a key's permits, in line with all processes. Errors are those of
// recipes.Semaphore.Acquire.
func (l *Concurrency) Acquire(ctx context.Context, key string) (*recipes.Hold, error) {
	s, err := l.semaphore(key)
	if err != nil {
		return nil, err
	}
	return s.Acquire(ctx, 1)
}

func (l *Concurrency) semaphore(key string) (*recipes.Semaphore, error) {
	return l.client.Semaphore(registerName(l.name, key), l.limit, nil)
}
