package recipetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func rwmutex(t testing.TB, c *recipes.Client, name string) *recipes.RWMutex {
	t.Helper()
	m, err := c.RWMutex(name, nil)
	require.NoError(t, err)
	return m
}

// aside runs a call to any lock while the test goes on.
func aside(ctx context.Context, l recipes.Locker[*recipes.Hold]) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.hold, a.err = l.Lock(ctx)
		a.at = time.Now()
	}()
	return a
}

func rlock(t testing.TB, m *recipes.RWMutex) *recipes.Hold {
	t.Helper()
	a := aside(context.Background(), m.RLocker()).wait(t)
	require.NoError(t, a.err)
	return a.hold
}

func wlock(t testing.TB, m *recipes.RWMutex) *recipes.Hold {
	t.Helper()
	a := aside(context.Background(), m).wait(t)
	require.NoError(t, a.err)
	return a.hold
}

// testRWExclusion has readers and writers check who is inside.
func testRWExclusion(t *testing.T, w *world) {
	const clients, cycles = 4, 10
	var readers, writers atomic.Int32
	var wg sync.WaitGroup
	for range clients {
		m := rwmutex(t, w.client(t, Options{}), "rw")
		wg.Go(func() {
			for range cycles {
				hold, err := m.RLock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				readers.Add(1)
				if n := writers.Load(); n != 0 {
					t.Errorf("a reader beside %d writers", n)
				}
				readers.Add(-1)
				unlock(t, hold)
			}
		})
		wg.Go(func() {
			for range cycles {
				hold, err := m.Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if n, r := writers.Add(1), readers.Load(); n != 1 || r != 0 {
					t.Errorf("a writer beside %d writers and %d readers", n-1, r)
				}
				writers.Add(-1)
				unlock(t, hold)
			}
		})
	}
	wg.Wait()
}

func testRWOrder(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	ma, mb := rwmutex(t, a, "order"), rwmutex(t, b, "order")

	r1, r2 := rlock(t, ma), rlock(t, mb)
	require.NotEqual(t, r1.Token(), r2.Token())
	_, err := mb.TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	_, err = mutex(t, b, "order").TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld, "a mutex of the same name is a writer")
	r3, err := mb.TryRLock(ctx)
	require.NoError(t, err)
	unlock(t, r3)

	writer := aside(ctx, ma)
	w.queued(t, a, "order", 3)
	late1, late2 := aside(ctx, mb.RLocker()), aside(ctx, ma.RLocker())
	w.queued(t, a, "order", 5)
	_, err = mb.TryRLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld, "a writer that waits keeps later readers out")
	view, err := a.Lock(ctx, "order")
	require.NoError(t, err)
	require.Len(t, view.Holders(), 2)
	require.Len(t, view.Waiters(), 3)
	require.True(t, view.Holders()[0].Shared)

	unlock(t, r1)
	require.True(t, writer.waiting())
	unlock(t, r2)
	require.NoError(t, writer.wait(t).err)
	require.Greater(t, writer.hold.Token(), max(r1.Token(), r2.Token()))
	require.True(t, late1.waiting() && late2.waiting())
	unlock(t, writer.hold)
	require.NoError(t, late1.wait(t).err)
	require.NoError(t, late2.wait(t).err, "both before either is released")
	unlock(t, late1.hold)
	unlock(t, late2.hold)
	w.queued(t, a, "order", 0)
}

// testRWReaderAheadOfWriter is the deadlock of a reader that waits for a later
// writer: readers look only at what is ahead.
func testRWReaderAheadOfWriter(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	first := wlock(t, rwmutex(t, a, "ahead"))
	reader := aside(ctx, rwmutex(t, b, "ahead").RLocker())
	w.queued(t, a, "ahead", 2)
	writer := aside(ctx, rwmutex(t, a, "ahead"))
	w.queued(t, a, "ahead", 3)
	unlock(t, first)
	require.NoError(t, reader.wait(t).err)
	require.True(t, writer.waiting())
	unlock(t, reader.hold)
	require.NoError(t, writer.wait(t).err)
	unlock(t, writer.hold)
}

