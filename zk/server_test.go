package zk

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// TestServer runs what needs a server but not one of its own.
func TestServer(t *testing.T) {
	s := zkserver.Start(t, 1)
	for name, test := range map[string]func(*testing.T, *zkserver.Server){
		"GrantedTTL":         testGrantedTTL,
		"ConnectRenews":      testConnectRenews,
		"SameNumber":         testSameNumber,
		"SharedWatch":        testSharedWatch,
		"Refused":            testRefused,
		"DisconnectIsLoss":   testDisconnectIsLoss,
		"BadPath":            testBadPath,
		"ErrorsName":         testErrorsName,
		"Digest":             testDigest,
		"GuardAccess":        testGuardAccess,
		"GuardLeader":        testGuardLeader,
		"ACL":                testACL,
		"ReadOnlyRoot":       testReadOnlyRoot,
		"ForeignLocks":       testForeignLocks,
		"Open":               testOpen,
		"OpenClosed":         testOpenClosed,
		"OpenExpired":        testOpenExpired,
		"OpenStray":          testOpenStray,
		"OpenCloseEntering":  testOpenCloseEntering,
		"ReplaceThroughLoss": testReplaceThroughLoss,
		"WatchLooksAgain":    testWatchLooksAgain,
		"GoLock":             testGoLock,
		"Kazoo":              testKazoo,
		"Curator":            testCurator,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// patience bounds everything that must happen; reaching it is a failure.
const patience = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// rootFor is a root for one test.
func rootFor(t testing.TB) string {
	return fmt.Sprintf("/%s-%x", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())
}

func urlFor(s *zkserver.Server, root string) string {
	return "zk://" + strings.Join(s.Addrs(), ",") + root
}

// patient are the same options for a machine that is busy.
func patient(opts *Options) *Options {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Client.ConnectTimeout = patience
	return &o
}

// dial makes a client that is closed, successfully, when the test ends.
func dial(t testing.TB, url string, opts *Options) *recipes.Client {
	t.Helper()
	c, err := Dial(within(t), url, patient(opts))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func lock(t testing.TB, c *recipes.Client, name string) *recipes.Hold {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	h, err := m.Lock(within(t))
	require.NoError(t, err)
	return h
}

// session makes a driver's session as recipes would.
func newSession(t testing.TB, s *zkserver.Server, root string, ttl time.Duration) *session {
	t.Helper()
	o, err := (&Options{Root: root, TTL: ttl}).withDefaults(DefaultTTL)
	require.NoError(t, err)
	st := newStore(nil, s.Addrs(), o)
	sess, err := st.Connect(within(t))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, sess.Close(within(t)))
		require.NoError(t, st.Close())
	})
	return sess.(*session)
}

func testGrantedTTL(t *testing.T, s *zkserver.Server) {
	sess := newSession(t, s, rootFor(t), 100*time.Millisecond)
	require.Equal(t, 2*zkserver.Tick*3/4, sess.TTL(), "what the server granted, which is more than was asked for")
	sess = newSession(t, s, rootFor(t), time.Hour)
	require.Equal(t, 60*time.Second*3/4, sess.TTL(), "and less")
}

// testConnectRenews opens a session on a connection that was made long before.
func testConnectRenews(t *testing.T, s *zkserver.Server) {
	c := dial(t, urlFor(s, rootFor(t))+"?ttl=2s", nil)
	_, err := c.Objects(within(t), recipes.Filter{}) // opens the connection
	require.NoError(t, err)
	start := time.Now()
	hold := lock(t, c, "late")
	require.WithinRange(t, hold.Deadline(), start.Add(time.Second), start.Add(2*time.Second))
	require.NoError(t, hold.Unlock(within(t)))
}

