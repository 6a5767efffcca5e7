package recipetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

const (
	// calmTTL is for tests in which nothing is meant to expire.
	calmTTL = 20 * time.Second
	// shortTTL is for tests that wait for something to expire.
	shortTTL = 2 * time.Second
	// restartTTL is for tests that restart the service, which can take long on a busy
	// machine.
	restartTTL = 60 * time.Second
	// patience bounds everything that must happen; reaching it is a failure.
	patience = 60 * time.Second
)

// Run runs the suite. start is called for one server that many tests share, and
// again for each test that needs a server of its own.
func Run(t *testing.T, limits Limits, start func(t testing.TB) Server) {
	t.Run("shared", func(t *testing.T) {
		server := start(t)
		for _, tc := range shared {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				tc.run(t, newWorld(t, server))
			})
		}
	})
	t.Run("own", func(t *testing.T) {
		for _, tc := range own {
			t.Run(tc.name, func(t *testing.T) {
				w := newWorld(t, start(t))
				w.limits = limits
				tc.run(t, w)
			})
		}
	})
}

// shared are the tests that can run beside others on one server.
var shared = []test{
	{"Exclusion", testExclusion},
	{"FIFO", testFIFO},
	{"TwoHundredWaiters", testTwoHundredWaiters},
	{"TryLock", testTryLock},
	{"CancelWhileWaiting", testCancelWhileWaiting},
	{"WaitTimeout", testWaitTimeout},
	{"EndedContext", testEndedContext},
	{"Unlock", testUnlock},
	{"UnlockWithEndedContext", testUnlockWithEndedContext},
	{"StaleHold", testStaleHold},
	{"HoldOutlivesWaitingContext", testHoldOutlivesWaitingContext},
	{"Do", testDo},
	{"Tokens", testTokens},
	{"Names", testNames},
	{"InvalidInput", testInvalidInput},
	{"Close", testClose},
	{"SeveralHoldsOfOneClient", testSeveralHolds},
	{"RawPath", testRawPath},
	{"ExpireWhileHolding", testExpireWhileHolding},
	{"ExpireWhileWaiting", testExpireWhileWaiting},
	{"ExpireBeforeGrant", testExpireBeforeGrant},
	{"UnlockAfterLoss", testUnlockAfterLoss},
	{"RenewalKeeps", testRenewalKeeps},
	{"ShortStall", testShortStall},
	{"LossComesFirst", testLossComesFirst},
	{"LostReplyToLock", testLostReplyToLock},
	{"LostReplyToUnlock", testLostReplyToUnlock},
	{"LostReplyThenCancel", testLostReplyThenCancel},
	{"CancelOnStalledLink", testCancelOnStalledLink},
	{"CutWhileWaiting", testCutWhileWaiting},
	{"ParentReaped", testParentReaped},
	{"ForeignSiblings", testForeignSiblings},
	{"RemovedByHand", testRemovedByHand},
	{"Locks", testLocks},
	{"Watch", testWatch},
	{"WatchPrefix", testWatchPrefix},
	{"NothingLeft", testNothingLeft},
	{"Relay", testRelay},
	{"RelayOrder", testRelayOrder},
	{"RelayHeir", testRelayHeir},
	{"RelayBrokenHeir", testRelayBrokenHeir},
	{"RelayLoss", testRelayLoss},
	{"RelayOutsider", testRelayOutsider},
	{"RetainTokens", testRetainTokens},
	{"RetainEnds", testRetainEnds},
	{"RWExclusion", testRWExclusion},
	{"RWOrder", testRWOrder},
	{"RWReaderAheadOfWriter", testRWReaderAheadOfWriter},
	{"RWDowngrade", testRWDowngrade},
	{"RWWatch", testRWWatch},
	{"RWUpgrade", testRWUpgrade},
	{"RWUpgradeRace", testRWUpgradeRace},
	{"RWExpireWhileWaiting", testRWExpireWhileWaiting},
	{"Reentry", testReentry},
	{"MinHold", testMinHold},
	{"MaxHold", testMaxHold},
	{"Publish", testPublish},
	{"PublishLostReply", testPublishLostReply},
	{"PublishAfterLoss", testPublishAfterLoss},
	{"Register", testRegister},
	{"RegisterUpdate", testRegisterUpdate},
	{"RegisterReplace", testRegisterReplace},
	{"RegisterInvalid", testRegisterInvalid},
	{"RegisterLostReply", testRegisterLostReply},
	{"RegisterWatchWhileReplaced", testRegisterWatchWhileReplaced},
	{"RegisterWatch", testRegisterWatch},
	{"Break", testBreak},
	{"BreakChangedHands", testBreakChangedHands},
	{"BreakUnreachable", testBreakUnreachable},
	{"BreakWaiter", testBreakWaiter},
	{"Guard", testGuard},
	{"GuardSeveral", testGuardSeveral},
	{"GuardRetained", testGuardRetained},
	{"GuardTurns", testGuardTurns},
	{"Ask", testAsk},
	{"AskTwice", testAskTwice},
	{"SemaphoreLimitHolds", testSemaphoreLimitHolds},
	{"SemaphoreOrder", testSemaphoreOrder},
	{"SemaphoreCancelFirst", testSemaphoreCancelFirst},
	{"SemaphoreExpire", testSemaphoreExpire},
	{"SemaphoreSetLimit", testSemaphoreSetLimit},
	{"SemaphoreAndMutex", testSemaphoreAndMutex},
	{"SemaphoreLostReply", testSemaphoreLostReply},
	{"SemaphoreInvalid", testSemaphoreInvalid},
	{"Multi", testMulti},
	{"MultiAllOrNothing", testMultiAllOrNothing},
	{"MultiLost", testMultiLost},
	{"MultiOrder", testMultiOrder},
	{"Latch", testLatch},
	{"LatchCount", testLatchCount},
	{"Barrier", testBarrier},
	{"DoubleBarrier", testDoubleBarrier},
	{"DoubleBarrierRounds", testDoubleBarrierRounds},
	{"DoubleBarrierGiveUp", testDoubleBarrierGiveUp},
	{"DoubleBarrierDeath", testDoubleBarrierDeath},
	{"Group", testGroup},
	{"GroupWatch", testGroupWatch},
	{"GroupLoss", testGroupLoss},
	{"Once", testOnce},
	{"OnceRetention", testOnceRetention},
	{"OnceLoss", testOnceLoss},
	{"QueueWorkers", testQueueWorkers},
	{"QueueOrder", testQueueOrder},
	{"QueueDelay", testQueueDelay},
	{"QueueWorkerDies", testQueueWorkerDies},
	{"QueueAckAfterLoss", testQueueAckAfterLoss},
	{"QueueAckAfterAnothersAck", testQueueAckAfterAnothersAck},
	{"QueueDeadLetters", testQueueDeadLetters},
	{"QueueLostReply", testQueueLostReply},
	{"QueueSettlesInTheBackground", testQueueSettlesInTheBackground},
	{"QueueCancel", testQueueCancel},
	{"QueueTakeOutlivesSession", testQueueTakeOutlivesSession},
	{"QueueCut", testQueueCut},
	{"QueueClose", testQueueClose},
	{"QueueInvalid", testQueueInvalid},
	{"PartitionMoves", testPartitionMoves},
	{"PartitionChurn", testPartitionChurn},
	{"PartitionDrain", testPartitionDrain},
	{"PartitionMismatch", testPartitionMismatch},
	{"PartitionLoss", testPartitionLoss},
	{"PartitionExpire", testPartitionExpire},
	{"PartitionStandBy", testPartitionStandBy},
	{"PartitionWork", testPartitionWork},
	{"PartitionWatch", testPartitionWatch},
	{"PartitionCut", testPartitionCut},
	{"PartitionClose", testPartitionClose},
	{"PartitionEnded", testPartitionEnded},
	{"PartitionInvalid", testPartitionInvalid},
	{"ObjectsLocks", testObjectsLocks},
	{"ObjectsSemaphore", testObjectsSemaphore},
	{"ObjectsGroup", testObjectsGroup},
	{"ObjectsQueue", testObjectsQueue},
	{"ObjectsValues", testObjectsValues},
	{"ObjectsDoubleBarrier", testObjectsDoubleBarrier},
	{"ObjectsOnce", testObjectsOnce},
	{"ObjectsPartition", testObjectsPartition},
	{"ObjectsFilter", testObjectsFilter},
	{"ObjectsChangeKind", testObjectsChangeKind},
	{"ObjectsInternal", testObjectsInternal},
}

