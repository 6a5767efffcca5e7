package zk

import (
	"fmt"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes/driver"
)

// TestCodes has errors as the library words them where it does not know the code.
func TestCodes(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]bool{
		-1: false, -3: false, -4: false, -7: false, -12: false, // the server is in trouble
		-6: true, -113: true, -120: true, -125: true, -200: true,
		-119: false, -122: false, -127: false,
	} {
		err := at("create", "/a", translate(fmt.Errorf("unknown error: %d", number)))
		require.Equal(t, want, refused(err), number)
		require.Equal(t, want, final(err), number)
	}
	for _, err := range []error{nil, gozk.ErrSessionMoved, gozk.ErrConnectionClosed, fmt.Errorf("unknown error: %s", "of another kind")} {
		require.False(t, refused(translate(err)), "%v", err)
	}
	require.True(t, refused(translate(gozk.ErrNodeExists)))
}

// TestQuota enters queues where the server lets nobody make another node: Enter says so and
// asks no more.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 1, "enforceQuota=true")
	root := rootFor(t)
	sess := newSession(t, s, root, 20*time.Second)
	there := driver.Queue{Space: driver.SpaceLock, Name: "there"}
	own, _, err := sess.Enter(within(t), there, nil)
	require.NoError(t, err)
	require.NoError(t, sess.Leave(within(t), own))

	admin := connect(t, s.Addrs(), 20*time.Second)
	limits := "/zookeeper/quota" + root + "/zookeeper_limits"
	for _, n := range []struct{ path, data string }{
		{"/zookeeper/quota" + root, ""},
		{limits, "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3"}, // the root, the space and the queue
		{"/zookeeper/quota" + root + "/zookeeper_stats", "count=0,bytes=0"},
	} {
		_, err := admin.Create(n.path, []byte(n.data), gozk.FlagPersistent, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	server, conns := sess.link.conn.zk.Server(), sess.link.conn.dialer.conns()
	queues := []driver.Queue{there, {Space: driver.SpaceLock, Name: "new"}}
	for _, q := range queues {
		_, _, err := sess.Enter(within(t), q, nil)
		require.ErrorIs(t, err, quotaExceeded)
		require.ErrorContains(t, err, "quota exceeded")
	}
	_, err = sess.store.Swap(within(t), driver.Entry{Queue: driver.Queue{Space: driver.SpaceRegister, Name: "new"}}, []byte("value"))
	require.ErrorIs(t, err, quotaExceeded)
	require.ErrorIs(t, err, driver.ErrRefused)
	require.Equal(t, server, sess.link.conn.zk.Server())
	require.Equal(t, conns, sess.link.conn.dialer.conns(), "it stays with its server")

	_, err = admin.Set(limits, []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1"), anyVersion)
	require.NoError(t, err)
	for _, q := range queues {
		own, _, err := sess.Enter(within(t), q, nil)
		require.NoError(t, err)
		require.NoError(t, sess.Leave(within(t), own))
	}
}