func testRWDowngrade(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	ma, mb := rwmutex(t, a, "down"), rwmutex(t, b, "down")
	hold := wlock(t, ma)
	token := hold.Token()
	reader := aside(ctx, mb.RLocker())
	w.queued(t, a, "down", 2)
	writer := aside(ctx, mb)
	w.queued(t, a, "down", 3)
	require.NoError(t, ma.Downgrade(ctx, hold))
	require.NoError(t, reader.wait(t).err, "readers behind it are granted too")
	require.True(t, writer.waiting(), "writers are not")
	require.NoError(t, hold.Context().Err())
	require.Equal(t, token, hold.Token())
	unlock(t, reader.hold)
	require.True(t, writer.waiting())
	unlock(t, hold)
	require.NoError(t, writer.wait(t).err)
	unlock(t, writer.hold)
	require.ErrorIs(t, ma.Downgrade(ctx, hold), recipes.ErrLost)
	require.ErrorIs(t, ma.Downgrade(ctx, nil), recipes.ErrInvalid)
	other := wlock(t, rwmutex(t, a, "other"))
	require.ErrorIs(t, ma.Downgrade(ctx, other), recipes.ErrInvalid)
	unlock(t, other)
}

// testRWWatch changes the value of an entry that is watched: by a watch that saw
// it made, by one that began later, and by one more on the same connection after
// another has ended.
func testRWWatch(t *testing.T, w *world) {
	ctx := context.Background()
	observer := w.client(t, Options{})
	m := rwmutex(t, w.client(t, Options{}), "seen")
	early := w.view(t, observer, "")
	hold := wlock(t, m)
	shared := func(v *viewer, want bool) {
		t.Helper()
		eventually(t, "the watch to show the mode", func() bool {
			q := v.object("lock/seen").Entries
			return len(q) == 1 && q[0].Shared == want && q[0].Token == hold.Token()
		})
	}
	shared(early, false)
	late := w.view(t, w.client(t, Options{}), "seen")
	require.NoError(t, m.Downgrade(ctx, hold))
	shared(early, true)
	shared(late, true)
	passing, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, err := range observer.Watch(passing, recipes.Filter{}) {
		require.NoError(t, err)
		cancel()
	}
	again := w.view(t, observer, "seen")
	for _, write := range []bool{true, false, true} {
		change := m.Downgrade
		if write {
			change = m.Upgrade
		}
		require.NoError(t, change(ctx, hold))
		for _, v := range []*viewer{early, late, again} {
			shared(v, !write)
		}
	}
	unlock(t, hold)
	early.shows(t, "seen", "")
	again.shows(t, "seen", "")
}

func testRWUpgrade(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	ma, mb := rwmutex(t, a, "up"), rwmutex(t, b, "up")
	mine, other := rlock(t, ma), rlock(t, mb)

	var held *recipes.HeldError
	require.ErrorAs(t, ma.Upgrade(ctx, mine), &held)
	require.Equal(t, "b", held.Holder.Label)
	require.ErrorIs(t, mb.Upgrade(ctx, other), recipes.ErrHeld)
	third, err := mb.TryRLock(ctx)
	require.NoError(t, err, "a refused upgrade leaves a reader")
	unlock(t, third)

	_, err = ma.Lock(mine.Context())
	require.ErrorIs(t, err, recipes.ErrDeadlock)

	unlock(t, other)
	waiter := aside(ctx, mb)
	w.queued(t, a, "up", 2)
	require.NoError(t, ma.Upgrade(ctx, mine), "a writer that waits is not in the way")
	late := aside(ctx, mb.RLocker())
	w.queued(t, a, "up", 3)
	_, err = ma.TryRLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	unlock(t, mine)
	require.NoError(t, waiter.wait(t).err)
	unlock(t, waiter.hold)
	require.NoError(t, late.wait(t).err)
	unlock(t, late.hold)
}

// testRWUpgradeRace has two readers upgrade again and again: never both, and
// never beside a reader.
func testRWUpgradeRace(t *testing.T, w *world) {
	var readers, writers atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		m := rwmutex(t, w.client(t, Options{}), "race")
		wg.Go(func() {
			for range 8 {
				hold, err := m.RLock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				readers.Add(1)
				if err := m.Upgrade(context.Background(), hold); err == nil {
					if n, r := writers.Add(1), readers.Load(); n != 1 || r != 1 {
						t.Errorf("upgraded beside %d writers and %d readers", n-1, r-1)
					}
					writers.Add(-1)
				}
				readers.Add(-1)
				unlock(t, hold)
			}
		})
	}
	wg.Wait()
}

