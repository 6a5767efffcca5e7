package redis_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/redisserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/leasetest"
	"github.com/lockctl/lockctl/redis"
)

func dial(t testing.TB, url string, o *redis.Options) *recipes.LeaseClient {
	t.Helper()
	c, err := redis.Dial(t.Context(), url, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func fencedLock(t testing.TB, c *recipes.LeaseClient, name string) *recipes.Hold {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	h, err := m.Lock(within(t))
	require.NoError(t, err)
	return h
}

// TestCluster runs the suite on a cluster of three masters.
func TestCluster(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) leasetest.Server {
		return cluster(redisserver.StartCluster(t))
	})
}

// cluster implements leasetest.Server.
type cluster []*redisserver.Server

func (c cluster) Open(t testing.TB, o leasetest.Options) leasetest.Client {
	t.Helper()
	client, err := redis.Dial(t.Context(), c.URL(), options(o))
	require.NoError(t, err)
	return leasetest.Fenced(client)
}

func (c cluster) URL() string {
	var addrs []string
	for _, s := range c {
		addrs = append(addrs, s.Addr())
	}
	return "redis://" + strings.Join(addrs, ",") + "?cluster=true"
}

// Link returns nil: servers of a cluster tell clients their own addresses, which no link
// is at.
func (c cluster) Link(testing.TB) leasetest.Link { return nil }

func (c cluster) Restart(t testing.TB) bool {
	for _, s := range c {
		s.Restart(t)
	}
	return true
}

// TestFailover kills a master that has confirmed a lock. The replica, which has it, takes
// over: the hold goes on, another does not get it, and tokens go on growing.
func TestFailover(t *testing.T) {
	f := redisserver.StartFailover(t)
	url := "redis://" + strings.Join(f.Sentinels, ",") + "/0?ttl=10s&master=" + f.Name
	c, other := dial(t, url, nil), dial(t, url, nil)
	first := fencedLock(t, c, "failover")
	replica := f.Replica.Client(t)
	eventually(t, "the replica to have it", func() bool {
		id, err := replica.Get(within(t), "failover").Result()
		return err == nil && id == first.SessionID()
	})
	require.NoError(t, f.Master.Process().Signal(syscall.SIGKILL))
	before := first.Deadline()
	eventually(t, "a renewal by the new master", func() bool {
		return first.Context().Err() != nil || first.Deadline().After(before.Add(5*time.Second))
	})
	require.NoError(t, context.Cause(first.Context()))
	m, err := other.Mutex("failover", nil)
	require.NoError(t, err)
	_, err = m.TryLock(within(t))
	require.ErrorIs(t, err, recipes.ErrHeld)
	require.NoError(t, first.Unlock(within(t)))
	second := fencedLock(t, other, "failover")
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Unlock(within(t)))
}

// TestSentinelPasswords has Sentinels with a password, and servers with another: who has
// not both is refused, and who has them is served, also by the replica that takes over.
func TestSentinelPasswords(t *testing.T) {
	f := redisserver.StartFailover(t)
	f.Protect(t, "of servers", "of Sentinels")
	url := "redis://" + strings.Join(f.Sentinels, ",") + "/0?ttl=20s&user=default&master=" + f.Name
	for _, wrong := range []struct{ more, password, sentinel, says string }{
		{"", "of servers", "of Sentinels", "NOAUTH"}, // without a user
		{"&sentinel-user=default", "of servers", "wrong", "WRONGPASS"},
		{"&sentinel-user=nobody", "of servers", "of Sentinels", "WRONGPASS"},
		{"&sentinel-user=default", "wrong", "of Sentinels", "WRONGPASS"},
	} {
		t.Setenv("LOCKCTL_PASSWORD", wrong.password)
		t.Setenv("LOCKCTL_SENTINEL_PASSWORD", wrong.sentinel)
		_, err := redis.Dial(t.Context(), url+wrong.more, nil)
		require.ErrorIs(t, err, recipes.ErrDenied, "%+v", wrong)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "%+v", wrong)
		require.ErrorContains(t, err, wrong.says)
	}
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("of Sentinels\n"), 0o600))
	t.Setenv("LOCKCTL_PASSWORD", "of servers")
	t.Setenv("LOCKCTL_SENTINEL_PASSWORD", "wrong")
	c := dial(t, url+"&sentinel-user=default&sentinel-password-file="+file, nil)
	t.Setenv("LOCKCTL_SENTINEL_PASSWORD", "of Sentinels")
	other := dial(t, url+"&sentinel-user=default", nil)

	h := fencedLock(t, c, "protected")
	replica := goredis.NewClient(&goredis.Options{Addr: f.Replica.Addr(), Password: "of servers"})
	t.Cleanup(func() { require.NoError(t, replica.Close()) })
	eventually(t, "the replica to have it", func() bool {
		id, err := replica.Get(within(t), "protected").Result()
		return err == nil && id == h.SessionID()
	})
	require.NoError(t, f.Master.Process().Signal(syscall.SIGKILL))
	before := h.Deadline()
	eventually(t, "a renewal by the new master", func() bool {
		return h.Context().Err() != nil || h.Deadline().After(before.Add(10*time.Second))
	})
	require.NoError(t, context.Cause(h.Context()))
	require.NoError(t, h.Unlock(within(t)))
	require.NoError(t, fencedLock(t, other, "protected").Unlock(within(t)))
}

