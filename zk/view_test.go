package zk

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes/driver"
)

// TestWatchesDontPileUp watches the same queue again and again while its entry
// stays: all share the same watches on the server, and those on the entry are gone
// when it is.
func TestWatchesDontPileUp(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 1)
	sess := newSession(t, s, rootFor(t), patience)
	q := driver.Queue{Space: driver.SpaceLock, Name: "held"}
	own, _, err := sess.Enter(within(t), q, []byte("0"))
	require.NoError(t, err)
	scope := driver.Scope{Space: q.Space, Name: q.Name}
	watch := func(until func(driver.Event) bool) {
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		err := sess.store.Watch(ctx, scope, func(ev driver.Event) {
			if until(ev) {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled)
	}
	live := func() int {
		sess.link.watches.mu.Lock()
		defer sess.link.watches.mu.Unlock()
		return len(sess.link.watches.live)
	}
	for range 20 {
		watch(func(ev driver.Event) bool { return ev.Type == driver.Synced })
	}
	require.Equal(t, 2, live(), "on the children and on the entry")

	values := []string{}
	watch(func(ev driver.Event) bool {
		switch ev.Type {
		case driver.Synced:
			own, err = sess.Update(within(t), own, []byte("1"))
			require.NoError(t, err)
		case driver.Put:
			values = append(values, string(ev.Entry.Value))
			return string(ev.Entry.Value) == "1"
		}
		return false
	})
	require.Equal(t, []string{"0", "1"}, values)
	watch(func(ev driver.Event) bool {
		if ev.Type == driver.Synced {
			require.NoError(t, sess.Leave(within(t), own))
		}
		return ev.Type == driver.Delete
	})
	eventually(t, "the watch on the entry to be gone", func() bool { return live() <= 1 })
}
