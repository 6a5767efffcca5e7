package etcd_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

func clusterURL(cluster *etcdtest.Cluster) string {
	return "etcd://" + strings.Join(cluster.Addrs(), ",")
}

// TestClusterMemberStops stops each member in turn, the leader first, while a
// waiter waits: it is granted the lock by the others.
func TestClusterMemberStops(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 3)
	opts := &etcd.Options{TTL: time.Minute}
	a, b := dial(t, clusterURL(cluster), opts), dial(t, clusterURL(cluster), opts)
	v := view(t, a)
	leader := cluster.Leader(t)
	members := []*etcdtest.Server{leader}
	for _, m := range cluster.Members {
		if m != leader {
			members = append(members, m)
		}
	}
	for _, m := range members {
		hold := lock(t, mutex(t, a, "job"))
		waiter := lockAside(context.Background(), mutex(t, b, "job"))
		queued(t, a, 2)
		m.Stop()
		require.NoError(t, hold.Context().Err())
		unlock(t, hold)
		next := waiter.granted(t)
		require.Greater(t, next.Token(), hold.Token())
		unlock(t, next)
		v.until(t, "the watch to show that the lock is free", func() bool { return v.locks["job"] == 0 })
		m.Start(t)
		cluster.Leader(t)
	}
}

// TestClusterMemberCutOff cuts the member that serves a waiter's watch off from
// the others, and the others go on: the waiter is granted the lock by them.
func TestClusterMemberCutOff(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 3)
	opts := &etcd.Options{TTL: time.Minute}
	a := dial(t, clusterURL(cluster), opts)
	hold := lock(t, mutex(t, a, "job"))
	var before []int
	eventually(t, "the holder's watches, of its session and its inbox", func() bool {
		before = watches(cluster)
		return sum(before) == 2
	})
	b := dial(t, clusterURL(cluster), opts)
	waiter := lockAside(context.Background(), mutex(t, b, "job"))
	queued(t, a, 2)
	var serving *etcdtest.Server
	eventually(t, "the waiter's watches, of the entry ahead too", func() bool {
		now := watches(cluster)
		for i := range now {
			if now[i] >= before[i]+2 { // those of the session and of the entry share a stream
				serving = cluster.Members[i]
			}
		}
		return sum(now) == 5
	})
	require.NotNil(t, serving)
	cutOff(t, cluster, serving)
	cut := time.Now()
	unlock(t, hold)
	next := waiter.granted(t)
	t.Logf("granted %v after the member was cut off", time.Since(cut).Round(time.Millisecond))
	unlock(t, next)
	cluster.Mend(serving)
	unlock(t, lock(t, mutex(t, b, "job")))
}

// TestClusterEnterAndMemberBehind loses the reply to the request that made an entry. Its
// place is then asked for at a member that was cut off before: that the entry is not
// there does not mean that it is gone.
func TestClusterEnterAndMemberBehind(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 3)
	leader := cluster.Leader(t)
	behind := cluster.Members[0]
	if behind == leader {
		behind = cluster.Members[1]
	}
	var lose, stray atomic.Bool
	local := behind.Client(t)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{leader.Addr()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			if read, ok := req.(*pb.RangeRequest); ok && read.Serializable {
				stray.Store(true)
				return local.ActiveConnection().Invoke(ctx, method, req, reply, opts...)
			}
			err := invoke(ctx, method, req, reply, conn, opts...)
			if _, ok := req.(*pb.TxnRequest); ok && err == nil && lose.CompareAndSwap(true, false) {
				return status.Error(codes.Unavailable, "the reply is lost")
			}
			return err
		})},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	ctx := context.Background()
	session, err := etcd.NewStore(client, "/test", time.Minute, time.Minute).Connect(ctx)
	require.NoError(t, err)
	queue := driver.Queue{Space: driver.SpaceLock, Name: "job"}
	first, _, err := session.Enter(ctx, queue, nil)
	require.NoError(t, err)
	cutOff(t, cluster, behind)

	lose.Store(true)
	own, ahead, err := session.Enter(ctx, queue, nil)
	require.NoError(t, err)
	require.False(t, lose.Load())
	require.True(t, stray.Load(), "the member that is behind was asked")
	require.NotNil(t, ahead)
	require.Equal(t, first.ID, ahead.ID)
	require.NoError(t, session.Leave(ctx, own))
	require.NoError(t, session.Leave(ctx, first))
	require.NoError(t, session.Close(ctx))
}

