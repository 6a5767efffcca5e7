package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes/driver"
)

// lateWorld is a client that begins on a link which can hold its requests back,
// and is then moved to another.
type lateWorld struct {
	server     *etcdtest.Server
	slow, fast *faultlink.Link
	client     *clientv3.Client
	session    driver.Session
	queue      driver.Queue
}

// lateTimeout is how long the client waits for the reply to a request.
const lateTimeout = 2 * time.Second

func newLateWorld(t *testing.T) *lateWorld {
	o := etcdtest.Options()
	o.Quota = 4 << 20 // soon full
	server := etcdtest.StartWith(t, o)
	w := &lateWorld{
		server: server, slow: newLink(t, server), fast: newLink(t, server),
		queue: driver.Queue{Space: driver.SpaceLock, Name: "job"},
	}
	var err error
	w.client, err = clientv3.New(clientv3.Config{Endpoints: []string{w.slow.Addr()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.client.Close()) })
	w.session, err = etcd.NewStore(w.client, "/test", 5*time.Minute, lateTimeout).Connect(context.Background())
	require.NoError(t, err)
	return w
}

func (w *lateWorld) enter(t *testing.T) driver.Entry {
	t.Helper()
	own, _, err := w.session.Enter(context.Background(), w.queue, []byte("{}"))
	require.NoError(t, err)
	return own
}

// leave leaves as recipes does: again, until the outcome is known.
func (w *lateWorld) leave(t *testing.T, own driver.Entry) {
	t.Helper()
	unsettled := false
	eventually(t, "the service to confirm", func() bool {
		err := w.session.Leave(context.Background(), own)
		unsettled = unsettled || err != nil && !errors.Is(err, driver.ErrGone)
		return err == nil || unsettled && errors.Is(err, driver.ErrGone)
	})
}

// holdBack stalls the first link while f makes a request, and moves the client to
// the other link once the request waits. What the client says later is not a part
// of what is held back: above all, that it cancels the request.
func (w *lateWorld) holdBack(t *testing.T, f func()) {
	t.Helper()
	w.slow.Stall(faultlink.Requests)
	w.quiet(t, false) // what the client still has to say about earlier replies
	w.slow.Mark()
	w.slow.Deliver()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	w.quiet(t, true)
	w.slow.Mark()
	w.client.SetEndpoints(w.fast.Addr())
	<-done
}

// quiet waits until nothing has come to wait for a moment, shorter than it takes
// until a request is cancelled.
func (w *lateWorld) quiet(t *testing.T, something bool) {
	t.Helper()
	last, since := w.slow.Waiting(), time.Now()
	eventually(t, "the link to be quiet", func() bool {
		if now := w.slow.Waiting(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > lateTimeout/10 && (!something || last > 0)
	})
}

// deliver delivers the request that was held back, and waits until the service has
// worked on it.
func (w *lateWorld) deliver(t *testing.T) {
	t.Helper()
	requests := func() int { return w.server.Calls()["Txn"] + w.server.Calls()["DeleteRange"] }
	before, applied := requests(), w.server.Counts(t).Proposals
	w.slow.Deliver()
	eventually(t, "the late request to arrive", func() bool { return requests() > before })
	eventually(t, "the late request to be worked on", func() bool { return w.server.Counts(t).Proposals > applied })
	w.slow.Resume()
}

// TestLateEnter delivers a request to enter the queue after its entry was made by
// a second request, and removed: it must not bring the entry back.
func TestLateEnter(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t)
	var own driver.Entry
	w.holdBack(t, func() { own = w.enter(t) })
	require.Len(t, keys(t, w.server, "/test/lock/"), 1)
	w.leave(t, own)
	require.Empty(t, keys(t, w.server, "/test/lock/"))
	require.Equal(t, []string{"/test/void/" + own.ID}, keys(t, w.server, "/test/void/"))
	w.deliver(t)
	require.Empty(t, keys(t, w.server, "/test/lock/"), "a ghost")

	next, ahead, err := w.session.Enter(context.Background(), w.queue, nil)
	require.NoError(t, err)
	require.Nil(t, ahead)
	w.leave(t, next)
	require.NoError(t, w.session.Close(context.Background()))
	require.Empty(t, keys(t, w.server, "/test/"), "the void key goes with the session")
}

