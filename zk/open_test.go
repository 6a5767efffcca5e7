package zk

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

func itoa(n int) string { return strconv.Itoa(n) }

// testOpen closes a client on the user's connection: the user's session stays,
// and nothing of the client does.
func testOpen(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	conn := connect(t, s.Addrs(), 20*time.Second)
	c, err := Open(within(t), conn, &Options{Root: root, TTL: 20 * time.Second})
	require.NoError(t, err)
	mine, err := conn.Create(root+"-mine", nil, gozk.FlagEphemeral, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)

	held := lock(t, c, "held")
	require.Equal(t, nameOf(conn.SessionID()), held.SessionID())
	m, err := c.Mutex("held", nil)
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := m.Lock(context.Background())
		waiting <- err
	}()
	eventually(t, "two in line", func() bool {
		children, _, err := conn.Children(root + "/lock/held")
		return err == nil && len(children) == 2
	})
	session := conn.SessionID()
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-waiting, recipes.ErrClosed)
	require.ErrorIs(t, context.Cause(held.Context()), recipes.ErrClosed)

	require.Equal(t, session, conn.SessionID())
	exists, _, err := conn.Exists(mine)
	require.NoError(t, err)
	require.True(t, exists)
	children, _, err := conn.Children(root + "/lock/held")
	require.NoError(t, err)
	require.Empty(t, children)

	c, err = Open(within(t), conn, &Options{Root: root, TTL: 20 * time.Second}) // and again
	require.NoError(t, err)
	require.NoError(t, lock(t, c, "held").Unlock(within(t)))
	require.NoError(t, c.Close())
}

// testOpenClosed has the user close the connection first. Then nothing works, and everything
// says so.
func testOpenClosed(t *testing.T, s *zkserver.Server) {
	conn := connect(t, s.Addrs(), 20*time.Second)
	c, err := Open(within(t), conn, patient(&Options{Root: rootFor(t)}))
	require.NoError(t, err)
	hold := lock(t, c, "held")
	conn.Close()
	select {
	case <-hold.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder did not learn that its connection was closed")
	}
	require.ErrorIs(t, context.Cause(hold.Context()), recipes.ErrLost)
	require.ErrorIs(t, hold.Unlock(within(t)), recipes.ErrLost)

	m, err := c.Mutex("held", nil)
	require.NoError(t, err)
	_, err = m.Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrClosed)
	_, err = c.Objects(within(t), recipes.Filter{})
	require.ErrorIs(t, err, recipes.ErrClosed)
	r, err := recipes.NewRegister[string](c, "value")
	require.NoError(t, err)
	_, err = r.Replace(within(t), recipes.Snapshot[string]{}, "new")
	require.ErrorIs(t, err, recipes.ErrClosed)
	for _, err = range c.Watch(within(t), recipes.Filter{}) {
		continue // the last one tells
	}
	require.ErrorIs(t, err, recipes.ErrClosed)
	require.NoError(t, c.Close())
}