// own are the tests that need a server for themselves.
var own = []test{
	{"RestartWhileWaiting", testRestartWhileWaiting},
	{"WatchThroughRestart", testWatchThroughRestart},
	{"ObjectsThroughRestart", testObjectsThroughRestart},
	{"CostOfCycle", testCostOfCycle},
	{"CostOfTurns", testCostOfTurns},
	{"CostOfRetain", testCostOfRetain},
	{"CostOfWakeUp", testCostOfWakeUp},
	{"CostOfIdling", testCostOfIdling},
	{"CostOfSemaphore", testCostOfSemaphore},
	{"CostOfQueue", testCostOfQueue},
	{"CostOfGuard", testCostOfGuard},
	{"CostOfPartition", testCostOfPartition},
	{"PartitionMany", testPartitionMany},
	{"CostOfView", testCostOfView},
}

// Names are the names of all tests of the suite.
func Names() []string {
	var names []string
	for _, tc := range slices.Concat(shared, own) {
		names = append(names, tc.name)
	}
	return names
}

type test struct {
	name string
	run  func(t *testing.T, w *world)
}

// world is what one test works in: a server and a root of its own.
type world struct {
	server Server
	root   string
	limits Limits
}

func newWorld(t *testing.T, server Server) *world {
	name := strings.ToLower(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:])
	return &world{server: server, root: fmt.Sprintf("/test-%s-%x", name, time.Now().UnixNano())}
}

