package recipetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func testPublish(t *testing.T, w *world) {
	ctx := context.Background()
	c, observer := w.client(t, Options{Label: "a"}), w.client(t, Options{})
	m, err := c.RWMutex("shown", &recipes.MutexOptions{Kind: "leader", Publish: map[string]int{"n": 0}})
	require.NoError(t, err)
	hold := wlock(t, m)
	shows := func(want string) {
		t.Helper()
		queue := w.queue(t, observer, "shown")
		require.Len(t, queue, 1)
		require.Equal(t, want, string(queue[0].Published))
		require.EqualValues(t, "leader", queue[0].Kind)
		require.Equal(t, "a", queue[0].Owner.Label)
	}
	shows(`{"n":0}`)
	since := w.queue(t, observer, "shown")[0].Since
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, synced := "", false
	for change, err := range observer.Watch(watching, recipes.Filter{Kinds: []recipes.Kind{"leader"}, Name: "shown"}) {
		require.NoError(t, err)
		if synced = synced || change.Kind == recipes.WatchSynced; change.Kind == recipes.WatchSynced {
			require.NoError(t, hold.Publish(ctx, "text"))
			continue
		}
		require.Equal(t, "shown", change.Object.Name)
		if seen = string(change.Object.Entries[0].Published); synced {
			cancel()
		}
	}
	require.Equal(t, `"text"`, seen)
	require.NoError(t, m.Downgrade(ctx, hold))
	shows(`"text"`)
	require.True(t, w.queue(t, observer, "shown")[0].Shared)
	require.NoError(t, hold.Publish(ctx, nil))
	shows("")
	require.True(t, w.queue(t, observer, "shown")[0].Shared)
	require.Equal(t, since, w.queue(t, observer, "shown")[0].Since)

	for _, bad := range []any{func() {}, strings.Repeat("x", 65<<10)} {
		require.ErrorIs(t, hold.Publish(ctx, bad), recipes.ErrInvalid)
		_, err = c.Mutex("shown", &recipes.MutexOptions{Publish: bad})
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	_, err = c.Mutex("shown", &recipes.MutexOptions{Kind: "a\nb"})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	unlock(t, hold)
	require.ErrorIs(t, hold.Publish(ctx, 1), recipes.ErrLost)
}

// testPublishLostReply loses replies: each value is there when Publish returns.
func testPublishLostReply(t *testing.T, w *world) {
	link := w.server.Link(t)
	c, observer := w.client(t, Options{Link: link}), w.client(t, Options{})
	hold := lock(t, mutex(t, c, "shown"))
	for i := range rounds {
		link.LoseReply()
		require.NoError(t, hold.Publish(context.Background(), i))
		require.JSONEq(t, fmt.Sprint(i), string(w.queue(t, observer, "shown")[0].Published))
	}
	unlock(t, hold)
}

func testPublishAfterLoss(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "shown"))
	next := lockAside(ctx, mutex(t, b, "shown"))
	w.queued(t, b, "shown", 2)
	w.server.Remove(t, w.root, "shown")
	require.NoError(t, next.wait(t).err)
	require.ErrorIs(t, hold.Publish(ctx, "late"), recipes.ErrLost)
	queue := w.queue(t, b, "shown")
	require.Len(t, queue, 1, "nothing came back")
	require.Equal(t, json.RawMessage(nil), queue[0].Published)
	unlock(t, next.hold)
	w.server.Expire(t, a.SessionID())
	require.ErrorIs(t, hold.Publish(ctx, "late"), recipes.ErrLost)
	require.ErrorIs(t, hold.Unlock(ctx), recipes.ErrLost)
}
