package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/redisserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/leasetest"
	"github.com/lockctl/lockctl/redis"
)

func TestRedlockConformance(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) leasetest.Server {
		five := &several{}
		for range 5 {
			five.servers = append(five.servers, redisserver.Start(t))
		}
		return five
	})
}

// several implements leasetest.Server.
type several struct{ servers []*redisserver.Server }

func (s *several) url(through *link) string {
	var addrs []string
	for i, server := range s.servers {
		if through != nil {
			addrs = append(addrs, through.links[i].Addr())
		} else {
			addrs = append(addrs, server.Addr())
		}
	}
	return "redlock://" + strings.Join(addrs, ",")
}

func (s *several) Open(t testing.TB, o leasetest.Options) leasetest.Client {
	t.Helper()
	through, _ := o.Link.(*link)
	c, err := openRedlock(t.Context(), s.url(through), o)
	require.NoError(t, err)
	return c
}

func openRedlock(ctx context.Context, url string, o leasetest.Options) (leasetest.Client, error) {
	c, err := redis.DialRedlock(ctx, url, &redis.RedlockOptions{
		Options: *options(o), NodeTimeout: o.TTL / 4, // on a busy machine
	})
	if err != nil {
		return nil, err
	}
	return leasetest.Unfenced(c), nil
}

func (s *several) URL() string { return s.url(nil) }

func (s *several) Link(t testing.TB) leasetest.Link { return newLink(t, s.servers...) }

func (s *several) Restart(t testing.TB) bool {
	for _, server := range s.servers {
		server.Restart(t)
	}
	return true
}

// nodes are five that forget everything when they are restarted, and a link to each.
type nodes struct {
	several
	link *link
}

func startNodes(t testing.TB) *nodes {
	t.Helper()
	n := &nodes{}
	for range 5 {
		n.servers = append(n.servers, redisserver.StartEmpty(t))
	}
	n.link = newLink(t, n.servers...)
	return n
}

func (n *nodes) dial(t testing.TB, through *link, ttl time.Duration) *recipes.UnfencedClient {
	t.Helper()
	c, err := redis.DialRedlock(t.Context(), n.url(through), &redis.RedlockOptions{
		Options:     redis.Options{Lease: recipes.LeaseOptions{TTL: ttl, Poll: 50 * time.Millisecond}},
		NodeTimeout: ttl / 4, // on a busy machine
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if through != nil {
			through.Resume()
		}
		require.NoError(t, c.Close())
	})
	return c
}

// holders are the values of the lock's key, by node.
func (n *nodes) holders(t testing.TB, name string) []string {
	t.Helper()
	var all []string
	for _, s := range n.servers {
		value, err := s.Client(t).Get(within(t), name).Result()
		if err != nil {
			require.ErrorIs(t, err, goredis.Nil)
		}
		all = append(all, value)
	}
	return all
}

func locked(t testing.TB, c *recipes.UnfencedClient, name string) *recipes.UnfencedHold {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	h, err := m.Lock(within(t))
	require.NoError(t, err)
	return h
}

func tryLock(t testing.TB, c *recipes.UnfencedClient, name string) error {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	h, err := m.TryLock(within(t))
	if err == nil {
		require.NoError(t, h.Unlock(within(t)))
	}
	return err
}

const (
	calmTTL  = 20 * time.Second
	shortTTL = 4 * time.Second
)

