package leasetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
)

// testExclusion has clients and goroutines of theirs hold a lock one at a time.
func testExclusion(t *testing.T, w *world) {
	const clients, goroutines, each = 4, 4, 8
	var inside atomic.Int32
	var last uint64 // guarded by the lock
	var wg sync.WaitGroup
	for range clients {
		m := w.mutex(t, w.client(t, Options{Poll: 20 * time.Millisecond}), "one")
		for range goroutines {
			wg.Go(func() {
				for range each {
					err := m.Do(suite.Within(t), func(ctx context.Context, h Hold) error {
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d holders at once", n)
						}
						if now, ok := token(h); ok && now <= last {
							t.Errorf("token %d after %d", now, last)
						} else {
							last = now
						}
						inside.Add(-1)
						return ctx.Err()
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// testContenders has 100 contenders add to a counter that is guarded by nothing but the
// lock, over 1,000 cycles.
func testContenders(t *testing.T, w *world) {
	const contenders, each, clients = 100, 10, 5
	locks := make([]Mutex, contenders)
	for i := range clients {
		c := w.client(t, Options{TTL: patience, Poll: 50 * time.Millisecond})
		for j := i; j < contenders; j += clients {
			locks[j] = w.mutex(t, c, "counter")
		}
	}
	var mu sync.Mutex // so that the counter's reads and writes are no data race
	counter := 0
	read := func() int { mu.Lock(); defer mu.Unlock(); return counter }
	write := func(n int) { mu.Lock(); defer mu.Unlock(); counter = n }
	var last uint64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 8*patience) // others use the same file of SQLite
	defer cancel()
	for _, m := range locks {
		wg.Go(func() {
			for range each {
				err := m.Do(ctx, func(_ context.Context, h Hold) error {
					n := read()
					if now, ok := token(h); ok {
						mu.Lock()
						stale := now <= last
						last = max(last, now)
						mu.Unlock()
						if stale {
							return errors.New("a stale token")
						}
					}
					write(n + 1)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, contenders*each, counter)
}

func testTryLock(t *testing.T, w *world) {
	a := w.mutex(t, w.client(t, Options{Label: "first"}), "try")
	b := w.mutex(t, w.client(t, Options{}), "try")
	h, err := a.TryLock(suite.Within(t))
	require.NoError(t, err)
	_, err = b.TryLock(suite.Within(t))
	require.ErrorIs(t, err, recipes.ErrHeld)
	var held *recipes.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "first", held.Holder.Label)
	require.WithinDuration(t, time.Now(), held.Since, patience)
	unlock(t, h)
	h, err = b.TryLock(suite.Within(t))
	require.NoError(t, err)
	unlock(t, h)
}

// testWakes has a waiter get the lock when it is released, in the same process and in
// another.
func testWakes(t *testing.T, w *world) {
	c := w.client(t, Options{})
	here := w.mutex(t, c, "wakes")
	for _, other := range []Mutex{w.mutex(t, c, "wakes"), w.mutex(t, w.client(t, Options{}), "wakes")} {
		h := lock(t, here)
		waiter := lockAside(suite.Within(t), other)
		select {
		case <-waiter.done:
			t.Fatal("two holders")
		case <-time.After(100 * time.Millisecond): // a waiter that does not wait would have returned
		}
		unlock(t, h)
		require.NoError(t, waiter.wait(t).err)
		unlock(t, waiter.hold)
	}
}

// testTokens has tokens grow from holder to holder, also when nobody has held the lock
// for a while.
func testTokens(t *testing.T, w *world) {
	last := uint64(0)
	for range 3 {
		c := w.server.Open(t, Options{TTL: calmTTL})
		m := w.mutex(t, c, "tokens")
		for range 3 {
			h := lock(t, m)
			now, ok := token(h)
			if !ok {
				require.NoError(t, c.Close())
				t.Skip("the store has no tokens")
			}
			require.Greater(t, now, last)
			require.Less(t, now, uint64(1)<<63)
			last = now
			unlock(t, h)
		}
		require.NoError(t, c.Close())
	}
}

func testNames(t *testing.T, w *world) {
	c := w.client(t, Options{})
	names := []string{
		"a", "a/b", "a/", "A", "a ", " a", "%2F", "a%b", "\u00fc", "u\u0308", "雪", `"'\`, "a_b", "a*b", "[a]", "{a}", ":", "$1", "?", "--", "; DROP TABLE x",
		strings.Repeat("n", 512-len(w.prefix)),
	}
	var holds []Hold
	for _, name := range names {
		h, err := w.mutex(t, c, name).TryLock(suite.Within(t))
		require.NoError(t, err, "%q is another name than those before", name)
		require.Equal(t, w.prefix+name, h.Name())
		holds = append(holds, h)
	}
	objects, err := c.Objects(suite.Within(t), recipes.Filter{Prefix: w.prefix})
	require.NoError(t, err)
	var seen []string
	for _, o := range objects {
		seen = append(seen, strings.TrimPrefix(o.Name, w.prefix))
	}
	require.ElementsMatch(t, names, seen)
	for _, h := range holds {
		unlock(t, h)
	}
}

func testInvalidInput(t *testing.T, w *world) {
	c := w.client(t, Options{})
	for _, name := range []string{"", "a\nb", "a\x00b", "\xff", strings.Repeat("n", 513)} {
		_, err := c.Mutex(name, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%q", name)
	}
	for _, o := range []recipes.LeaseMutexOptions{
		{Label: "a\nb"}, {MinHold: -1}, {MaxHold: -1}, {MinHold: 2, MaxHold: 1}, {Kind: "a b"}, {Publish: make(chan int)},
	} {
		_, err := c.Mutex("name", &o)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%+v", o)
	}
	require.ErrorIs(t, c.Break(suite.Within(t), "", recipes.Entry{ID: "x"}), recipes.ErrInvalid)
	require.ErrorIs(t, c.Break(suite.Within(t), "name", recipes.Entry{}), recipes.ErrInvalid)
}

func testCancelWhileWaiting(t *testing.T, w *world) {
	c := w.client(t, Options{Label: "holder"})
	h := lock(t, w.mutex(t, c, "cancel"))
	other := w.client(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	waiter := lockAside(ctx, w.mutex(t, other, "cancel"))
	short, end := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer end()
	_, err := w.mutex(t, other, "cancel").Lock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, recipes.ErrHeld)
	var held *recipes.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "holder", held.Holder.Label)
	cancel()
	require.ErrorIs(t, waiter.wait(t).err, context.Canceled)
	unlock(t, h)
	w.free(t, c, "cancel")
}

func testEndedContext(t *testing.T, w *world) {
	c := w.client(t, Options{})
	m := w.mutex(t, c, "ended")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := m.Lock(ended)
	require.ErrorIs(t, err, context.Canceled)
	w.free(t, c, "ended")
	h := lock(t, m)
	err = h.Unlock(ended)
	if err != nil { // it may have been quick
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, h.Unlock(suite.Within(t)))
	w.free(t, c, "ended")
}

func testDeadlock(t *testing.T, w *world) {
	c := w.client(t, Options{})
	m := w.mutex(t, c, "again")
	require.NoError(t, m.Do(suite.Within(t), func(ctx context.Context, _ Hold) error {
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, recipes.ErrDeadlock)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, recipes.ErrDeadlock)
		return nil
	}))
}

func testUnlockTwice(t *testing.T, w *world) {
	c := w.client(t, Options{})
	m := w.mutex(t, c, "twice")
	h := lock(t, m)
	unlock(t, h)
	require.ErrorIs(t, h.Context().Err(), context.Canceled)
	next := lock(t, m)
	unlock(t, h) // again, which releases nothing
	require.NoError(t, next.Context().Err())
	require.Len(t, w.object(t, c, "twice").Entries, 1)
	unlock(t, next)
}

func testHoldTimes(t *testing.T, w *world) {
	c := w.client(t, Options{})
	least, err := c.Mutex(w.prefix+"least", &recipes.LeaseMutexOptions{MinHold: 300 * time.Millisecond})
	require.NoError(t, err)
	start := time.Now()
	unlock(t, lock(t, least))
	require.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	most, err := c.Mutex(w.prefix+"most", &recipes.LeaseMutexOptions{MaxHold: 200 * time.Millisecond})
	require.NoError(t, err)
	h := lock(t, most)
	suite.Await(t, h.Context().Done(), "the longest hold")
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(h.Context()), &lost)
	require.Equal(t, recipes.LostMaxHold, lost.Reason)
	require.ErrorIs(t, h.Unlock(suite.Within(t)), recipes.ErrLost)
	w.free(t, c, "most")
}

func testPublish(t *testing.T, w *world) {
	c := w.client(t, Options{TTL: shortTTL})
	h := lock(t, w.mutex(t, c, "shows"))
	require.NoError(t, h.Publish(suite.Within(t), "step 1"))
	suite.Eventually(t, "it to show, also where servers are behind", func() bool {
		return string(w.object(t, c, "shows").Entries[0].Published) == `"step 1"`
	})
	before := h.Deadline()
	suite.Eventually(t, "a renewal", func() bool { return h.Deadline().After(before) })
	require.JSONEq(t, `"step 1"`, string(w.object(t, c, "shows").Entries[0].Published), "renewals keep it")
	unlock(t, h)
	require.ErrorIs(t, h.Publish(suite.Within(t), "step 2"), recipes.ErrLost)
}

func testObjects(t *testing.T, w *world) {
	c := w.client(t, Options{Label: "shown", Poll: 20 * time.Millisecond})
	watching, stop := context.WithCancel(context.Background())
	changes := make(chan recipes.Change, 100)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for change, err := range c.Watch(watching, recipes.Filter{Prefix: w.prefix}) {
			if err != nil {
				t.Error(err)
			}
			changes <- change
		}
	})
	defer watcher.Wait()
	defer stop()
	next := func(kind recipes.ChangeKind) recipes.Object {
		t.Helper()
		select {
		case change := <-changes:
			require.Equal(t, kind, change.Kind)
			return change.Object
		case <-time.After(patience):
			t.Fatal("no change was reported")
			return recipes.Object{}
		}
	}
	next(recipes.WatchSynced)
	h := lock(t, w.mutex(t, c, "object"))
	o := w.object(t, c, "object")
	require.Equal(t, 1, o.Holding)
	require.Equal(t, "shown", o.Entries[0].Owner.Label)
	require.Equal(t, h.SessionID(), o.Entries[0].ID)
	if want, ok := token(h); ok {
		require.Equal(t, want, o.Entries[0].Token)
	}
	seen := next(recipes.ObjectChanged)
	require.Equal(t, w.prefix+"object", seen.Name)
	require.Equal(t, recipes.KindMutex, seen.Kind)
	unlock(t, h)
	require.True(t, next(recipes.ObjectChanged).Gone())
	require.True(t, w.object(t, c, "object").Gone())
}

func testClose(t *testing.T, w *world) {
	c := w.server.Open(t, Options{TTL: calmTTL})
	other := w.client(t, Options{})
	h := lock(t, w.mutex(t, c, "mine"))
	foreign := lock(t, w.mutex(t, other, "theirs"))
	waiter := lockAside(suite.Within(t), w.mutex(t, c, "theirs"))
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.ErrorIs(t, waiter.wait(t).err, recipes.ErrClosed)
	require.ErrorIs(t, context.Cause(h.Context()), recipes.ErrClosed)
	require.ErrorIs(t, h.Unlock(suite.Within(t)), recipes.ErrLost)
	_, err := w.mutex(t, c, "mine").Lock(suite.Within(t))
	require.ErrorIs(t, err, recipes.ErrClosed)
	_, err = c.Lock(suite.Within(t), "mine")
	require.ErrorIs(t, err, recipes.ErrClosed)
	require.True(t, w.object(t, other, "mine").Gone(), "Close releases")
	unlock(t, foreign)
}
