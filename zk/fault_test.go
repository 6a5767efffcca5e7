package zk

import (
	"context"
	"slices"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// TestPaused dials a server that accepts connections and answers nothing.
func TestPaused(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 1)
	url := urlFor(s, "/paused")
	held := dial(t, url+"?ttl=20s", nil)
	hold := lock(t, held, "held")
	s.Pause(t, 0)
	for name, bound := range map[string]struct {
		ctx  time.Duration
		opts *Options
	}{
		"by the context":      {300 * time.Millisecond, nil},
		"by the options":      {patience, &Options{Client: recipes.ClientOptions{ConnectTimeout: 300 * time.Millisecond}}},
		"with a long timeout": {300 * time.Millisecond, &Options{TTL: time.Hour}},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), bound.ctx)
		start := time.Now()
		_, err := Dial(ctx, url, bound.opts)
		cancel()
		require.ErrorIs(t, err, recipes.ErrUnavailable, name)
		require.Less(t, time.Since(start), 4*time.Second, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := held.Objects(ctx, recipes.Filter{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	s.Resume(t, 0)
	require.NoError(t, hold.Context().Err())
	require.NoError(t, hold.Unlock(within(t)))
}

// TestCloseWhileStalled closes a client whose server does not answer: it takes
// CloseTimeout and says so.
func TestCloseWhileStalled(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 1)
	c, err := Dial(within(t), urlFor(s, "/stalled"), &Options{Client: recipes.ClientOptions{CloseTimeout: 500 * time.Millisecond}})
	require.NoError(t, err)
	lock(t, c, "held")
	s.Pause(t, 0)
	start := time.Now()
	require.ErrorIs(t, c.Close(), recipes.ErrUnavailable)
	require.Less(t, time.Since(start), 4*time.Second, "the default is 5 s")
	s.Resume(t, 0)
}

// TestMembers pauses and kills the members that a holder is connected to: it
// finds another before it loses its hold.
func TestMembers(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 3)
	sess := newSession(t, s, "/members", 6*time.Second)
	q := driver.Queue{Space: driver.SpaceLock, Name: "held"}
	own, _, err := sess.Enter(within(t), q, nil)
	require.NoError(t, err)
	server := func() int { // that the session is connected to
		for i, addr := range s.Addrs() {
			if addr == sess.link.conn.zk.Server() {
				return i
			}
		}
		t.Fatal("connected to none of the servers")
		return 0
	}
	// keep renews as recipes would, and fails if that fails for as long as the
	// session lasts.
	keep := func(while func() bool) {
		t.Helper()
		for proved := time.Now(); while(); {
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), sess.TTL()/4)
			err := sess.Renew(ctx)
			cancel()
			if err == nil {
				proved = start
			}
			require.Less(t, time.Since(proved), sess.TTL(), "the last error is %v", err)
			time.Sleep(sess.TTL() / 20) // the pace at which recipes repeats
		}
	}
	paused := server()
	s.Pause(t, paused)
	keep(func() bool { return server() == paused })
	start := time.Now()
	keep(func() bool { return time.Since(start) < time.Second })
	s.Resume(t, paused)

	s.Kill(t, s.Leader(t))
	start = time.Now()
	keep(func() bool { return time.Since(start) < 3*time.Second })
	s.Run(t)
	require.NoError(t, leave(t, sess, own))
}

// leave repeats what was interrupted, as recipes would.
func leave(t *testing.T, sess *session, own driver.Entry) error {
	_, err := insist(within(t), func() (struct{}, error) { return struct{}{}, sess.Leave(within(t), own) })
	return err
}

// TestWatchResumes cuts and stalls the link of a watch, and ends its session.
func TestWatchResumes(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 1)
	root := rootFor(t)
	link, conn, c, greeted := stalled(t, s, root)
	other := dial(t, urlFor(s, root), nil)
	kept := lock(t, other, "kept")

	ctx, cancel := context.WithCancel(within(t))
	changes := make(chan recipes.Change, 100)
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		for change, err := range c.Watch(ctx, recipes.Filter{}) {
			if err != nil {
				ended <- err
				return
			}
			changes <- change
		}
	}()
	next := func(kind recipes.ChangeKind, name string) recipes.Change {
		t.Helper()
		for {
			select {
			case change := <-changes:
				if change.Kind == kind && change.Object.Name == name {
					return change
				}
			case <-time.After(patience):
				t.Fatalf("no change %d of %q", kind, name)
			}
		}
	}
	next(recipes.ObjectChanged, "kept")
	next(recipes.WatchSynced, "")

	link.Stall(faultlink.Both)
	link.Cut()
	next(recipes.WatchLost, "")
	missed := lock(t, other, "missed")
	link.Resume()
	require.Len(t, next(recipes.ObjectChanged, "missed").Object.Entries, 1)

	session := conn.SessionID()
	expire(t, s, lastGreeting(greeted, session))
	eventually(t, "a new session", func() bool { id := conn.SessionID(); return id != 0 && id != session })
	require.NoError(t, missed.Unlock(within(t)))
	for len(next(recipes.ObjectChanged, "missed").Object.Entries) > 0 {
		continue
	}
	require.NoError(t, kept.Unlock(within(t)))
	for len(next(recipes.ObjectChanged, "kept").Object.Entries) > 0 {
		continue
	}
	cancel()
	require.NoError(t, <-ended)
}

