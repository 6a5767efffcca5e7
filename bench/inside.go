package main

import (
	"context"
	"time"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/recipes"
)

// lockctlInside is a crew of goroutines in one process that share a mutex.
func lockctlInside(ctx context.Context, at site) (runner, error) {
	return sharing(ctx, at, nil)
}

// lockctlRetained is a crew that retains the lock while nobody else wants it.
func lockctlRetained(ctx context.Context, at site) (runner, error) {
	return sharing(ctx, at, &recipes.MutexOptions{Retain: time.Minute})
}

func sharing(ctx context.Context, at site, opts *recipes.MutexOptions) (runner, error) {
	client, err := etcd.Dial(ctx, etcdURL(at), &etcd.Options{TTL: sessionTTL})
	if err != nil {
		return nil, err
	}
	c := &crew{closers: []func() error{client.Close}}
	mutex, err := client.Mutex(at.name, opts)
	if err != nil {
		_ = c.close() // the first error is the one to report
		return nil, err
	}
	for range at.clients {
		c.turns = append(c.turns, turnsOf(mutex))
	}
	return c, nil
}

// turnsOf locks and unlocks a mutex.
func turnsOf[H recipes.Held](mutex recipes.Locker[H]) turn {
	return func(ctx context.Context, granted func()) error {
		hold, err := mutex.Lock(ctx)
		if err != nil {
			return err
		}
		granted()
		return hold.Unlock(ctx)
	}
}
