package electiontest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// name is that of every election of the suite; each test has a root of its own.
const name = "e/1"

// Run runs the suite. start is called once, for one server that the tests share.
func Run(t *testing.T, start func(t testing.TB) recipetest.Server) {
	suite.Run(t, start, alone, tests)
}

// Names are the names of all tests of the suite.
func Names() []string { return suite.Names(alone, tests) }

var alone = []suite.Test{{Name: "Cost", Run: testCost}}

var tests = []suite.Test{
	{Name: "OneLeader", Run: testOneLeader},
	{Name: "Resign", Run: testResign},
	{Name: "ExpiredLeader", Run: testExpiredLeader},
	{Name: "LossComesFirst", Run: testLossComesFirst},
	{Name: "ExpiredCandidate", Run: testExpiredCandidate},
	{Name: "ExpiredBeforeElection", Run: testExpiredBeforeElection},
	{Name: "RemovedByHand", Run: testRemovedByHand},
	{Name: "CancelledCampaign", Run: testCancelledCampaign},
	{Name: "LostReplies", Run: testLostReplies},
	{Name: "FailuresWhileWaiting", Run: testFailuresWhileWaiting},
	{Name: "Drain", Run: testDrain},
	{Name: "DrainInTheBackground", Run: testDrainInTheBackground},
	{Name: "SameProcess", Run: testSameProcess},
	{Name: "Priority", Run: testPriority},
	{Name: "Invalid", Run: testInvalid},
	{Name: "Observe", Run: testObserve},
	{Name: "ObserveUngranted", Run: testObserveUngranted},
	{Name: "ObserveThroughCut", Run: testObserveThroughCut},
	{Name: "ObserveManyChanges", Run: testObserveManyChanges},
	{Name: "Run", Run: testRun},
	{Name: "RunAgain", Run: testRunAgain},
	{Name: "RunDrains", Run: testRunDrains},
	{Name: "RunLost", Run: testRunLost},
}

func elections(t testing.TB, c *recipes.Client, o *election.Options) *election.Election {
	t.Helper()
	e, err := election.New(c, name, o)
	require.NoError(t, err)
	return e
}

// candidate is an election with a client of its own.
func candidate(t testing.TB, w *suite.World, label string) (*recipes.Client, *election.Election) {
	t.Helper()
	c := w.Client(t, recipetest.Options{Label: label})
	return c, elections(t, c, nil)
}

func elect(t testing.TB, e *election.Election, value string) *election.Lead {
	t.Helper()
	lead, err := e.Campaign(suite.Within(t), value)
	require.NoError(t, err)
	return lead
}

func resign(t testing.TB, lead *election.Lead) {
	t.Helper()
	require.NoError(t, lead.Resign(suite.Within(t)))
}

// campaign is a call to Campaign that runs while the test goes on.
type campaign struct {
	lead *election.Lead
	err  error
	at   time.Time // of the return
	done chan struct{}
}

func campaignAside(ctx context.Context, e *election.Election, value string) *campaign {
	c := &campaign{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.lead, c.err = e.Campaign(ctx, value)
		c.at = time.Now()
	}()
	return c
}

func (c *campaign) wait(t testing.TB) *campaign {
	t.Helper()
	suite.Await(t, c.done, "Campaign to return")
	return c
}

func (c *campaign) waiting() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}
