package leasetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
)

const (
	calmTTL  = suite.CalmTTL
	shortTTL = 2 * suite.ShortTTL // a lease is renewed by a request of its own, which a busy machine may delay
	patience = suite.Patience
)

type test struct {
	name string
	run  func(t *testing.T, w *world)
}

// shared are the tests that can run beside others on one server.
var shared = []test{
	{"Exclusion", testExclusion},
	{"TryLock", testTryLock},
	{"Wakes", testWakes},
	{"Tokens", testTokens},
	{"Names", testNames},
	{"InvalidInput", testInvalidInput},
	{"CancelWhileWaiting", testCancelWhileWaiting},
	{"EndedContext", testEndedContext},
	{"Deadlock", testDeadlock},
	{"UnlockTwice", testUnlockTwice},
	{"HoldTimes", testHoldTimes},
	{"Publish", testPublish},
	{"RenewalKeeps", testRenewalKeeps},
	{"BrokenIsNotRenewed", testBroken},
	{"BreakTouchesNoOther", testBreakTouchesNoOther},
	{"Objects", testObjects},
	{"Close", testClose},
	{"LossComesFirst", testLossComesFirst},
	{"ShortStall", testShortStall},
	{"LostReplyToLock", testLostReplyToLock},
	{"LostReplyThenCancel", testLostReplyThenCancel},
	{"LostReplyThenClose", testLostReplyThenClose},
	{"InLineWhileAway", testInLineWhileAway},
	{"LostReplyToUnlock", testLostReplyToUnlock},
	{"LostReplyToRenewal", testLostReplyToRenewal},
	{"UnlockAfterLoss", testUnlockAfterLoss},
	{"Contenders", testContenders},
	{"Processes", testProcesses},
	{"Clocks", testClocks},
}

// Run runs the suite on one server.
func Run(t *testing.T, start func(t testing.TB) Server) {
	server := start(t)
	for _, tc := range []test{{"RestartWhileWaiting", testRestart}} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, newWorld(server, tc.name)) })
	}
	t.Run("shared", func(t *testing.T) {
		for _, tc := range shared {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				tc.run(t, newWorld(server, tc.name))
			})
		}
	})
}

// A world is what one test works in: a server, and names of its own.
type world struct {
	server Server
	prefix string
}

var worlds atomic.Int64

func newWorld(s Server, name string) *world {
	return &world{s, fmt.Sprintf("%s-%d-%x/", name, worlds.Add(1), time.Now().UnixNano())}
}

// client makes a client that is closed, successfully, when the test ends.
func (w *world) client(t testing.TB, o Options) Client {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = calmTTL
	}
	c := w.server.Open(t, o)
	t.Cleanup(func() {
		if o.Link != nil {
			o.Link.Resume()
		}
		require.NoError(t, c.Close())
	})
	return c
}

// link makes a link, or skips the test if the store has no connections.
func (w *world) link(t testing.TB) Link {
	t.Helper()
	l := w.server.Link(t)
	if l == nil {
		t.Skip("the store has no connections")
	}
	return l
}

func (w *world) mutex(t testing.TB, c Client, name string) Mutex {
	t.Helper()
	m, err := c.Mutex(w.prefix+name, nil)
	require.NoError(t, err)
	return m
}

func lock(t testing.TB, m Mutex) Hold {
	t.Helper()
	h, err := m.Lock(suite.Within(t))
	require.NoError(t, err)
	return h
}

func unlock(t testing.TB, h Hold) {
	t.Helper()
	require.NoError(t, h.Unlock(suite.Within(t)))
}

// An attempt is a call to Lock that runs while the test goes on.
type attempt struct {
	hold Hold
	err  error
	at   time.Time // of the return
	done chan struct{}
}

func lockAside(ctx context.Context, m Mutex) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.hold, a.err = m.Lock(ctx)
		a.at = time.Now()
	}()
	return a
}

func (a *attempt) wait(t testing.TB) *attempt {
	t.Helper()
	suite.Await(t, a.done, "Lock to return")
	return a
}

// object is the lock as the client sees it.
func (w *world) object(t testing.TB, c Client, name string) recipes.Object {
	t.Helper()
	o, err := c.Lock(suite.Within(t), w.prefix+name)
	require.NoError(t, err)
	return o
}

// free waits until nobody holds the lock.
func (w *world) free(t testing.TB, c Client, name string) {
	t.Helper()
	suite.Eventually(t, "the lock to be free", func() bool { return w.object(t, c, name).Gone() })
}