// TestRedlockNodesDown locks, excludes, renews and unlocks with one and two nodes that do
// not answer, and does not lock with three.
func TestRedlockNodesDown(t *testing.T) {
	n := startNodes(t)
	for _, down := range []int{1, 2} {
		through := newLink(t, n.servers...)
		c, other := n.dial(t, through, shortTTL), n.dial(t, through, shortTTL)
		for _, l := range through.links[:down] {
			l.Close() // connections are refused
		}
		h := locked(t, c, "down")
		require.ErrorIs(t, tryLock(t, other, "down"), recipes.ErrHeld)
		before := h.Deadline()
		eventually(t, "a renewal", func() bool { return h.Deadline().After(before) || h.Context().Err() != nil })
		require.NoError(t, context.Cause(h.Context()))
		require.NoError(t, h.Unlock(within(t)))
		require.NoError(t, tryLock(t, other, "down"))
	}
	c := n.dial(t, n.link, shortTTL)
	for _, l := range n.link.links[:3] {
		l.Close()
	}
	require.ErrorIs(t, tryLock(t, c, "down"), recipes.ErrUnavailable)
	// What it got of the two that are left is removed.
	eventually(t, "the minority's keys to be removed", func() bool {
		return strings.Join(n.holders(t, "down"), "") == ""
	})
}

// TestRedlockMinority cuts a holder off from a minority of the nodes, which changes
// nothing, and then from a majority: it loses the lock before another gets it.
func TestRedlockMinority(t *testing.T) {
	n := startNodes(t)
	c, other := n.dial(t, n.link, shortTTL), n.dial(t, nil, shortTTL)
	h := locked(t, c, "cut")
	for _, l := range n.link.links[:2] {
		l.Stall(3)
	}
	before := h.Deadline()
	eventually(t, "a renewal", func() bool { return h.Deadline().After(before) || h.Context().Err() != nil })
	require.NoError(t, context.Cause(h.Context()))
	require.ErrorIs(t, tryLock(t, other, "cut"), recipes.ErrHeld)

	lost := make(chan time.Time, 1)
	context.AfterFunc(h.Context(), func() { lost <- time.Now() })
	n.link.links[2].Stall(3) // the majority
	next := locked(t, other, "cut")
	granted := time.Now()
	select {
	case at := <-lost:
		require.True(t, at.Before(granted), "lost at %v, granted at %v", at, granted)
	default:
		t.Fatal("the former holder does not know")
	}
	require.ErrorIs(t, context.Cause(h.Context()), recipes.ErrLost)
	require.NoError(t, next.Unlock(within(t)))
}

// TestRedlockEmptyNode restarts a node without its data: the others still exclude, and
// nobody gives it the key again. When a majority has lost the lock, the holder hears of
// it with the next renewal.
func TestRedlockEmptyNode(t *testing.T) {
	n := startNodes(t)
	c, other := n.dial(t, nil, shortTTL), n.dial(t, nil, shortTTL)
	h := locked(t, c, "empty")
	eventually(t, "all nodes to have it", func() bool {
		for _, holder := range n.holders(t, "empty") {
			if holder != h.SessionID() {
				return false
			}
		}
		return true
	})
	n.servers[0].Restart(t)
	require.ErrorIs(t, tryLock(t, other, "empty"), recipes.ErrHeld)
	before := h.Deadline()
	eventually(t, "a renewal", func() bool { return h.Deadline().After(before) || h.Context().Err() != nil })
	require.NoError(t, context.Cause(h.Context()))
	eventually(t, "the attempt of the other to be undone", func() bool { return n.holders(t, "empty")[0] == "" })

	n.servers[1].Restart(t)
	n.servers[2].Restart(t)
	select {
	case <-h.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder was not told")
	}
	require.ErrorIs(t, context.Cause(h.Context()), recipes.ErrLost)
	require.NoError(t, tryLock(t, other, "empty"))
}

// TestRedlockPartial has another hold the key on three nodes: an attempt gets the other
// two, and gives them up. It takes nothing from who is there.
func TestRedlockPartial(t *testing.T) {
	n := startNodes(t)
	for _, s := range n.servers[:3] {
		require.NoError(t, s.Client(t).SetNX(within(t), "partial", "another", patience).Err())
	}
	c := n.dial(t, nil, calmTTL)
	require.ErrorIs(t, tryLock(t, c, "partial"), recipes.ErrHeld)
	eventually(t, "the minority's keys to be removed", func() bool {
		return strings.Join(n.holders(t, "partial"), ",") == "another,another,another,,"
	})
	o, err := c.Lock(within(t), "partial")
	require.NoError(t, err)
	require.Equal(t, "another", o.Entries[0].ID)
	for _, s := range n.servers[:3] {
		require.NoError(t, s.Client(t).Del(within(t), "partial").Err())
	}
	require.NoError(t, tryLock(t, c, "partial"))
}

