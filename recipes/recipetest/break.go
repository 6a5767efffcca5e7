package recipetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// entry returns the i-th entry of the lock's queue.
func (w *world) entry(t testing.TB, c *recipes.Client, name string, i int) recipes.Entry {
	t.Helper()
	queue := w.queue(t, c, name)
	require.Greater(t, len(queue), i)
	return queue[i]
}

// brokenBy checks that an error says who broke the lock, and why.
func brokenBy(t testing.TB, err error, name, label, why string) {
	t.Helper()
	var lost *recipes.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, recipes.LostBroken, lost.Reason)
	require.Equal(t, name, lost.Name)
	require.Equal(t, label, lost.By.Label)
	require.Equal(t, why, lost.Why)
	require.ErrorIs(t, err, recipes.ErrLost)
}

func testBreak(t *testing.T, w *world) {
	holder, next := w.client(t, Options{TTL: costTTL}), w.client(t, Options{})
	operator := w.client(t, Options{Label: "operator"})
	other := lock(t, mutex(t, holder, "break/other"))
	hold := lock(t, mutex(t, holder, "break"))
	waiter := lockAside(context.Background(), mutex(t, next, "break"))
	w.queued(t, operator, "break", 2)

	lost := make(chan time.Time, 1)
	context.AfterFunc(hold.Context(), func() { lost <- time.Now() })
	seen := w.entry(t, operator, "break", 0)
	require.NoError(t, operator.Break(context.Background(), "break", seen, "it hangs"))
	require.NoError(t, waiter.wait(t).err)
	require.True(t, (<-lost).Before(waiter.at), "the holder loses the lock before the next gets it")
	brokenBy(t, context.Cause(hold.Context()), "break", "operator", "it hangs")
	brokenBy(t, hold.Unlock(context.Background()), "break", "operator", "it hangs")
	require.Greater(t, waiter.hold.Token(), hold.Token())

	require.NoError(t, other.Context().Err(), "another hold of the session goes on")
	unlock(t, other)
	unlock(t, waiter.hold)
	unlock(t, lock(t, mutex(t, holder, "break")))
	w.queued(t, operator, "break", 0)
}

func testBreakChangedHands(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	m := mutex(t, a, "break")
	hold := lock(t, m)
	seen := w.entry(t, b, "break", 0)
	unlock(t, hold)
	require.ErrorIs(t, b.Break(ctx, "break", seen, "too late"), recipes.ErrConflict, "nobody holds it")
	hold = lock(t, m)
	require.ErrorIs(t, b.Break(ctx, "break", seen, "too late"), recipes.ErrConflict, "of the same holder, but another hold")
	require.NoError(t, hold.Context().Err())
	require.Len(t, w.queue(t, b, "break"), 1)

	now := w.entry(t, b, "break", 0)
	require.ErrorIs(t, b.Break(ctx, "another", now, "wrong lock"), recipes.ErrConflict)
	require.ErrorIs(t, b.Break(ctx, "break", now, ""), recipes.ErrInvalid)
	require.ErrorIs(t, b.Break(ctx, "break", now, "two\nlines"), recipes.ErrInvalid)
	require.ErrorIs(t, b.Break(ctx, "break", recipes.Entry{}, "no entry"), recipes.ErrInvalid)
	require.ErrorIs(t, b.Break(ctx, "", now, "no name"), recipes.ErrInvalid)
	require.NoError(t, hold.Context().Err())
	unlock(t, hold)
}

// testBreakUnreachable breaks a holder that does not hear of it.
func testBreakUnreachable(t *testing.T, w *world) {
	link := w.server.Link(t)
	holder, operator := w.client(t, Options{Link: link}), w.client(t, Options{})
	hold := lock(t, mutex(t, holder, "break"))
	seen := w.entry(t, operator, "break", 0)
	link.StallBoth()
	require.NoError(t, operator.Break(context.Background(), "break", seen, "it is cut off"))
	require.Empty(t, w.queue(t, operator, "break"))
	next := lock(t, mutex(t, operator, "break"))
	require.Greater(t, next.Token(), hold.Token())
	link.Resume()
	require.ErrorIs(t, hold.Unlock(context.Background()), recipes.ErrLost)
	require.Len(t, w.queue(t, operator, "break"), 1, "the next holder's entry was not touched")
	unlock(t, next)
}

func testBreakWaiter(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	operator := w.client(t, Options{Label: "operator"})
	hold := lock(t, mutex(t, a, "break/waiting"))
	waiter := lockAside(context.Background(), mutex(t, b, "break/waiting"))
	w.queued(t, operator, "break/waiting", 2)
	seen := w.entry(t, operator, "break/waiting", 1)
	require.NoError(t, operator.Break(context.Background(), "break/waiting", seen, "not now"))
	brokenBy(t, waiter.wait(t).err, "break/waiting", "operator", "not now")
	require.NoError(t, hold.Context().Err())
	w.queued(t, operator, "break/waiting", 1)
	unlock(t, hold)
}

func testAsk(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, b := w.client(t, Options{}), w.client(t, Options{Label: "please"})
	require.NoError(t, b.Ask(ctx, "ask", "nobody has it"))

	hold := lock(t, mutex(t, a, "ask"))
	asked := make(chan error, 1)
	go func() { asked <- b.Ask(ctx, "ask", "a deployment") }()
	select {
	case r := <-hold.Asked():
		require.Equal(t, "please", r.By.Label)
		require.Equal(t, "a deployment", r.Why)
		require.WithinDuration(t, time.Now(), r.At, patience)
	case <-ctx.Done():
		t.Fatal("the holder was not asked")
	}
	require.NoError(t, hold.Context().Err(), "asking takes nothing")
	require.Empty(t, asked, "it waits")
	unlock(t, hold)
	require.NoError(t, <-asked)
	require.ErrorIs(t, b.Ask(ctx, "ask", ""), recipes.ErrInvalid)
}

// testAskTwice asks holders that share a lock, and that don't listen at first.
func testAskTwice(t *testing.T, w *world) {
	a, b := w.client(t, Options{Label: "alpha"}), w.client(t, Options{})
	m, err := a.RWMutex("ask", nil)
	require.NoError(t, err)
	var holds []*recipes.Hold
	for range 2 {
		hold, err := m.RLock(context.Background())
		require.NoError(t, err)
		holds = append(holds, hold)
	}
	early, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() { first <- b.Ask(early, "ask", "first") }()
	require.Equal(t, "first", (<-holds[1].Asked()).Why)
	w.entered(t, b)
	cancel()
	err = <-first
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, recipes.ErrHeld)
	var held *recipes.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "alpha", held.Holder.Label)

	second := make(chan error, 1)
	go func() { second <- b.Ask(context.Background(), "ask", "second") }()
	require.Equal(t, "second", (<-holds[1].Asked()).Why)
	require.Equal(t, "second", (<-holds[0].Asked()).Why, "the latest request is kept")
	unlock(t, holds[0])
	require.Empty(t, second, "the other still holds it")
	unlock(t, holds[1])
	require.NoError(t, <-second)
}