// TestLostData has a server forget everything while a lock is held, as a failover can:
// another gets the lock, with a larger token all the same, and the holder hears of it.
func TestLostData(t *testing.T) {
	server := redisserver.StartEmpty(t)
	c, other := dial(t, "redis://"+server.Addr()+"?ttl=2s", nil), dial(t, "redis://"+server.Addr(), nil)
	first := fencedLock(t, c, "forgotten")
	server.Restart(t)
	second := fencedLock(t, other, "forgotten")
	require.Greater(t, second.Token(), first.Token())
	select {
	case <-first.Context().Done():
	case <-time.After(patience):
		t.Fatal("the former holder was not told")
	}
	require.ErrorIs(t, context.Cause(first.Context()), recipes.ErrLost)
	require.ErrorIs(t, first.Unlock(within(t)), recipes.ErrLost)
	require.NoError(t, second.Unlock(within(t)))
}

// TestClockSetBack has the counter of tokens be ahead of the server's clock.
func TestClockSetBack(t *testing.T) {
	server := redisserver.Start(t)
	c := dial(t, "redis://"+server.Addr(), nil)
	first := fencedLock(t, c, "ahead")
	require.NoError(t, first.Unlock(within(t)))
	direct := server.Client(t)
	counters, err := direct.Keys(within(t), "{*}lockctl:token").Result()
	require.NoError(t, err)
	require.Len(t, counters, 1)
	ahead := first.Token() + uint64(time.Hour.Microseconds())
	require.NoError(t, direct.Set(within(t), counters[0], ahead, 0).Err())
	for i := range uint64(3) {
		h := fencedLock(t, c, "ahead")
		require.Equal(t, ahead+1+i, h.Token())
		require.NoError(t, h.Unlock(within(t)))
	}
}