// client makes a client that is closed, successfully, when the test ends.
func (w *world) client(t testing.TB, o Options) *recipes.Client {
	t.Helper()
	o.Root = w.root
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

func mutex(t testing.TB, c *recipes.Client, name string) *recipes.Mutex {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	return m
}

// lock locks, and fails the test if that takes too long.
func lock(t testing.TB, m *recipes.Mutex) *recipes.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := m.Lock(ctx)
	require.NoError(t, err)
	return h
}

func unlock(t testing.TB, h *recipes.Hold) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, h.Unlock(ctx))
}

// attempt is a call to Lock that runs while the test goes on.
type attempt struct {
	hold *recipes.Hold
	err  error
	at   time.Time // of the return
	done chan struct{}
}

func lockAside(ctx context.Context, m *recipes.Mutex) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.hold, a.err = m.Lock(ctx)
		a.at = time.Now()
	}()
	return a
}

// wait waits for the call to return.
func (a *attempt) wait(t testing.TB) *attempt {
	t.Helper()
	await(t, a.done, "Lock to return")
	return a
}

// waiting reports whether the call has not returned.
func (a *attempt) waiting() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

func await(t testing.TB, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // between looks; nothing depends on how long
	}
}

// queue reads the queue of the lock.
func (w *world) queue(t testing.TB, c *recipes.Client, name string) []recipes.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := c.Lock(ctx, name)
	require.NoError(t, err)
	return l.Entries
}

// queued waits until the queue of the lock has n entries.
func (w *world) queued(t testing.TB, c *recipes.Client, name string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d entries in the queue of %q", n, name), func() bool {
		return len(w.queue(t, c, name)) == n
	})
}

// entered gives a call to Lock, of the same client, time to get from where others
// see its entry to where it waits, for which the service may have to answer it
// again. Until then the end of its session makes it enter anew, and the end of its
// context says that there was no reply. What a client asks later is answered later.
func (w *world) entered(t testing.TB, c *recipes.Client) {
	t.Helper()
	for range 3 {
		unlock(t, lock(t, mutex(t, c, "entered")))
	}
}