// TestLateEnterWithoutSpace fills the service up before the entry is left: it can be,
// and the late request is refused.
func TestLateEnterWithoutSpace(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t)
	var own driver.Entry
	w.holdBack(t, func() { own = w.enter(t) })
	fill(t, w.server.Client(t))
	require.NoError(t, w.session.Leave(context.Background(), own))
	require.Empty(t, keys(t, w.server, "/test/lock/"))
	require.Empty(t, keys(t, w.server, "/test/void/"), "there is no space for it")
	require.ErrorIs(t, w.session.Leave(context.Background(), own), driver.ErrGone)
	w.deliver(t)
	require.Empty(t, keys(t, w.server, "/test/lock/"), "a ghost")
	require.NoError(t, w.session.Close(context.Background()))
}

// TestLateEnterOfAnEndedSession delivers it after the session is over.
func TestLateEnterOfAnEndedSession(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t)
	w.holdBack(t, func() { w.enter(t) })
	require.NoError(t, w.session.Close(context.Background()))
	require.Empty(t, keys(t, w.server, "/test/"))
	w.deliver(t)
	require.Empty(t, keys(t, w.server, "/test/"), "a ghost")
}

// TestLateReplyToEnter holds back the reply while Enter tries again: there is one
// entry, and its place is known.
func TestLateReplyToEnter(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t)
	first := w.enter(t)
	w.slow.Stall(faultlink.Replies)
	calls := w.server.Calls()["Txn"]
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		for w.server.Calls()["Txn"] == calls {
			time.Sleep(time.Millisecond) // between looks; nothing depends on how long
		}
		w.client.SetEndpoints(w.fast.Addr())
	}()
	own, ahead, err := w.session.Enter(context.Background(), w.queue, []byte("{}"))
	<-moved
	require.NoError(t, err)
	require.NotNil(t, ahead)
	require.Equal(t, first.ID, ahead.ID)
	require.Greater(t, own.Revision, first.Revision)
	require.Len(t, keys(t, w.server, "/test/lock/"), 2)
	w.slow.Resume()
	w.leave(t, own)
	w.leave(t, first)
	require.NoError(t, w.session.Close(context.Background()))
	require.Empty(t, keys(t, w.server, "/test/"))
}

// TestLateLeave delivers a request to leave after the same session has entered
// the queue again: it must not remove the new entry.
func TestLateLeave(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t)
	own := w.enter(t)
	w.holdBack(t, func() { w.leave(t, own) })
	again := w.enter(t)
	w.deliver(t)
	_, err := w.session.Ahead(context.Background(), again)
	require.NoError(t, err, "the new entry stays")
	require.Len(t, keys(t, w.server, "/test/lock/"), 1)
	require.NoError(t, w.session.Close(context.Background()))
}

// TestLateUpdate delivers a request to update an entry after a newer update: it
// must not bring the older value back.
func TestLateUpdate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newLateWorld(t)
	own := w.enter(t)
	w.holdBack(t, func() {
		_, err := w.session.Update(ctx, own, []byte(`"older"`))
		require.Error(t, err)
	})
	updated, err := w.session.Update(ctx, own, []byte(`"newer"`))
	require.NoError(t, err)
	require.Greater(t, updated.Version, own.Version)
	value := func() string {
		resp, err := w.client.Get(ctx, "/test/lock/job/"+own.ID)
		require.NoError(t, err)
		require.Len(t, resp.Kvs, 1)
		return string(resp.Kvs[0].Value)
	}
	w.deliver(t)
	require.Equal(t, `"newer"`, value())

	again, err := w.session.Update(ctx, own, []byte(`"newest"`)) // as of a version that is gone
	require.NoError(t, err)
	require.Greater(t, again.Version, updated.Version)
	require.Equal(t, `"newest"`, value())
	w.leave(t, own)
	_, err = w.session.Update(ctx, own, []byte(`"late"`))
	require.ErrorIs(t, err, driver.ErrGone)
	require.NoError(t, w.session.Close(ctx))
}