func testReentry(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m := mutex(t, a, "again")
	hold := lock(t, m)
	other := aside(hold.Context(), mutex(t, a, "another")).wait(t)
	require.NoError(t, other.err, "a context of another lock's hold is no obstacle")
	for _, ctx := range []context.Context{hold.Context(), other.hold.Context()} {
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, recipes.ErrDeadlock)
		_, err = mutex(t, a, "again").TryLock(ctx)
		require.ErrorIs(t, err, recipes.ErrDeadlock, "whatever object it is asked through")
	}
	ctx, cancel := context.WithTimeout(hold.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := mutex(t, b, "again").Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, recipes.ErrDeadlock, "another client is another owner")
	unlock(t, hold)
	again := aside(context.WithoutCancel(hold.Context()), m).wait(t)
	require.NoError(t, again.err, "a hold that was released is no obstacle")
	unlock(t, again.hold)
	unlock(t, other.hold)
}

func testMinHold(t *testing.T, w *world) {
	const least = 400 * time.Millisecond
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m, err := a.Mutex("min", &recipes.MutexOptions{MinHold: least})
	require.NoError(t, err)
	start := time.Now()
	hold := lock(t, m)
	require.ErrorIs(t, hold.Unlock(ended()), context.Canceled, "it goes on in the background")
	require.ErrorIs(t, context.Cause(hold.Context()), context.Canceled)
	next := lock(t, mutex(t, b, "min"))
	require.GreaterOrEqual(t, time.Since(start), least)
	unlock(t, hold)
	unlock(t, next)
}

func testMaxHold(t *testing.T, w *world) {
	const most = 300 * time.Millisecond
	a, b := w.client(t, Options{TTL: shortTTL}), w.client(t, Options{})
	m, err := a.Mutex("max", &recipes.MutexOptions{MaxHold: most})
	require.NoError(t, err)
	hold := lock(t, m)
	require.WithinDuration(t, time.Now(), hold.Deadline(), most)
	next := lockAside(context.Background(), mutex(t, b, "max"))
	await(t, hold.Context().Done(), "the longest time to pass")
	require.True(t, next.waiting(), "the holder has the margin to end its work")
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(hold.Context()), &lost)
	require.Equal(t, recipes.LostMaxHold, lost.Reason)
	require.NoError(t, next.wait(t).err)
	require.ErrorIs(t, hold.Unlock(context.Background()), recipes.ErrLost)
	require.NoError(t, next.hold.Context().Err())
	unlock(t, next.hold)
	require.NotEmpty(t, a.SessionID(), "the session goes on")

	short := lock(t, m)
	unlock(t, short)
	for _, o := range []recipes.MutexOptions{{MinHold: -1}, {MaxHold: -1}, {MinHold: 2, MaxHold: 1}} {
		_, err = a.Mutex("max", &o)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
}

// testRWExpireWhileWaiting ends the session of readers that wait, while they can't hear of
// it, and then lets the writer go: they look who is there, don't find themselves, and know
// that nobody has broken their places.
func testRWExpireWhileWaiting(t *testing.T, w *world) {
	link := w.server.Link(t)
	a, b := w.client(t, Options{}), w.client(t, Options{Link: link})
	hold := wlock(t, rwmutex(t, a, "expire"))
	var readers []*attempt
	for range 4 {
		readers = append(readers, aside(context.Background(), rwmutex(t, b, "expire").RLocker()))
	}
	w.queued(t, a, "expire", 1+len(readers))
	w.entered(t, b)
	id := b.SessionID()
	link.StallBoth()
	w.server.Expire(t, id)
	w.queued(t, a, "expire", 1)
	unlock(t, hold)
	link.Resume()
	for _, r := range readers {
		var lost *recipes.LostError
		require.ErrorAs(t, r.wait(t).err, &lost)
		require.NotEqual(t, recipes.LostBroken, lost.Reason, "%v", r.err)
	}
	unlock(t, rlock(t, rwmutex(t, b, "expire")))
}