// testReplaceThroughLoss has the session end, by a disconnect, after a register was written
// and before the reply was in: the write is found in the next session.
func testReplaceThroughLoss(t *testing.T, s *zkserver.Server) {
	link, err := faultlink.New(s.Addrs()[0])
	require.NoError(t, err)
	t.Cleanup(link.Close)
	root := rootFor(t)
	c := dial(t, "zk://"+link.Addr()+root, &Options{DisconnectIsLoss: true})
	r, err := recipes.NewRegister[string](c, "kept")
	require.NoError(t, err)
	first, err := r.Replace(within(t), recipes.Snapshot[string]{}, "first")
	require.NoError(t, err)
	admin := newSession(t, s, root, 20*time.Second)
	link.Stall(faultlink.Replies)
	outcome := make(chan error, 1)
	var second recipes.Snapshot[string]
	go func() {
		var err error
		second, err = r.Replace(within(t), first, "second")
		outcome <- err
	}()
	scope := driver.Scope{Space: driver.SpaceRegister, Name: "kept"}
	eventually(t, "the write", func() bool {
		entries, err := admin.store.List(within(t), scope)
		return err == nil && len(entries) == 1 && entries[0].Revision > first.Version
	})
	link.Cut()
	link.Resume()
	require.NoError(t, <-outcome)
	require.Equal(t, "second", second.Value)
	present, err := r.Snapshot(within(t))
	require.NoError(t, err)
	require.Equal(t, second.Version, present.Version, "it was written once")
}

// testWatchLooksAgain cuts the link of a watch, which is connected again at once: what has
// changed in between may not be told, so the watch looks.
func testWatchLooksAgain(t *testing.T, s *zkserver.Server) {
	link, err := faultlink.New(s.Addrs()[0])
	require.NoError(t, err)
	t.Cleanup(link.Close)
	c := dial(t, "zk://"+link.Addr()+rootFor(t), nil)
	hold := lock(t, c, "held")
	const cuts = 5
	var synced, lost int
	for change, err := range c.Watch(within(t), recipes.Filter{}) {
		require.NoError(t, err)
		switch change.Kind {
		case recipes.WatchLost:
			lost++
		case recipes.WatchSynced:
			synced++
			link.Cut()
		}
		if synced > cuts {
			break
		}
	}
	require.GreaterOrEqual(t, lost, cuts)
	require.NoError(t, hold.Unlock(within(t)))
}

// lastGreeting is the latest that tells of the session.
func lastGreeting(greeted func() greeting, session int64) greeting {
	for {
		if g := greeted(); g.session == session {
			return g
		}
	}
}

// TestMemberThatHasLostData enters a queue on a member that has lost transactions, and so does
// not show what it was told to make: the session goes on with another, and leaves nothing
// behind.
func TestMemberThatHasLostData(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 3)
	root := rootFor(t)
	leader := s.Leader(t)
	victim := (leader + 1) % 3
	whole := newSession(t, s, root, 20*time.Second)
	s.Kill(t, victim)
	q := driver.Queue{Space: driver.SpaceLock, Name: "hot"}
	own, _, err := whole.Enter(within(t), q, nil)
	require.NoError(t, err)
	require.NoError(t, leave(t, whole, own))
	s.Forget(t, victim, leader)
	s.Run(t)

	o, err := (&Options{Root: root, TTL: 20 * time.Second}).withDefaults(DefaultTTL)
	require.NoError(t, err)
	st := newStore(nil, []string{s.Addrs()[victim], s.Addrs()[leader]}, o)
	st.order = slices.Clone
	connected, err := st.Connect(within(t))
	require.NoError(t, err)
	sess := connected.(*session)
	defer func() {
		require.NoError(t, sess.Close(within(t)))
		require.NoError(t, st.Close())
	}()
	require.Equal(t, s.Addrs()[victim], sess.link.conn.zk.Server())
	_, err = sess.link.stat(within(t), root)
	require.ErrorIs(t, err, gozk.ErrNoNode, "it has lost it")

	entered, _, err := sess.Enter(within(t), q, nil)
	require.NoError(t, err)
	require.NotEqual(t, s.Addrs()[victim], sess.link.conn.zk.Server())
	entries, err := whole.store.List(within(t), driver.Scope{Space: q.Space, Name: q.Name})
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left behind")
	require.Equal(t, entered.ID, entries[0].ID)
	require.NoError(t, leave(t, sess, entered))
}
