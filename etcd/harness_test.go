package etcd_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// harness implements recipetest.Server on a real etcd of one or more members.
type harness struct {
	members []*etcdtest.Server
	restart func(testing.TB)
	client  *clientv3.Client
	links   atomic.Int64
}

func startHarness(t testing.TB) recipetest.Server {
	server := etcdtest.Start(t)
	return &harness{members: []*etcdtest.Server{server}, restart: server.Restart, client: server.Client(t)}
}

func startClusterHarness(t testing.TB) recipetest.Server {
	cluster := etcdtest.StartCluster(t, 3)
	return &harness{members: cluster.Members, restart: cluster.Restart, client: cluster.Client(t)}
}

func (h *harness) Open(t testing.TB, o recipetest.Options) *recipes.Client {
	t.Helper()
	var addrs []string
	for _, m := range h.members {
		addrs = append(addrs, m.Addr())
	}
	if o.Link != nil {
		addrs = []string{o.Link.(link).Addr()}
	}
	options := &etcd.Options{Root: o.Root, TTL: o.TTL}
	options.Client.Owner.Label = o.Label
	options.Client.ConnectTimeout = time.Minute // a busy machine is not what is tested
	options.Client.CloseTimeout = time.Minute
	c, err := etcd.Dial(context.Background(), "etcd://"+strings.Join(addrs, ","), options)
	require.NoError(t, err)
	return c
}

// link implements recipetest.Link.
type link struct{ *faultlink.Link }

func (l link) StallRequests() { l.Stall(faultlink.Requests) }
func (l link) StallReplies()  { l.Stall(faultlink.Replies) }
func (l link) StallBoth()     { l.Stall(faultlink.Both) }

func (h *harness) Link(t testing.TB) recipetest.Link {
	t.Helper()
	member := h.members[h.links.Add(1)%int64(len(h.members))]
	l, err := faultlink.New(member.Addr())
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return link{l}
}

func (h *harness) Expire(t testing.TB, sessionID string) {
	t.Helper()
	revoke(t, h.client, sessionID)
}

// revoke ends a session.
func revoke(t testing.TB, client *clientv3.Client, sessionID string) {
	t.Helper()
	id, err := strconv.ParseInt(sessionID, 16, 64)
	require.NoError(t, err)
	_, err = client.Revoke(context.Background(), clientv3.LeaseID(id))
	require.NoError(t, err)
}

func (h *harness) Restart(t testing.TB) { h.restart(t) }

func (h *harness) Cost(t testing.TB) recipetest.Cost {
	t.Helper()
	var cost recipetest.Cost
	for _, m := range h.members {
		c := m.Counts(t)
		cost.Commits = max(cost.Commits, c.Proposals)
		cost.Events += c.Events
		for method, n := range c.Calls {
			switch method {
			case "Range":
				cost.Reads += n
			case "Watch":
				cost.Watches += n
			case "LeaseKeepAlive", "WatchProgress":
				cost.Renewals += n
			case "Txn", "Put", "DeleteRange", "LeaseGrant", "LeaseRevoke", "Status":
			default:
				cost.Other += n
			}
		}
	}
	return cost
}

func queueKey(root, name string) string {
	return root + "/" + driver.SpaceLock + "/" + driver.Escape(name) + "/"
}

// Foreign puts keys that are no entries of the queue: below the name, without a
// lease, with a name of another form.
func (h *harness) Foreign(t testing.TB, root, name string) {
	t.Helper()
	lease, err := h.client.Grant(context.Background(), 600)
	require.NoError(t, err)
	for _, key := range []string{"further/down", "not an entry", fmt.Sprintf("%x", int64(lease.ID))} {
		var opts []clientv3.OpOption
		if key == "not an entry" {
			opts = append(opts, clientv3.WithLease(lease.ID))
		}
		_, err = h.client.Put(context.Background(), queueKey(root, name)+key, "foreign", opts...)
		require.NoError(t, err)
	}
}

// Reap does nothing: etcd keeps nothing for an empty queue.
func (h *harness) Reap(testing.TB, string, string) {}

func (h *harness) Remove(t testing.TB, root, name string) {
	t.Helper()
	resp, err := h.client.Get(context.Background(), queueKey(root, name), clientv3.WithFirstCreate()...)
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	_, err = h.client.Delete(context.Background(), string(resp.Kvs[0].Key))
	require.NoError(t, err)
}

func (h *harness) Left(t testing.TB, root string) []string {
	t.Helper()
	resp, err := h.client.Get(context.Background(), root, clientv3.WithPrefix()) // with keys only, leases are left out
	require.NoError(t, err)
	var left []string
	for _, kv := range resp.Kvs {
		if kv.Lease != 0 {
			left = append(left, string(kv.Key))
		}
	}
	return left
}