// testSameNumber has three nodes in line that the server numbered alike, as it
// does when it has counted to the end.
func testSameNumber(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	sess := newSession(t, s, root, 10*time.Second)
	q := driver.Queue{Space: driver.SpaceLock, Name: "same"}
	dir, err := sess.store.dir(q)
	require.NoError(t, err)
	require.NoError(t, sess.store.makeDir(within(t), sess.link, dir))
	admin := connect(t, s.Addrs(), 20*time.Second)
	var line []string
	for _, prefix := range []string{"_c_9", "_c_1", "_c_5"} { // made in this order
		path, err := admin.Create(dir+"/"+prefix+"-lock-2147483647", nil, gozk.FlagEphemeral, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
		line = append(line, strings.TrimPrefix(path, dir+"/"))
	}
	entries, err := sess.store.List(within(t), driver.Scope{Space: q.Space, Name: q.Name})
	require.NoError(t, err)
	require.Len(t, entries, 3)
	for i, entry := range entries {
		require.Equal(t, line[i], entry.ID)
	}
	for i, entry := range entries {
		ahead, err := sess.Ahead(within(t), entry)
		require.NoError(t, err)
		if i == 0 {
			require.Nil(t, ahead)
			continue
		}
		require.Equal(t, line[i-1], ahead.ID)
	}
	first, err := sess.store.List(within(t), driver.Scope{Space: q.Space, Name: q.Name, First: true})
	require.NoError(t, err)
	require.Equal(t, line[0], first[0].ID)
}

// testSharedWatch gives up many waits for the same entry: one watch serves all.
func testSharedWatch(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	holder, waiter := newSession(t, s, root, 10*time.Second), newSession(t, s, root, 10*time.Second)
	q := driver.Queue{Space: driver.SpaceLock, Name: "watched"}
	own, _, err := holder.Enter(within(t), q, nil)
	require.NoError(t, err)
	for range 20 {
		ctx, cancel := context.WithTimeout(within(t), time.Millisecond)
		require.ErrorIs(t, waiter.Await(ctx, own), context.DeadlineExceeded)
		cancel()
	}
	count := func() int { return watchesOf(t, s, waiter.ID()) }
	require.Equal(t, 2, count(), "one on the entry, and the one that tells of the session's end")
	require.NoError(t, holder.Leave(within(t), own))
	require.NoError(t, waiter.Await(within(t), own), "there is no such entry")
	eventually(t, "the watch to be gone", func() bool { return count() == 1 })
	waiter.link.watches.mu.Lock()
	defer waiter.link.watches.mu.Unlock()
	require.Empty(t, waiter.link.watches.live)
}

// watchesOf counts a session's watches, as the server tells them: a line with the
// session's id, then an indented line for each.
func watchesOf(t *testing.T, s *zkserver.Server, session string) (n int) {
	t.Helper()
	ours := false
	for line := range strings.Lines(s.Word(t, 0, "wchc")) {
		if !strings.HasPrefix(line, "\t") {
			ours = strings.TrimSpace(line) == session
		} else if ours {
			n++
		}
	}
	return n
}

func testRefused(t *testing.T, s *zkserver.Server) {
	nobody := fmt.Sprintf("127.0.0.1:%d", zkserver.FreePort(t))
	start := time.Now()
	_, err := Dial(within(t), "zk://"+nobody, nil)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.ErrorContains(t, err, nobody)
	require.ErrorContains(t, err, "refused")
	require.Less(t, time.Since(start), 2*time.Second, "it does not wait for a server that is not there")

	_, err = Dial(within(t), urlFor(s, "")+"?tls=true", nil)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.ErrorContains(t, err, "TLS handshake")

	c := dial(t, "zk://"+nobody+","+s.Addrs()[0]+rootFor(t), nil)
	require.NoError(t, lock(t, c, "one of two").Unlock(within(t)))
}

func testBadPath(t *testing.T, s *zkserver.Server) {
	c := dial(t, urlFor(s, rootFor(t)), nil)
	m, err := c.Mutex("bad", &recipes.MutexOptions{Path: "no/slash"})
	require.NoError(t, err)
	_, err = m.Lock(within(t))
	requireInvalid(t, err, "MutexOptions.Path")
	_, err = m.TryLock(within(t))
	requireInvalid(t, err, "MutexOptions.Path")
}

// testErrorsName looks at whom an error names who waited in the second place.
func testErrorsName(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	labelled := func(label string) *recipes.Client {
		o := &Options{Client: recipes.ClientOptions{Owner: recipes.Owner{Label: label}}}
		return dial(t, urlFor(s, root), o)
	}
	a, b, c := labelled("a"), labelled("b"), labelled("c")
	hold := lock(t, a, "names")
	m, err := b.Mutex("names", nil)
	require.NoError(t, err)
	middle, giveUp := context.WithCancel(within(t))
	gaveUp := make(chan error, 1)
	go func() {
		_, err := m.Lock(middle)
		gaveUp <- err
	}()
	length := func() int {
		l, err := a.Lock(within(t), "names")
		require.NoError(t, err)
		return len(l.Entries)
	}
	eventually(t, "b to wait", func() bool { return length() == 2 })
	last, cancel := context.WithCancel(within(t))
	outcome := make(chan error, 1)
	m, err = c.Mutex("names", nil)
	require.NoError(t, err)
	go func() {
		_, err := m.Lock(last)
		outcome <- err
	}()
	eventually(t, "c to wait", func() bool { return length() == 3 })
	giveUp() // now a is directly ahead of c
	require.Error(t, <-gaveUp)
	eventually(t, "b to be gone", func() bool { return length() == 2 })
	// c's wait goes on; what it says when given up depends on whether it has looked
	// again yet, so the error names a or b, and never nobody.
	cancel()
	var held *recipes.HeldError
	require.ErrorAs(t, <-outcome, &held)
	require.Contains(t, []string{"a", "b"}, held.Holder.Label)
	require.NoError(t, hold.Unlock(within(t)))
}