// stalled is a user's connection through a link, and a client on it.
func stalled(t *testing.T, s *zkserver.Server, root string) (*faultlink.Link, *gozk.Conn, *recipes.Client, func() greeting) {
	t.Helper()
	link, err := faultlink.New(s.Addrs()[0])
	require.NoError(t, err)
	t.Cleanup(link.Close)
	greetings := make(chan greeting, 100)
	greeters := map[int]*listener{}
	link.Observe(func(conn int, dir faultlink.Direction, data []byte) {
		if dir != faultlink.Replies {
			return
		}
		if greeters[conn] == nil {
			greeters[conn] = &listener{}
		}
		greeters[conn].feed(data, func(first bool, packet []byte) {
			if g, ok := readGreeting(packet); first && ok {
				greetings <- g
			}
		})
	})
	conn := connect(t, []string{link.Addr()}, 20*time.Second)
	c, err := Open(within(t), conn, &Options{Root: root, TTL: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return link, conn, c, func() greeting { return <-greetings }
}

// openStore is the store of a client on a user's connection.
func openStore(t *testing.T, user *gozk.Conn, root string) *store {
	t.Helper()
	o, err := (&Options{Root: root, TTL: 20 * time.Second}).withDefaults(DefaultOpenTTL)
	require.NoError(t, err)
	st := newStore(&conn{zk: user}, nil, o)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func expire(t *testing.T, s *zkserver.Server, g greeting) {
	t.Helper()
	_, err := insist(within(t), func() (struct{}, error) { // the owner may take the session back in between
		conn, err := net.Dial("tcp", s.Addrs()[0])
		if err == nil {
			defer conn.Close()
			err = endSession(within(t), conn, g)
		}
		return struct{}{}, err
	})
	require.NoError(t, err)
}

// testOpenExpired ends the session of the user's connection, which goes on with
// a new one.
func testOpenExpired(t *testing.T, s *zkserver.Server) {
	_, conn, c, greeted := stalled(t, s, rootFor(t))
	hold := lock(t, c, "held")
	old := conn.SessionID()
	expire(t, s, greeted())
	select {
	case <-hold.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder did not learn that its session is over")
	}
	again := lock(t, c, "held")
	require.NotEqual(t, old, conn.SessionID())
	require.Equal(t, nameOf(conn.SessionID()), again.SessionID())
	require.Greater(t, again.Token(), hold.Token())
	require.ErrorIs(t, hold.Unlock(within(t)), recipes.ErrLost)
	require.NoError(t, again.Unlock(within(t)))
}

// testOpenStray has a request to enter wait, in the library, through the end of
// its session. The library sends it in the next session of the connection, where
// nobody expects the node: it would block the lock as long as the user's
// connection lives.
func testOpenStray(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	link, conn, c, greeted := stalled(t, s, root)
	require.NoError(t, lock(t, c, "stray").Unlock(within(t)))
	old := conn.SessionID()
	link.Stall(faultlink.Both)
	link.Cut()
	eventually(t, "the connection to be down", func() bool { return conn.State() != gozk.StateHasSession })
	m, err := c.Mutex("stray", nil)
	require.NoError(t, err)
	type outcome struct {
		hold *recipes.Hold
		err  error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		hold, err := m.Lock(within(t))
		outcomes <- outcome{hold, err}
	}()
	expire(t, s, greeted())
	link.Resume()
	o := <-outcomes
	require.NoError(t, o.err, "the lock is entered anew, and nothing is in the way")
	require.NotEqual(t, old, conn.SessionID())
	eventually(t, "the stray to be gone", func() bool {
		children, _, err := conn.Children(root + "/lock/stray")
		return err == nil && len(children) == 1
	})
	require.NoError(t, o.hold.Unlock(within(t)))
}

// testOpenCloseEntering closes a client, and then a session, on the user's connection, while
// the reply to a request to enter is not in: the node is there, and nobody else would remove
// it for as long as the user's connection lives.
func testOpenCloseEntering(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	link, conn, c, _ := stalled(t, s, root)
	admin := connect(t, s.Addrs(), 20*time.Second)
	entered := func(want int) {
		t.Helper()
		eventually(t, "the nodes to come or go", func() bool {
			children, _, err := admin.Children(root + "/lock/client")
			return err == nil && len(children) == want
		})
	}
	require.NoError(t, lock(t, c, "client").Unlock(within(t))) // makes the queue
	m, err := c.Mutex("client", nil)
	require.NoError(t, err)
	link.Stall(faultlink.Replies)
	locked, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := m.Lock(within(t))
		locked <- err
	}()
	entered(1)
	go func() { closed <- c.Close() }()
	require.ErrorIs(t, <-locked, recipes.ErrClosed)
	link.Resume()
	require.NoError(t, <-closed)
	entered(0)

	st := openStore(t, conn, root)
	sess, err := st.Connect(within(t))
	require.NoError(t, err)
	q := driver.Queue{Space: driver.SpaceLock, Name: "client"}
	link.Stall(faultlink.Replies)
	entering, stop := context.WithCancel(within(t))
	go func() {
		_, _, err := sess.Enter(entering, q, nil)
		locked <- err
	}()
	entered(1)
	go func() { closed <- sess.Close(within(t)) }()
	over, cancel := context.WithCancel(within(t))
	cancel()
	eventually(t, "the session to refuse who enters", func() bool {
		require.Empty(t, closed, "closed while one was entering")
		_, _, err := sess.Enter(over, q, nil)
		return errors.Is(err, driver.ErrSessionOver)
	})
	stop()
	require.ErrorIs(t, <-locked, context.Canceled)
	link.Resume()
	require.NoError(t, <-closed)
	entered(0)
}

// testDisconnectIsLoss cuts the connections of two clients.
func testDisconnectIsLoss(t *testing.T, s *zkserver.Server) {
	link, err := faultlink.New(s.Addrs()[0])
	require.NoError(t, err)
	t.Cleanup(link.Close)
	root := rootFor(t)
	keeps := dial(t, "zk://"+link.Addr()+root, nil)
	loses := dial(t, "zk://"+link.Addr()+root, &Options{DisconnectIsLoss: true})
	kept, lost := lock(t, keeps, "kept"), lock(t, loses, "lost")
	link.Cut()
	select {
	case <-lost.Context().Done():
	case <-time.After(patience):
		t.Fatal("a disconnect did not count as a loss")
	}
	require.ErrorIs(t, context.Cause(lost.Context()), recipes.ErrLost)
	require.NoError(t, lock(t, keeps, "lost").Unlock(within(t)), "the session is ended, so the next in line gets the lock")
	require.NoError(t, kept.Context().Err())
	require.NoError(t, kept.Unlock(within(t)))
}