// cutOff cuts a member off and waits until the others go on without it.
func cutOff(t testing.TB, cluster *etcdtest.Cluster, member *etcdtest.Server) {
	t.Helper()
	ctx := context.Background()
	behind := member.Client(t)
	var others []string
	for _, m := range cluster.Members {
		if m != member {
			others = append(others, m.Addr())
		}
	}
	ahead := member.ClientAt(t, others...)
	cluster.CutOff(member)
	eventually(t, "the others to go on alone", func() bool {
		put, err := ahead.Put(ctx, "/elsewhere", "")
		if err != nil {
			return false
		}
		seen, err := behind.Get(ctx, "/elsewhere", clientv3.WithSerializable())
		require.NoError(t, err)
		return seen.Header.Revision < put.Header.Revision
	})
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

// watches are how many watches each member was asked for.
func watches(cluster *etcdtest.Cluster) []int {
	var n []int
	for _, m := range cluster.Members {
		n = append(n, m.Calls()["Watch"])
	}
	return n
}

// TestClusterOnlyTheMemberCutOff has clients that know no other member: they lose
// what they have in time, get nothing, and do not press the member with requests.
func TestClusterOnlyTheMemberCutOff(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 3)
	cluster.Leader(t)
	member := cluster.Members[0]
	opts := &etcd.Options{TTL: 3 * time.Second}
	a, b := dial(t, "etcd://"+member.Addr(), opts), dial(t, "etcd://"+member.Addr(), opts)
	other := dial(t, "etcd://"+cluster.Members[1].Addr(), nil)
	hold := lock(t, mutex(t, a, "job"))
	waiter := lockAside(context.Background(), mutex(t, b, "job"))
	queued(t, other, 2)
	next := lockAside(context.Background(), mutex(t, other, "job"))

	cutOff(t, cluster, member)
	before := member.Calls()
	for _, done := range []<-chan struct{}{hold.Context().Done(), waiter.done} {
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("it does not end")
		}
	}
	require.ErrorIs(t, waiter.err, recipes.ErrLost)
	require.ErrorIs(t, context.Cause(hold.Context()), recipes.ErrLost)
	total := 0
	for method, n := range member.Calls() {
		if method != "Status" {
			total += n - before[method]
		}
	}
	require.Less(t, total, 200, "requests to the member: %v, before %v", member.Calls(), before)
	unlock(t, next.granted(t))
	cluster.Mend(member)
	unlock(t, lock(t, mutex(t, a, "job")))
	unlock(t, lock(t, mutex(t, b, "job")))
}

// TestClusterMemberSilent stalls the connection to each member in turn: opening a
// session, a lock and closing all come about by way of the others.
func TestClusterMemberSilent(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.StartCluster(t, 3)
	for i := range cluster.Members {
		var links []*faultlink.Link
		var addrs []string
		for _, m := range cluster.Members {
			links = append(links, newLink(t, m))
			addrs = append(addrs, links[len(links)-1].Addr())
		}
		c, err := etcd.Dial(context.Background(), "etcd://"+strings.Join(addrs, ","), &etcd.Options{TTL: time.Minute})
		require.NoError(t, err)
		for range addrs { // all connections are there
			_, err := c.Objects(context.Background(), recipes.Filter{})
			require.NoError(t, err)
		}
		links[i].Stall(faultlink.Both)
		hold := lock(t, mutex(t, c, "job"))
		unlock(t, hold)
		require.NoError(t, c.Close())
		require.Empty(t, keys(t, cluster.Members[i], "/lockctl/"))
		links[i].Resume()
	}
}
