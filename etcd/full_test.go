package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// TestNoSpace fills the service up: new entries are refused at once and with the
// reason, and what there is can be given up and passed on.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	o := etcdtest.Options()
	o.Quota = 4 << 20
	server := etcdtest.StartWith(t, o)
	client, ctx := server.Client(t), context.Background()
	url := "etcd://" + server.Addr()
	a, b := dial(t, url, nil), dial(t, url, nil)
	hold := lock(t, mutex(t, a, "job"))
	waiter := lockAside(ctx, mutex(t, b, "job"))
	queued(t, a, 2)
	fill(t, client)

	began := time.Now()
	_, err := mutex(t, a, "other").Lock(ctx)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.ErrorContains(t, err, "database space exceeded")
	_, err = mutex(t, dial(t, url, nil), "other").Lock(ctx)
	require.ErrorIs(t, err, recipes.ErrUnavailable, "not even a session can be opened")
	require.ErrorContains(t, err, "database space exceeded")
	require.Less(t, time.Since(began), 10*time.Second)

	unlock(t, hold)
	unlock(t, waiter.granted(t))
	require.Empty(t, keys(t, server, "/lockctl/lock/"))
}

// fill writes until the service has no space left.
func fill(t testing.TB, client *clientv3.Client) {
	t.Helper()
	eventually(t, "the service to be full", func() bool {
		_, err := client.Put(context.Background(), "/elsewhere", strings.Repeat("x", 1<<20))
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
}

// TestNoSpaceWhileEntering has many enter queues while the service fills up: what Enter
// returns an error for is not there. etcd does what was under way when the space ran out,
// and says that it has none.
func TestNoSpaceWhileEntering(t *testing.T) {
	t.Parallel()
	o := etcdtest.Options()
	o.Quota = 4 << 20
	server := etcdtest.StartWith(t, o)
	ctx := context.Background()
	session, err := etcd.NewStore(server.Client(t), "/test", time.Minute, 20*time.Second).Connect(ctx)
	require.NoError(t, err)
	var mu sync.Mutex
	entered := map[string]bool{} // by key
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			queue := driver.Queue{Space: driver.SpaceLock, Name: fmt.Sprint(i)}
			for {
				own, _, err := session.Enter(ctx, queue, make([]byte, 8<<10))
				mu.Lock()
				entered["/test/lock/"+queue.Name+"/"+own.ID] = err == nil
				mu.Unlock()
				if err != nil {
					assert.ErrorIs(t, err, rpctypes.ErrNoSpace)
					return
				}
			}
		})
	}
	wg.Wait()
	there := keys(t, server, "/test/lock/")
	for _, key := range there {
		require.True(t, entered[key], "%s was refused", key)
		delete(entered, key)
	}
	for key, was := range entered {
		require.False(t, was, "%s was made", key)
	}
	require.NoError(t, session.Close(ctx))
}

// misreported makes a client of the server, and something to set: an error that it gets
// instead of the reply to the next transaction, which is done.
func misreported(t testing.TB, server *etcdtest.Server) (*clientv3.Client, *atomic.Pointer[error]) {
	t.Helper()
	var instead atomic.Pointer[error]
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.Addr()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			err := invoke(ctx, method, req, reply, conn, opts...)
			if _, ok := req.(*pb.TxnRequest); ok && err == nil {
				if other := instead.Swap(nil); other != nil {
					return *other
				}
			}
			return err
		})},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client, &instead
}

// TestNoSpaceWhileLeaving leaves an entry that may have a late request, as the space runs
// out: that it was left is known, although the service says that it has no space.
func TestNoSpaceWhileLeaving(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client, instead := misreported(t, server)
	ctx := context.Background()
	session, err := etcd.NewStore(client, "/test", time.Minute, time.Minute).Connect(ctx)
	require.NoError(t, err)
	lost := status.Error(codes.Unavailable, "the reply is lost")
	instead.Store(&lost)
	own, _, err := session.Enter(ctx, driver.Queue{Space: driver.SpaceLock, Name: "job"}, nil)
	require.NoError(t, err)
	require.Nil(t, instead.Load())

	full := rpctypes.ErrGRPCNoSpace
	instead.Store(&full)
	require.NoError(t, session.Leave(ctx, own))
	require.Nil(t, instead.Load())
	require.Empty(t, keys(t, server, "/test/lock/"))
	require.NoError(t, session.Close(ctx))
}

// TestNoSpaceWhileUpdating updates an entry as the space runs out, and when there is none:
// what is returned is what was done.
func TestNoSpaceWhileUpdating(t *testing.T) {
	t.Parallel()
	o := etcdtest.Options()
	o.Quota = 4 << 20
	server := etcdtest.StartWith(t, o)
	client, instead := misreported(t, server)
	ctx := context.Background()
	session, err := etcd.NewStore(client, "/test", time.Minute, time.Minute).Connect(ctx)
	require.NoError(t, err)
	own, _, err := session.Enter(ctx, driver.Queue{Space: driver.SpaceLock, Name: "job"}, nil)
	require.NoError(t, err)
	value := func() string {
		resp, err := client.Get(ctx, "/test/lock/job/"+own.ID)
		require.NoError(t, err)
		require.Len(t, resp.Kvs, 1)
		require.EqualValues(t, own.Version, resp.Kvs[0].ModRevision)
		return string(resp.Kvs[0].Value)
	}

	full := rpctypes.ErrGRPCNoSpace
	instead.Store(&full)
	own, err = session.Update(ctx, own, []byte("done"))
	require.NoError(t, err)
	require.Nil(t, instead.Load())
	require.Equal(t, "done", string(own.Value))
	require.Equal(t, "done", value())

	fill(t, client)
	own, err = session.Update(ctx, own, []byte("refused"))
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	require.Equal(t, "done", string(own.Value))
	require.Equal(t, "done", value())
	require.NoError(t, session.Leave(ctx, own))
	_, err = session.Update(ctx, own, nil)
	require.ErrorIs(t, err, driver.ErrGone)
	require.NoError(t, session.Close(ctx))
}

// TestNoSpaceForValues writes values as the space runs out, and when there is none: what
// is done is reported as done, and what is refused is so at once, with the reason.
func TestNoSpaceForValues(t *testing.T) {
	t.Parallel()
	o := etcdtest.Options()
	o.Quota = 4 << 20
	server := etcdtest.StartWith(t, o)
	client, instead := misreported(t, server)
	ctx := context.Background()
	c, err := etcd.Open(ctx, client, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	counter, err := recipes.NewCounter(c, "hits")
	require.NoError(t, err)
	queue, err := recipes.NewQueue[string](c, "work", nil)
	require.NoError(t, err)
	hold := lock(t, mutex(t, c, "job"))

	full := rpctypes.ErrGRPCNoSpace
	instead.Store(&full)
	n, err := counter.Add(ctx, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Nil(t, instead.Load())

	fill(t, client)
	_, err = counter.Add(ctx, 1)
	requireFull(t, err)
	_, err = queue.Put(ctx, "a", nil)
	requireFull(t, err)
	requireFull(t, hold.Publish(ctx, "working"))
	n, err = counter.Get(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	unlock(t, hold)
}

func requireFull(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.ErrorContains(t, err, "database space exceeded")
}
