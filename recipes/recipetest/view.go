package recipetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func testLocks(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "alpha"}), w.client(t, Options{Label: "beta"})
	hold := lock(t, mutex(t, a, "view/one"))
	waiter := lockAside(ctx, mutex(t, b, "view/one"))
	w.queued(t, a, "view/one", 2)
	other := lock(t, mutex(t, b, "view/two"))

	locks, err := a.Objects(ctx, recipes.Filter{Prefix: "view/"})
	require.NoError(t, err)
	require.Len(t, locks, 2)
	one := locks[0]
	require.Equal(t, "view/one", one.Name)
	require.Len(t, one.Holders(), 1)
	require.Len(t, one.Waiters(), 1)
	holder, waiting := one.Holders()[0], one.Waiters()[0]
	require.Equal(t, "alpha", holder.Owner.Label)
	require.Equal(t, a.Owner().Host, holder.Owner.Host)
	require.Equal(t, a.Owner().PID, holder.Owner.PID)
	require.Equal(t, a.SessionID(), holder.Session)
	require.Equal(t, hold.Token(), holder.Token)
	require.Equal(t, recipes.KindMutex, holder.Kind)
	require.Equal(t, "beta", waiting.Owner.Label)
	require.Greater(t, waiting.Token, holder.Token)
	require.Equal(t, holder.Since, one.HeldSince, "when its turn came was not seen")

	none, err := a.Objects(ctx, recipes.Filter{Prefix: "view/three"})
	require.NoError(t, err)
	require.Empty(t, none)
	free, err := a.Lock(ctx, "view/three")
	require.NoError(t, err)
	require.True(t, free.Gone())
	require.Equal(t, recipes.KindLock, free.Kind)

	unlock(t, hold)
	require.NoError(t, waiter.wait(t).err)
	require.GreaterOrEqual(t, waiter.hold.Token(), waiting.Token)
	unlock(t, waiter.hold)
	unlock(t, other)
}

// viewer follows a watch in the background.
type viewer struct {
	mu      sync.Mutex
	objects map[string]recipes.Object // by key
	synced  int
	lost    int
	err     error
	done    chan struct{}
}

func (w *world) view(t testing.TB, c *recipes.Client, prefix string) *viewer {
	t.Helper()
	return w.viewOf(t, c, recipes.Filter{Prefix: prefix})
}

func (w *world) viewOf(t testing.TB, c *recipes.Client, filter recipes.Filter) *viewer {
	t.Helper()
	v := &viewer{objects: map[string]recipes.Object{}, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		await(t, v.done, "the watch to end with its context")
		require.NoError(t, v.err)
	})
	go func() {
		defer close(v.done)
		for change, err := range c.Watch(ctx, filter) {
			v.apply(change, err)
		}
	}()
	eventually(t, "the watch to be live", func() bool { return v.count(&v.synced) > 0 })
	return v
}

func (v *viewer) apply(change recipes.Change, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
	switch change.Kind {
	case recipes.ObjectChanged:
		v.objects[change.Object.Key()] = change.Object
		if change.Object.Gone() {
			delete(v.objects, change.Object.Key())
		}
	case recipes.WatchSynced:
		v.synced++
	case recipes.WatchLost:
		v.lost++
	}
}

func (v *viewer) count(n *int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return *n
}

// object is an object as the watch shows it.
func (v *viewer) object(key string) recipes.Object {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.objects[key]
}

// describe describes a lock as "holder: waiter waiter" by their labels.
func (v *viewer) describe(name string) string {
	text := ""
	for i, e := range v.object("lock/" + name).Entries {
		text += e.Owner.Label
		if i == 0 {
			text += ":"
		}
	}
	return text
}

func (v *viewer) shows(t testing.TB, name, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the watch to show %q for %q, not %q", want, name, v.describe(name)), func() bool {
		return v.describe(name) == want
	})
}

func testWatch(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "A"}), w.client(t, Options{Label: "B"})
	early := lock(t, mutex(t, a, "there-before"))
	v := w.view(t, w.client(t, Options{}), "")
	v.shows(t, "there-before", "A:")

	hold := lock(t, mutex(t, a, "watched"))
	v.shows(t, "watched", "A:")
	first := lockAside(ctx, mutex(t, b, "watched"))
	v.shows(t, "watched", "A:B")
	second := lockAside(ctx, mutex(t, a, "watched"))
	v.shows(t, "watched", "A:BA")
	start := time.Now()
	unlock(t, hold)
	require.NoError(t, first.wait(t).err)
	v.shows(t, "watched", "B:A")
	l := v.object("lock/watched")
	require.False(t, l.HeldSince.Before(start), "held since it changed hands")
	require.Equal(t, first.hold.Token(), l.Holders()[0].Token)
	unlock(t, first.hold)
	require.NoError(t, second.wait(t).err)
	unlock(t, second.hold)
	v.shows(t, "watched", "")
	unlock(t, early)
	v.shows(t, "there-before", "")
}

func testWatchPrefix(t *testing.T, w *world) {
	c := w.client(t, Options{Label: "A"})
	v := w.view(t, w.client(t, Options{}), "jobs/")
	outside := lock(t, mutex(t, c, "job"))
	other := lock(t, mutex(t, c, "jobs"))
	hold := lock(t, mutex(t, c, "jobs/daily"))
	v.shows(t, "jobs/daily", "A:")
	require.Empty(t, v.describe("job"))
	require.Empty(t, v.describe("jobs"))
	for _, h := range []*recipes.Hold{outside, other, hold} {
		unlock(t, h)
	}
	v.shows(t, "jobs/daily", "")
}

// testWatchThroughRestart changes a lock around a restart of the service: the
// watch ends up with the final state.
func testWatchThroughRestart(t *testing.T, w *world) {
	a := w.client(t, Options{Label: "A", TTL: restartTTL})
	v := w.view(t, w.client(t, Options{}), "")
	gone := lock(t, mutex(t, a, "gone"))
	stays := lock(t, mutex(t, a, "stays"))
	v.shows(t, "gone", "A:")
	w.server.Restart(t)
	unlock(t, gone)
	late := lock(t, mutex(t, a, "new"))
	v.shows(t, "gone", "")
	v.shows(t, "new", "A:")
	v.shows(t, "stays", "A:")
	unlock(t, stays)
	unlock(t, late)
	v.shows(t, "stays", "")
}
