// Package suite has what conformance suites of packages above recipes have in common.
package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// The times of tests.
const (
	CalmTTL  = 20 * time.Second // for tests in which nothing is meant to expire
	ShortTTL = 2 * time.Second  // for tests that wait for something to expire
	Patience = 60 * time.Second // bounds everything that must happen
)

// A Test is one test of a suite.
type Test struct {
	Name string
	Run  func(t *testing.T, w *World)
}

// Names are the names of tests.
func Names(tests ...[]Test) []string {
	var names []string
	for _, tc := range slices.Concat(tests...) {
		names = append(names, tc.Name)
	}
	return names
}

// Run runs the tests on one server that they share: those of alone first, one after
// the other and without anybody else; then the others at the same time.
func Run(t *testing.T, start func(t testing.TB) recipetest.Server, alone, shared []Test) {
	server := start(t)
	for _, tc := range alone {
		t.Run(tc.Name, func(t *testing.T) { tc.Run(t, newWorld(server, tc.Name)) })
	}
	t.Run("shared", func(t *testing.T) {
		for _, tc := range shared {
			t.Run(tc.Name, func(t *testing.T) {
				t.Parallel()
				tc.Run(t, newWorld(server, tc.Name))
			})
		}
	})
}

// A World is what one test works in: a server and a root of its own.
type World struct {
	Server recipetest.Server
	Root   string
}

func newWorld(server recipetest.Server, name string) *World {
	return &World{server, fmt.Sprintf("/suite-%s-%x", strings.ToLower(name), time.Now().UnixNano())}
}

// Client makes a client that is closed, successfully, when the test ends.
func (w *World) Client(t testing.TB, o recipetest.Options) *recipes.Client {
	t.Helper()
	c := w.Open(t, o)
	t.Cleanup(func() {
		if o.Link != nil {
			o.Link.Resume()
		}
		require.NoError(t, c.Close())
	})
	return c
}

// Open makes a client that the test closes.
func (w *World) Open(t testing.TB, o recipetest.Options) *recipes.Client {
	t.Helper()
	o.Root = w.Root
	if o.TTL == 0 {
		o.TTL = CalmTTL
	}
	return w.Server.Open(t, o)
}

// Within is a context for what must happen.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Await waits for something that must happen.
func Await(t testing.TB, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(Patience):
		t.Fatalf("waited %v for %s", Patience, what)
	}
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", Patience, what)
		}
		time.Sleep(5 * time.Millisecond) // between looks; nothing depends on how long
	}
}

// Queued waits until the line of the lock called name has n entries.
func Queued(t testing.TB, c *recipes.Client, name string, n int) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%d in line", n), func() bool {
		lock, err := c.Lock(Within(t), name)
		require.NoError(t, err)
		return len(lock.Entries) == n
	})
}

// Entered gives a call of the same client, whose entry others see already, time to get
// to where it waits: what a client asks later is answered later.
func Entered(t testing.TB, c *recipes.Client) {
	t.Helper()
	m, err := c.Mutex("entered", nil)
	require.NoError(t, err)
	for range 3 {
		hold, err := m.Lock(Within(t))
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(Within(t)))
	}
}