// TestRedlockLate has a node answer, and take the key, after the attempt was given up:
// the key is removed.
func TestRedlockLate(t *testing.T) {
	n := startNodes(t)
	c := n.dial(t, n.link, shortTTL)
	require.NoError(t, tryLock(t, c, "late")) // connects
	for _, s := range n.servers[:3] {
		require.NoError(t, s.Client(t).SetNX(within(t), "late", "another", patience).Err())
	}
	n.link.links[4].Stall(1) // requests
	require.ErrorIs(t, tryLock(t, c, "late"), recipes.ErrHeld)
	eventually(t, "the request to be on its way", func() bool { return n.link.links[4].Waiting() > 0 })
	n.link.Resume()
	eventually(t, "the keys to be removed", func() bool {
		return strings.Join(n.holders(t, "late"), ",") == "another,another,another,,"
	})
}

// TestRedlockNothingLeft releases locks as soon as they are granted, when some nodes have not
// voted yet: no key stays.
func TestRedlockNothingLeft(t *testing.T) {
	n := startNodes(t)
	c := n.dial(t, nil, patience)
	for i := range 300 {
		require.NoError(t, tryLock(t, c, fmt.Sprint("name ", i)))
	}
	deadline := time.Now().Add(patience / 3) // before anything expires
	for _, s := range n.servers {
		direct := s.Client(t)
		eventually(t, "the node to be empty", func() bool {
			require.True(t, time.Now().Before(deadline), "keys were left: %v", direct.Keys(within(t), "*").Val())
			return direct.DBSize(within(t)).Val() == 0
		})
	}
}

// TestRedlockLapsed has a lease expire on the nodes while its holder can't renew it: a
// renewal that comes then does not take it again.
func TestRedlockLapsed(t *testing.T) {
	n := startNodes(t)
	c := n.dial(t, n.link, shortTTL)
	h := locked(t, c, "lapsed")
	for _, s := range n.servers[:3] {
		require.NoError(t, s.Client(t).Del(within(t), "lapsed").Err())
	}
	select {
	case <-h.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder was not told")
	}
	require.ErrorIs(t, h.Unlock(within(t)), recipes.ErrLost)
	eventually(t, "the rest to be removed", func() bool { return strings.Join(n.holders(t, "lapsed"), "") == "" })
}

func TestRedlockInvalid(t *testing.T) {
	three := []*goredis.Client{}
	for range 3 {
		c := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		three = append(three, c)
	}
	for what, clients := range map[string][]*goredis.Client{
		"none": nil, "two": three[:2], "a nil": {three[0], three[1], nil}, "one twice": {three[0], three[1], three[0]},
	} {
		_, err := redis.OpenRedlock(clients, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, what)
	}
	for _, o := range []redis.RedlockOptions{
		{Drift: -1}, {Drift: 0.13}, {NodeTimeout: -1}, {NodeTimeout: 4 * time.Second},
		{Drift: 0.12, Options: redis.Options{Lease: recipes.LeaseOptions{TTL: 200 * time.Millisecond}}}, // with 2 ms it is more
		{Options: redis.Options{Lease: recipes.LeaseOptions{TTL: 1}}},
	} {
		_, err := redis.OpenRedlock(three, &o)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%+v", o)
	}
	for _, url := range []string{"redis://a,b,c", "redlock://a,b", "redlock://a,b,a", "redlock://a,b,c?master=m", "redlock://a,b,c/x", "redlock://a,b,c?poll=0s"} {
		_, err := redis.DialRedlock(t.Context(), url, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, url)
	}
	_, err := redis.DialRedlock(t.Context(), "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", nil)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
}
