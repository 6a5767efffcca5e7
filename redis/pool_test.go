package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/redisserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/redis"
)

// smallPool is a client of the user's with one connection, and a client of locks that
// shares it.
func smallPool(t *testing.T, ttl time.Duration) (*goredis.Client, *recipes.LeaseClient) {
	t.Helper()
	own := goredis.NewClient(&goredis.Options{Addr: redisserver.Start(t).Addr(), PoolSize: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { require.NoError(t, own.Close()) })
	c, err := redis.Open(own, &redis.Options{Lease: recipes.LeaseOptions{TTL: ttl}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return own, c
}

// TestSmallPool has a pool of one connection do for 50 locks that are held, 20 who wait
// for one, and the user's own commands, over more than the TTL.
func TestSmallPool(t *testing.T) {
	const holders, waiters, ttl = 50, 20, calmTTL
	own, c := smallPool(t, ttl)
	var holds []*recipes.Hold
	for i := range holders {
		holds = append(holds, fencedLock(t, c, fmt.Sprint("pool ", i)))
	}
	done := make(chan error, waiters)
	for range waiters {
		m, err := c.Mutex(holds[0].Name(), nil) // each asks by itself
		require.NoError(t, err)
		go func() {
			done <- m.Do(within(t), func(ctx context.Context, _ *recipes.Hold) error { return ctx.Err() })
		}()
	}
	for end := time.Now().Add(5 * ttl / 4); time.Now().Before(end); {
		require.NoError(t, own.Ping(within(t)).Err())
		time.Sleep(10 * time.Millisecond) // between commands
	}
	require.Empty(t, done)
	for _, h := range holds {
		require.NoError(t, context.Cause(h.Context()), h.Name())
	}
	for _, h := range holds {
		require.NoError(t, h.Unlock(within(t)))
	}
	for range waiters {
		require.NoError(t, <-done)
	}
}

// TestPoolIsTaken has the user take the only connection: holds end by their deadline, and
// calls when their contexts do. When it is back they go on.
func TestPoolIsTaken(t *testing.T) {
	own, c := smallPool(t, shortTTL)
	h := fencedLock(t, c, "taken")
	conn := own.Conn()
	defer func() { _ = conn.Close() }() // it may have been
	require.NoError(t, conn.Ping(within(t)).Err())
	m, err := c.Mutex("other", nil)
	require.NoError(t, err)
	for _, call := range []func(context.Context) (*recipes.Hold, error){m.Lock, m.TryLock} {
		ctx, cancel := context.WithTimeout(t.Context(), shortTTL/20)
		_, err := call(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, recipes.ErrUnavailable)
		require.NotErrorIs(t, err, recipes.ErrHeld)
	}
	select {
	case <-h.Context().Done():
	case <-time.After(patience):
		t.Fatal("the hold goes on")
	}
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(h.Context()), &lost)
	require.Equal(t, recipes.LostExpired, lost.Reason)
	require.ErrorIs(t, lost, recipes.ErrUnavailable, "which is why")
	require.NoError(t, conn.Close())
	require.ErrorIs(t, h.Unlock(within(t)), recipes.ErrLost)
	for _, name := range []string{"taken", "other"} {
		require.NoError(t, fencedLock(t, c, name).Unlock(within(t)))
	}
}
