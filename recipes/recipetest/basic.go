package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// testExclusion has many clients count without any other synchronisation.
func testExclusion(t *testing.T, w *world) {
	const clients, cycles = 8, 15
	var inside atomic.Int32
	var tokens []uint64 // guarded by the lock under test
	var wg sync.WaitGroup
	for range clients {
		m := mutex(t, w.client(t, Options{}), "counter")
		wg.Go(func() {
			for range cycles {
				err := m.Do(context.Background(), func(_ context.Context, h *recipes.Hold) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					tokens = append(tokens, h.Token())
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, tokens, clients*cycles)
	for i := 1; i < len(tokens); i++ {
		require.Greater(t, tokens[i], tokens[i-1], "tokens grow in the order of the holds")
	}
}

func testFIFO(t *testing.T, w *world) {
	const waiters = 12
	first := w.client(t, Options{})
	clients := []*recipes.Client{first, w.client(t, Options{}), w.client(t, Options{})}
	hold := lock(t, mutex(t, first, "line"))
	var order []int // guarded by the lock under test
	var wg sync.WaitGroup
	for i := range waiters {
		m := mutex(t, clients[i%len(clients)], "line")
		wg.Go(func() {
			err := m.Do(context.Background(), func(context.Context, *recipes.Hold) error {
				order = append(order, i)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		w.queued(t, first, "line", i+2)
	}
	unlock(t, hold)
	wg.Wait()
	require.True(t, slices.IsSorted(order), "served in the order of arrival, not %v", order)
	require.Len(t, order, waiters)
}

func testTwoHundredWaiters(t *testing.T, w *world) {
	const clients, each = 10, 20
	first := w.client(t, Options{})
	hold := lock(t, mutex(t, first, "crowd"))
	var inside, served atomic.Int32
	var wg sync.WaitGroup
	for range clients {
		c := w.client(t, Options{})
		for range each {
			m := mutex(t, c, "crowd") // each its own: goroutines that share one line up inside
			wg.Go(func() {
				err := m.Do(context.Background(), func(context.Context, *recipes.Hold) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					served.Add(1)
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	w.queued(t, first, "crowd", clients*each+1)
	unlock(t, hold)
	wg.Wait()
	require.EqualValues(t, clients*each, served.Load())
	w.queued(t, first, "crowd", 0)
}

func testTryLock(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "first"}), w.client(t, Options{})
	hold, err := mutex(t, a, "try").TryLock(ctx)
	require.NoError(t, err)

	before := time.Now()
	_, err = mutex(t, b, "try").TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	var held *recipes.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "first", held.Holder.Label)
	require.Equal(t, a.Owner().PID, held.Holder.PID)
	require.WithinDuration(t, before, held.Since, patience)
	require.Len(t, w.queue(t, a, "try"), 1, "a TryLock that found the lock held leaves nothing")

	unlock(t, hold)
	hold, err = mutex(t, b, "try").TryLock(ctx)
	require.NoError(t, err)
	unlock(t, hold)
}

func testCancelWhileWaiting(t *testing.T, w *world) {
	a, b := w.client(t, Options{Label: "holder"}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "cancel"))
	ctx, cancel := context.WithCancel(context.Background())
	waiter := lockAside(ctx, mutex(t, b, "cancel"))
	w.queued(t, a, "cancel", 2)
	w.entered(t, b)
	cancel()
	waiter.wait(t)
	require.ErrorIs(t, waiter.err, context.Canceled)
	require.ErrorIs(t, waiter.err, recipes.ErrHeld)
	var held *recipes.HeldError
	require.ErrorAs(t, waiter.err, &held)
	require.Equal(t, "holder", held.Holder.Label)
	w.queued(t, a, "cancel", 1)
	require.NoError(t, hold.Context().Err(), "the holder is not concerned")
	unlock(t, hold)
}

func testWaitTimeout(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "timeout"))
	last := lockAside(context.Background(), mutex(t, a, "timeout"))
	w.queued(t, a, "timeout", 2)
	w.entered(t, b) // it has a session
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := mutex(t, b, "timeout").Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, recipes.ErrHeld)
	w.queued(t, a, "timeout", 2)
	unlock(t, hold)
	last.wait(t)
	require.NoError(t, last.err)
	unlock(t, last.hold)
}

func testEndedContext(t *testing.T, w *world) {
	c := w.client(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	hold, err := mutex(t, c, "ended").Lock(ctx)
	if err == nil { // the grant was as fast as the context
		unlock(t, hold)
	} else {
		require.ErrorIs(t, err, context.Canceled)
	}
	w.queued(t, c, "ended", 0)
}

func testUnlock(t *testing.T, w *world) {
	c := w.client(t, Options{})
	hold := lock(t, mutex(t, c, "unlock"))
	require.NoError(t, hold.Context().Err())
	require.True(t, time.Now().Before(hold.Deadline()))
	require.Equal(t, "unlock", hold.Name())
	require.Equal(t, c.SessionID(), hold.SessionID())
	var wg sync.WaitGroup
	for range 5 { // from several goroutines, and repeatedly
		wg.Go(func() { assert.NoError(t, hold.Unlock(context.Background())) })
	}
	wg.Wait()
	unlock(t, hold)
	require.ErrorIs(t, context.Cause(hold.Context()), context.Canceled)
	require.NotErrorIs(t, context.Cause(hold.Context()), recipes.ErrLost)
	require.Empty(t, w.queue(t, c, "unlock"))
}

func testUnlockWithEndedContext(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "late"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := hold.Unlock(ctx); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	unlock(t, lock(t, mutex(t, b, "late"))) // it was released all the same
	unlock(t, hold)                         // and that is what a second call reports
}

func testStaleHold(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m := mutex(t, a, "stale")
	old := lock(t, m)
	unlock(t, old)
	hold := lock(t, m) // of the same client and session
	unlock(t, old)
	require.Len(t, w.queue(t, b, "stale"), 1)
	require.NoError(t, hold.Context().Err())
	_, err := mutex(t, b, "stale").TryLock(context.Background())
	require.ErrorIs(t, err, recipes.ErrHeld)
	unlock(t, hold)
}

func testHoldOutlivesWaitingContext(t *testing.T, w *world) {
	c := w.client(t, Options{TTL: shortTTL})
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	hold, err := mutex(t, c, "outlive").Lock(ctx)
	require.NoError(t, err)
	cancel()
	first := hold.Deadline()
	eventually(t, "a renewal after the context has ended", func() bool { return hold.Deadline().After(first) })
	require.NoError(t, hold.Context().Err())
	require.Equal(t, "value", hold.Context().Value(key{}))
	unlock(t, hold)
}

func testDo(t *testing.T, w *world) {
	c := w.client(t, Options{})
	m := mutex(t, c, "do")
	failure := errors.New("work failed")
	require.ErrorIs(t, m.Do(context.Background(), func(context.Context, *recipes.Hold) error { return failure }), failure)
	require.Empty(t, w.queue(t, c, "do"))

	require.PanicsWithValue(t, "oops", func() {
		_ = m.Do(context.Background(), func(context.Context, *recipes.Hold) error { panic("oops") })
	})
	require.Empty(t, w.queue(t, c, "do"), "a panic releases the lock")

	ctx, cancel := context.WithCancel(context.Background())
	err := m.Do(ctx, func(work context.Context, hold *recipes.Hold) error {
		cancel()
		await(t, work.Done(), "the work's context to end with the caller's")
		return hold.Context().Err()
	})
	require.NoError(t, err, "the hold outlives the caller's context until the work returns")
	require.Empty(t, w.queue(t, c, "do"))
}

func testTokens(t *testing.T, w *world) {
	var last uint64
	for i := range 6 {
		c := w.server.Open(t, Options{Root: w.root, TTL: calmTTL}) // a session each
		for range 3 {
			hold := lock(t, mutex(t, c, "token"))
			require.Greater(t, hold.Token(), last)
			last = hold.Token()
			require.GreaterOrEqual(t, last, w.queue(t, c, "token")[0].Token, "what others see is not above")
			unlock(t, hold)
		}
		if i%2 == 1 {
			w.server.Reap(t, w.root, "token")
		}
		require.NoError(t, c.Close())
	}
}

func testNames(t *testing.T, w *world) {
	names := []string{
		"a", "a/b", "a/b/c", "/", "//", "a/", "/a", "..", ".", "...", "a%2Fb", "a%", "%", "%%41", " ", "a b", " a ",
		"größe", "日本語", "🔒", "A", "a.b", "a?b=c", "a#b", "a\\b", "a*", "[a]", "\u202eevil", "lock", "zookeeper", "_c_-lock-0000000001",
		strings.Repeat("x", 512), strings.Repeat("/", 512), strings.Repeat("ü", 256),
	}
	c, other := w.client(t, Options{}), w.client(t, Options{})
	holds := map[string]*recipes.Hold{}
	for _, name := range names {
		holds[name] = lock(t, mutex(t, c, name)) // none blocks another
	}
	locks, err := other.Objects(context.Background(), recipes.Filter{})
	require.NoError(t, err)
	var seen []string
	for _, l := range locks {
		seen = append(seen, l.Name)
		require.Len(t, l.Entries, 1)
	}
	require.ElementsMatch(t, names, seen)
	for _, name := range names {
		_, err := mutex(t, other, name).TryLock(context.Background())
		require.ErrorIs(t, err, recipes.ErrHeld, "%q", name)
		unlock(t, holds[name])
	}
}

func testInvalidInput(t *testing.T, w *world) {
	c := w.client(t, Options{})
	for _, name := range []string{"", "a\x00b", "a\nb", "\x7f", "a\u0085b", "\xff", strings.Repeat("x", 513)} {
		_, err := c.Mutex(name, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%q", name)
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "name", invalid.Field)
		_, err = c.Lock(context.Background(), name)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%q", name)
	}
	_, err := c.Mutex("name", &recipes.MutexOptions{Label: "a\x1b[31m"})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = c.Objects(context.Background(), recipes.Filter{Prefix: "a\x00"})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	for _, err := range c.Watch(context.Background(), recipes.Filter{Prefix: "a\x00"}) {
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
}

func testClose(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "close"))
	waiter := lockAside(context.Background(), mutex(t, a, "close"))
	next := lockAside(context.Background(), mutex(t, b, "close"))
	w.queued(t, b, "close", 3)
	require.NoError(t, a.Close())
	require.ErrorIs(t, context.Cause(hold.Context()), recipes.ErrLost)
	require.ErrorIs(t, context.Cause(hold.Context()), recipes.ErrClosed)
	require.ErrorIs(t, waiter.wait(t).err, recipes.ErrClosed)
	require.NoError(t, next.wait(t).err, "closing gives up what was held and waited for")
	require.ErrorIs(t, hold.Unlock(context.Background()), recipes.ErrLost)
	_, err := mutex(t, b, "close").Lock(ended())
	require.Error(t, err)
	for _, call := range []func() error{
		func() error { _, err := mutex(t, a, "close").Lock(context.Background()); return err },
		func() error { _, err := mutex(t, a, "close").TryLock(context.Background()); return err },
		func() error { _, err := a.Objects(context.Background(), recipes.Filter{}); return err },
	} {
		require.ErrorIs(t, call(), recipes.ErrClosed)
	}
	require.NoError(t, a.Close(), "a second Close")
	unlock(t, next.hold)
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func testSeveralHolds(t *testing.T, w *world) {
	c := w.client(t, Options{})
	var holds []*recipes.Hold
	for i := range 20 {
		holds = append(holds, lock(t, mutex(t, c, fmt.Sprintf("several/%02d", i))))
	}
	for _, h := range holds {
		require.Equal(t, c.SessionID(), h.SessionID(), "all in one session")
	}
	unlock(t, holds[7])
	for i, h := range holds {
		if i != 7 {
			require.NoError(t, h.Context().Err(), "releasing one releases no other")
		}
	}
	locks, err := c.Objects(context.Background(), recipes.Filter{Prefix: "several/"})
	require.NoError(t, err)
	require.Len(t, locks, 19)
	for _, h := range holds {
		unlock(t, h)
	}
}

func testRawPath(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	options := &recipes.MutexOptions{Path: w.root + "/elsewhere/lock"}
	ma, err := a.Mutex("raw", options)
	require.NoError(t, err)
	mb, err := b.Mutex("another name", options)
	require.NoError(t, err)
	hold := lock(t, ma)
	waiter := lockAside(context.Background(), mb)
	_, err = mb.TryLock(context.Background())
	require.ErrorIs(t, err, recipes.ErrHeld)
	require.True(t, waiter.waiting())
	unlock(t, hold)
	require.NoError(t, waiter.wait(t).err)
	require.Greater(t, waiter.hold.Token(), hold.Token())
	unlock(t, waiter.hold)
}
