package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// These tests run in virtual time, so that every moment is exact.

const ttl = 16 * time.Second

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := &memory.Link{}
		c := open(t, memory.NewServer(), &memory.Options{TTL: ttl, Link: link})
		defer c.Close()
		start := time.Now()
		hold := lock(t, c, "a")
		require.Equal(t, start.Add(ttl*7/8), hold.Deadline())

		time.Sleep(ttl/4 + time.Nanosecond)
		require.Equal(t, start.Add(ttl/4+ttl*7/8), hold.Deadline(), "renewed after a quarter of the TTL")

		link.StallReplies() // from here on renewals reach the server, and prove nothing
		last := hold.Deadline()
		<-hold.Context().Done()
		require.Equal(t, last, time.Now(), "lost at the deadline, to the nanosecond")
		var lost *recipes.LostError
		require.ErrorAs(t, context.Cause(hold.Context()), &lost)
		require.Equal(t, recipes.LostExpired, lost.Reason)
		require.ErrorIs(t, lost, recipes.ErrUnavailable, "and what the last renewal said")
		link.Resume()
	})
}

func TestHoldersKeepTheMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := memory.NewServer(), &memory.Link{}
		a := open(t, server, &memory.Options{TTL: ttl, Link: link})
		defer a.Close()
		b := open(t, server, &memory.Options{TTL: ttl})
		defer b.Close()
		hold := lock(t, a, "a")
		link.StallReplies() // requests go through, also that to end the session
		<-hold.Context().Done()
		ended := time.Now()
		next := lock(t, b, "a")
		require.Equal(t, ttl/8, time.Since(ended), "the session is ended when the margin has passed")
		require.NoError(t, next.Unlock(context.Background()))
		link.Resume()
	})
}

func TestFailedRenewalIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := &memory.Link{}
		c := open(t, memory.NewServer(), &memory.Options{TTL: ttl, Link: link})
		defer c.Close()
		hold := lock(t, c, "a")
		start := time.Now()
		link.StallBoth()
		time.Sleep(ttl * 5 / 8)
		require.NoError(t, hold.Context().Err())
		link.Resume()
		synctest.Wait()
		time.Sleep(ttl / 4)
		require.NoError(t, hold.Context().Err())
		require.True(t, hold.Deadline().After(start.Add(ttl*7/8)))
		require.NoError(t, hold.Unlock(context.Background()))
	})
}

func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := &memory.Link{}
		c := open(t, memory.NewServer(), &memory.Options{TTL: ttl, Link: link})
		defer c.Close()
		link.StallBoth()
		m, err := c.Mutex("a", nil)
		require.NoError(t, err)

		start := time.Now()
		_, err = m.Lock(context.Background())
		require.ErrorIs(t, err, recipes.ErrUnavailable)
		require.Equal(t, 5*time.Second, time.Since(start), "ConnectTimeout")

		start = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, call := range []func(context.Context) (*recipes.Hold, error){m.Lock, m.TryLock} {
			_, err = call(ctx)
			require.ErrorIs(t, err, recipes.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, recipes.ErrHeld)
		}
		require.Equal(t, time.Second, time.Since(start))
		link.Resume()
	})
}

// TestLostWhileEntering ends the session locally while the request to enter has
// no reply.
func TestLostWhileEntering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := memory.NewServer(), &memory.Link{}
		c := open(t, server, &memory.Options{TTL: ttl, Link: link})
		defer c.Close()
		require.NoError(t, lock(t, c, "other").Unlock(context.Background()))
		link.StallReplies()
		m, err := c.Mutex("a", nil)
		require.NoError(t, err)
		_, err = m.Lock(context.Background())
		require.ErrorIs(t, err, recipes.ErrLost)
		link.Resume()
		hold, err := m.Lock(context.Background())
		require.NoError(t, err)
		require.Len(t, server.Left("/lockctl"), 1, "the first entry is gone")
		require.NoError(t, hold.Unlock(context.Background()))
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := memory.NewServer(), &memory.Link{}
		c := open(t, server, &memory.Options{TTL: ttl, Link: link})
		hold := lock(t, c, "a")
		link.StallBoth()
		start := time.Now()
		require.ErrorIs(t, c.Close(), recipes.ErrUnavailable)
		require.Equal(t, 5*time.Second, time.Since(start), "CloseTimeout")
		require.ErrorIs(t, context.Cause(hold.Context()), recipes.ErrClosed)
		time.Sleep(ttl)
		require.Empty(t, server.Left(""), "what was left went with the TTL")
	})
}
