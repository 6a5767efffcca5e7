package recipes_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/wallclock"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// clockEnv is set in the process whose wall clock the test sets.
const clockEnv = "RECIPES_TEST_CLOCK"

const patience = 60 * time.Second // bounds everything that must happen

// TestClockIsSet sets the wall clock while locks are held, in a process of its own. An
// hour forward, it ends a hold before its deadline: the machine may have been suspended.
// An hour back, it keeps no hold beyond its deadline.
func TestClockIsSet(t *testing.T) {
	if os.Getenv(clockEnv) == "" {
		if !wallclock.Supported() {
			t.Skip(wallclock.ErrUnsupported)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestClockIsSet$")
		cmd.Env = append(os.Environ(), clockEnv+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	clock, err := wallclock.Take()
	require.NoError(t, err)
	sessions, leases := memory.NewServer(), &memory.LeaseServer{}
	for name, connect := range map[string]openFunc{
		"session": func(t *testing.T, ttl time.Duration, link *memory.Link) mutexes {
			c := open(t, sessions, &memory.Options{TTL: ttl, Link: link})
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			return func(name string) (locker, error) { return c.Mutex(name, nil) }
		},
		"lease": func(t *testing.T, ttl time.Duration, link *memory.Link) mutexes {
			c, err := memory.OpenLeases(leases, &memory.LeaseOptions{
				Link: link, Lease: recipes.LeaseOptions{TTL: ttl, Poll: 10 * time.Millisecond},
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			return func(name string) (locker, error) { return c.Mutex(name, nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("forward", func(t *testing.T) { testSetForward(t, clock, connect) })
			t.Run("back", func(t *testing.T) { testSetBack(t, clock, connect) })
		})
	}
}

type (
	locker   = recipes.Locker[*recipes.Hold]
	mutexes  func(name string) (locker, error)
	openFunc func(t *testing.T, ttl time.Duration, link *memory.Link) mutexes
)

func (m mutexes) lock(t *testing.T, name string) *recipes.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := m(name)
	require.NoError(t, err)
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	return h
}

func requireExpired(t *testing.T, h *recipes.Hold) {
	t.Helper()
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(h.Context()), &lost)
	require.Equal(t, recipes.LostExpired, lost.Reason)
}

func testSetForward(t *testing.T, clock *wallclock.Clock, connect openFunc) {
	h := connect(t, patience, &memory.Link{}).lock(t, "forward")
	clock.Shift(time.Hour)
	defer clock.Shift(0)
	select {
	case <-h.Context().Done():
	case <-time.After(patience):
		t.Fatal("the hold goes on")
	}
	requireExpired(t, h)
	require.Positive(t, time.Until(h.Deadline()), "of the monotonic clock")
}

func testSetBack(t *testing.T, clock *wallclock.Clock, connect openFunc) {
	const ttl = 4 * time.Second
	link := &memory.Link{}
	h, other := connect(t, ttl, link).lock(t, "back"), connect(t, ttl, &memory.Link{})
	t.Cleanup(link.Resume) // before the clients are closed
	lost := make(chan time.Time, 1)
	context.AfterFunc(h.Context(), func() { lost <- time.Now() })
	link.StallReplies() // no renewal proves anything
	clock.Shift(-time.Hour)
	defer clock.Shift(0)
	next := other.lock(t, "back")
	granted := time.Now()
	select {
	case at := <-lost:
		require.True(t, at.Before(granted), "lost %v after the next grant", at.Sub(granted))
	default:
		t.Fatal("the former holder does not know")
	}
	requireExpired(t, h)
	require.NoError(t, next.Unlock(context.Background()))
}
