package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/redisserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/redis"
)

// A peer is another library: it takes the lock at a key for a minute, and gives it up.
type peer struct {
	lock   func(key string) error
	unlock func(key string) error
}

func peers(t *testing.T, clients ...*goredis.Client) map[string]peer {
	t.Helper()
	var pools []redsyncredis.Pool
	for _, c := range clients {
		pools = append(pools, redsyncgoredis.NewPool(c))
	}
	sync := redsync.New(pools...)
	mutexes := map[string]*redsync.Mutex{}
	locks := map[string]*redislock.Lock{}
	all := map[string]peer{"redsync": {
		lock: func(key string) error {
			mutexes[key] = sync.NewMutex(key, redsync.WithTries(1), redsync.WithExpiry(time.Minute))
			return mutexes[key].LockContext(within(t))
		},
		unlock: func(key string) error {
			_, err := mutexes[key].UnlockContext(within(t))
			return err
		},
	}}
	if len(clients) == 1 {
		all["redislock"] = peer{
			lock: func(key string) (err error) {
				locks[key], err = redislock.Obtain(within(t), clients[0], key, time.Minute, nil)
				return err
			},
			unlock: func(key string) error { return locks[key].Release(within(t)) },
		}
	}
	return all
}

// TestPeers has other libraries and this one exclude each other at the same key, and
// give it to each other.
func TestPeers(t *testing.T) {
	server := redisserver.Start(t)
	c := dial(t, "redis://"+server.Addr()+"?prefix=locks:&poll=20ms", nil)
	for name, p := range peers(t, server.Client(t)) {
		t.Run(name, func(t *testing.T) {
			m, err := c.Mutex(name, nil)
			require.NoError(t, err)
			h, err := m.Lock(within(t))
			require.NoError(t, err)
			require.Error(t, p.lock("locks:"+name))
			require.NoError(t, h.Context().Err())
			require.NoError(t, h.Unlock(within(t)))

			require.NoError(t, p.lock("locks:"+name))
			_, err = m.TryLock(within(t))
			require.ErrorIs(t, err, recipes.ErrHeld)
			o, err := c.Lock(within(t), name)
			require.NoError(t, err)
			require.Len(t, o.Entries, 1)
			got := make(chan error, 1)
			go func() {
				got <- m.Do(within(t), func(context.Context, *recipes.Hold) error { return nil })
			}()
			require.NoError(t, p.unlock("locks:"+name))
			require.NoError(t, <-got)
		})
	}
}

// TestRedlockPeers does the same with redsync on five nodes.
func TestRedlockPeers(t *testing.T) {
	n := startNodes(t)
	var clients []*goredis.Client
	for _, s := range n.servers {
		clients = append(clients, s.Client(t))
	}
	c, err := redis.OpenRedlock(clients, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	p := peers(t, clients...)["redsync"]
	h := locked(t, c, "both")
	require.Error(t, p.lock("both"))
	require.NoError(t, h.Context().Err())
	require.NoError(t, h.Unlock(within(t)))
	require.NoError(t, p.lock("both"))
	require.ErrorIs(t, tryLock(t, c, "both"), recipes.ErrHeld)
	require.NoError(t, p.unlock("both"))
	require.NoError(t, tryLock(t, c, "both"))
}