// TestNothingStays has locks leave nothing behind but the counter.
func TestNothingStays(t *testing.T) {
	server := redisserver.Start(t)
	c := dial(t, "redis://"+server.Addr()+"?prefix=locks:", nil)
	h := fencedLock(t, c, "a")
	direct := server.Client(t)
	keys, err := direct.Keys(within(t), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 3)
	for _, key := range keys {
		left, err := direct.PTTL(within(t), key).Result()
		require.NoError(t, err)
		require.Equal(t, strings.HasSuffix(key, "lockctl:token"), left < 0, "%s expires after %v", key, left)
	}
	require.NoError(t, h.Unlock(within(t)))
	keys, err = direct.Keys(within(t), "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

// TestCost counts the commands of a lock and its release.
func TestCost(t *testing.T) {
	server := redisserver.Start(t)
	c := dial(t, "redis://"+server.Addr(), nil)
	require.NoError(t, fencedLock(t, c, "cost").Unlock(within(t))) // connects, sends the scripts
	direct := server.Client(t)
	require.NoError(t, direct.ConfigResetStat(within(t)).Err())
	require.NoError(t, fencedLock(t, c, "cost").Unlock(within(t)))
	stats, err := direct.Info(within(t), "commandstats").Result()
	require.NoError(t, err)
	require.Contains(t, stats, "cmdstat_evalsha:calls=2,")
	require.NotContains(t, stats, "cmdstat_eval:")
	require.NotContains(t, stats, "cmdstat_subscribe:")
}

// TestListing lists locks among other keys.
func TestListing(t *testing.T) {
	server := redisserver.Start(t)
	direct := server.Client(t)
	for key, ttl := range map[string]time.Duration{"locks:other": patience, "locks:data": 0, "else": patience} {
		require.NoError(t, direct.Set(within(t), key, "value", ttl).Err())
	}
	require.NoError(t, direct.HSet(within(t), "locks:hash", "a", "b").Err())
	names := func(c *recipes.LeaseClient) (names []string) {
		objects, err := c.Objects(within(t), recipes.Filter{})
		require.NoError(t, err)
		for _, o := range objects {
			names = append(names, o.Name)
		}
		return names
	}
	all, some := dial(t, "redis://"+server.Addr(), nil), dial(t, "redis://"+server.Addr()+"?prefix=locks:", nil)
	h := fencedLock(t, some, "a")
	require.ElementsMatch(t, []string{"locks:a"}, names(all))
	require.ElementsMatch(t, []string{"a", "other"}, names(some))
	m, err := some.Mutex("hash", nil) // such as another library's lock
	require.NoError(t, err)
	_, err = m.TryLock(within(t))
	require.ErrorIs(t, err, recipes.ErrHeld)
	require.NoError(t, h.Unlock(within(t)))
}

func TestPasswords(t *testing.T) {
	server := redisserver.Start(t)
	direct := server.Client(t)
	require.NoError(t, direct.Do(within(t), "acl", "setuser", "ann", "on", ">secret", "resetchannels", "-@all",
		"~locks:*", "~{*}lockctl:*", "&lockctl:released:locks:*", "+@scripting", "+ping", "+get", "+set", "+del",
		"+pexpire", "+pttl", "+hset", "+hmget", "+time", "+publish", "+subscribe", "+unsubscribe", "+scan").Err())
	url := "redis://" + server.Addr() + "?user=ann&prefix="
	t.Setenv("LOCKCTL_PASSWORD", "wrong")
	_, err := redis.Dial(t.Context(), url+"locks:", nil)
	require.ErrorIs(t, err, recipes.ErrDenied)
	t.Setenv("LOCKCTL_PASSWORD", "secret")

	// What doc.go names is enough, also to be woken.
	c, other := dial(t, url+"locks:", nil), dial(t, url+"locks:", &redis.Options{Lease: recipes.LeaseOptions{Poll: time.Hour}})
	h := fencedLock(t, c, "a")
	got := make(chan *recipes.Hold)
	go func() { got <- fencedLock(t, other, "a") }()
	eventually(t, "the waiter to listen", func() bool {
		channels, err := direct.PubSubChannels(within(t), "*").Result()
		return err == nil && len(channels) == 1
	})
	objects, err := c.Objects(within(t), recipes.Filter{})
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.NoError(t, h.Unlock(within(t)))
	require.NoError(t, (<-got).Unlock(within(t)))

	m, err := dial(t, url+"others:", nil).Mutex("a", nil)
	require.NoError(t, err)
	_, err = m.Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrDenied)
}

func TestInvalid(t *testing.T) {
	for _, url := range []string{
		"", "redis://", "etcd://a", "redis://a:b", "redis://a/x", "redis://a?ttl=0s", "redis://a?poll=x", "redis://a?unknown=1",
		"redis://a,b", "redis://a?cluster=yes", "redis://a/1?cluster=true", "redis://a?cluster=true&master=m", "redis://u:p@a",
		"redis://a?user=u&password-file=/does/not/exist", "redis://a?ttl=1ms", "redis://a?sentinel-user=u", "redis://a?master=m&sentinel-password-file=f",
		"redis://a?master=m&sentinel-user=u&sentinel-password-file=/does/not/exist",
	} {
		_, err := redis.Dial(t.Context(), url, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, url)
	}
	_, err := redis.Dial(t.Context(), "redis://127.0.0.1:1", nil)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { require.NoError(t, ring.Close()) })
	for _, c := range []goredis.UniversalClient{nil, (*goredis.Client)(nil), (*goredis.ClusterClient)(nil), ring} {
		_, err := redis.Open(c, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	server := redisserver.Start(t)
	m, err := dial(t, "redis://"+server.Addr(), nil).Mutex("{1}lockctl:token", nil)
	require.NoError(t, err)
	_, err = m.Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrInvalid)
}
