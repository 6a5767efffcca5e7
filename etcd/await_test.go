package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes/driver"
)

// connect opens a session of the engine that is closed when the test ends.
func connect(t testing.TB, client *clientv3.Client) driver.Session {
	t.Helper()
	ctx := context.Background()
	sess, err := etcd.NewStore(client, "/test", 20*time.Second, time.Second).Connect(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sess.Close(ctx)) })
	return sess
}

func enter(t testing.TB, sess driver.Session) (driver.Entry, *driver.Entry) {
	t.Helper()
	own, ahead, err := sess.Enter(context.Background(), driver.Queue{Space: driver.SpaceLock, Name: "job"}, []byte("{}"))
	require.NoError(t, err)
	return own, ahead
}

// TestAwaitOfAnEntryThatIsGone starts to wait for an entry that was removed after
// Enter had named it, and for one whose name was used again.
func TestAwaitOfAnEntryThatIsGone(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, b := connect(t, client), connect(t, client)
	first, _ := enter(t, a)
	_, ahead := enter(t, b)
	require.Equal(t, first.ID, ahead.ID)
	require.NoError(t, a.Leave(ctx, first))
	require.NoError(t, b.Await(ctx, *ahead))

	_, err := client.Put(ctx, "/test/lock/job/"+first.ID, "someone else's")
	require.NoError(t, err)
	require.NoError(t, b.Await(ctx, *ahead), "it is not the same entry")
}

// TestAwaitGivenUp gives up waiting again and again, at every moment, and then
// looks at what is left on the server.
func TestAwaitGivenUp(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client(t)
	a, b := connect(t, client), connect(t, client)
	first, _ := enter(t, a)
	_, ahead := enter(t, b)
	const rounds = 300
	for i := range rounds {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*10*time.Microsecond)
		require.ErrorIs(t, b.Await(ctx, *ahead), context.DeadlineExceeded)
		cancel()
	}
	eventually(t, "every watch but those of the sessions to be cancelled", func() bool {
		calls := server.Calls()
		return calls["Watch"] == calls["WatchCancel"]+2
	})
	calls := server.Calls()
	require.Greater(t, calls["Watch"], rounds/10, "watches were made")
	events := server.Counts(t).Events
	require.NoError(t, a.Leave(context.Background(), first))
	require.NoError(t, b.Await(context.Background(), *ahead))
	require.Equal(t, events, server.Counts(t).Events, "nobody was told but those who ask")
}

// TestAwaitReturnsWithTheSession closes the session under a wait.
func TestAwaitReturnsWithTheSession(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client(t)
	a := connect(t, client)
	b, err := etcd.NewStore(client, "/test", 20*time.Second, time.Second).Connect(context.Background())
	require.NoError(t, err)
	enter(t, a)
	_, ahead := enter(t, b)
	waited := make(chan error, 1)
	before := server.Calls()["Watch"]
	go func() { waited <- b.Await(context.Background(), *ahead) }()
	eventually(t, "the watch", func() bool { return server.Calls()["Watch"] > before })
	require.NoError(t, b.Close(context.Background()))
	require.Error(t, <-waited)
	require.Error(t, b.Await(context.Background(), *ahead), "after Close it returns too")
}

// TestLeaveTellsWhyAnEntryIsGone distinguishes an entry removed by hand from one
// that went with its session.
func TestLeaveTellsWhyAnEntryIsGone(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client(t)
	ctx := context.Background()
	sess := connect(t, client)
	own, _ := enter(t, sess)
	_, err := client.Delete(ctx, "/test/lock/job/"+own.ID)
	require.NoError(t, err)
	require.ErrorIs(t, sess.Leave(ctx, own), driver.ErrGone)
	_, err = sess.Ahead(ctx, own)
	require.ErrorIs(t, err, driver.ErrGone)

	own, _ = enter(t, sess)
	revoke(t, client, sess.ID())
	require.ErrorIs(t, sess.Leave(ctx, own), driver.ErrSessionOver)
	_, err = sess.Ahead(ctx, own)
	require.ErrorIs(t, err, driver.ErrSessionOver)
	require.ErrorIs(t, sess.Renew(ctx), driver.ErrSessionOver)
	_, _, err = sess.Enter(ctx, own.Queue, nil)
	require.ErrorIs(t, err, driver.ErrSessionOver)
	select {
	case <-sess.Done():
	case <-time.After(patience):
		t.Fatal("the session does not know that it is over")
	}
}
