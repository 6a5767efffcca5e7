package electiontest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// testOneLeader has candidates lead in turns and check that they are alone, and
// that terms grow.
func testOneLeader(t *testing.T, w *suite.World) {
	const candidates, turns = 5, 6
	var leading atomic.Int32
	var last atomic.Uint64
	var wg sync.WaitGroup
	for range candidates {
		_, e := candidate(t, w, "")
		wg.Go(func() {
			for range turns {
				lead, err := e.Campaign(context.Background(), "")
				if err != nil {
					t.Error(err)
					return
				}
				if n := leading.Add(1); n != 1 {
					t.Errorf("%d leaders", n)
				}
				if before := last.Swap(lead.Term()); before >= lead.Term() {
					t.Errorf("term %d after %d", lead.Term(), before)
				}
				leader, err := e.Leader(context.Background())
				if err != nil || leader.Term != lead.Term() {
					t.Errorf("term %d leads, but %+v is seen, with error %v", lead.Term(), leader, err)
				}
				leading.Add(-1)
				if err := lead.Resign(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// testCost counts what uncontended leads cost: entering, showing that one leads, and
// leaving; and one read more than a lock, for priorities.
func testCost(t *testing.T, w *suite.World) {
	const cycles = 20
	_, e := candidate(t, w, "")
	resign(t, elect(t, e, "")) // opens the session, makes what stays
	before := w.Server.Cost(t)
	for range cycles {
		resign(t, elect(t, e, "x"))
	}
	cost := w.Server.Cost(t).Sub(before)
	t.Logf("%d campaigns and resignations: %+v", cycles, cost)
	require.Equal(t, 3*cycles, cost.Commits, "commits")
	const once = 3                                             // the session may begin to watch its inbox only now
	require.LessOrEqual(t, cost.Reads, 3*cycles+once, "reads") // ZooKeeper lists and reads the line
	require.LessOrEqual(t, cost.Watches, once, "watches")
	require.Zero(t, cost.Events, "events")
}

func testResign(t *testing.T, w *suite.World) {
	ctx := suite.Within(t)
	ca, a := candidate(t, w, "a")
	_, b := candidate(t, w, "b")
	_, err := a.Leader(ctx)
	require.ErrorIs(t, err, election.ErrNoLeader)
	first := elect(t, a, "at a")
	require.Equal(t, name, first.Name())
	require.NotEmpty(t, first.SessionID())
	leader, err := b.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "at a", leader.Value)
	require.Equal(t, "a", leader.Owner.Label)
	require.Equal(t, first.Owner(), leader.Owner)
	require.Equal(t, first.SessionID(), leader.Session)
	require.Equal(t, first.Term(), leader.Term)
	require.WithinDuration(t, time.Now(), leader.Since, suite.Patience)
	require.True(t, first.Deadline().After(time.Now()))

	next := campaignAside(ctx, b, "at b")
	suite.Queued(t, ca, name, 2)
	require.NoError(t, first.Proclaim(ctx, "still a"))
	leader, err = b.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "still a", leader.Value)
	locks, err := ca.Objects(ctx, recipes.Filter{})
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.Equal(t, recipes.KindElection, locks[0].Kind)
	seen, ok := election.LeaderOf(locks[0])
	require.True(t, ok)
	require.Equal(t, leader, seen)
	require.Equal(t, `led by `+leader.Owner.String()+`, "still a"`, election.Summary(locks[0]))
	line := election.Candidates(locks[0])
	require.Len(t, line, 2)
	require.True(t, line[0].Leads)
	require.False(t, line[1].Leads)

	require.True(t, next.waiting())
	resign(t, first)
	resign(t, first)
	require.ErrorIs(t, context.Cause(first.Context()), election.ErrResigned)
	require.ErrorIs(t, first.Proclaim(ctx, "late"), election.ErrResigned)
	require.False(t, first.Go(func(context.Context) { t.Error("it has resigned") }))
	require.NoError(t, next.wait(t).err)
	require.Greater(t, next.lead.Term(), first.Term())
	leader, err = a.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "at b", leader.Value)
	resign(t, next.lead)
	_, err = a.Leader(ctx)
	require.ErrorIs(t, err, election.ErrNoLeader)
}

func testExpiredLeader(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	cb, b := candidate(t, w, "b")
	first := elect(t, a, "")
	next := campaignAside(suite.Within(t), b, "")
	suite.Queued(t, cb, name, 2)
	w.Server.Expire(t, ca.SessionID())
	suite.Await(t, first.Context().Done(), "the leader to learn that its session is over")
	require.ErrorIs(t, context.Cause(first.Context()), recipes.ErrLost)
	require.NoError(t, next.wait(t).err)
	require.ErrorIs(t, first.Proclaim(suite.Within(t), "late"), recipes.ErrLost)
	require.ErrorIs(t, first.Resign(suite.Within(t)), recipes.ErrLost)
	require.NoError(t, next.lead.Context().Err())
	leader, err := a.Leader(suite.Within(t))
	require.NoError(t, err)
	require.Equal(t, next.lead.Term(), leader.Term)
	again := campaignAside(suite.Within(t), a, "") // the client goes on with a new session
	suite.Queued(t, cb, name, 2)
	resign(t, next.lead)
	require.NoError(t, again.wait(t).err)
	require.Greater(t, again.lead.Term(), next.lead.Term())
	resign(t, again.lead)
}

// testLossComesFirst stalls leaders' links: each knows that it has lost the lead
// before another is elected.
func testLossComesFirst(t *testing.T, w *suite.World) {
	link := w.Server.Link(t)
	a := elections(t, w.Client(t, recipetest.Options{TTL: suite.ShortTTL, Link: link}), nil)
	cb, b := candidate(t, w, "b")
	first := elect(t, a, "")
	next := campaignAside(suite.Within(t), b, "")
	suite.Queued(t, cb, name, 2)
	link.StallBoth()
	suite.Await(t, first.Context().Done(), "the leader to know that it can't know")
	lost := time.Now()
	require.NoError(t, next.wait(t).err)
	require.True(t, next.at.After(lost), "another was elected before")
	link.Resume()
	require.ErrorIs(t, first.Resign(suite.Within(t)), recipes.ErrLost)
	resign(t, next.lead)
}

func testExpiredCandidate(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	cb, b := candidate(t, w, "b")
	lead := elect(t, a, "")
	waiter := campaignAside(suite.Within(t), b, "")
	suite.Queued(t, ca, name, 2)
	suite.Entered(t, cb)
	w.Server.Expire(t, cb.SessionID())
	require.ErrorIs(t, waiter.wait(t).err, recipes.ErrLost)
	require.Nil(t, waiter.lead)
	suite.Queued(t, ca, name, 1)
	resign(t, lead)
}

// testExpiredBeforeElection ends a candidate's session while it can't hear of that,
// and then its turn comes.
func testExpiredBeforeElection(t *testing.T, w *suite.World) {
	link := w.Server.Link(t)
	ca, a := candidate(t, w, "a")
	cb := w.Client(t, recipetest.Options{Link: link})
	b := elections(t, cb, nil)
	lead := elect(t, a, "")
	waiter := campaignAside(suite.Within(t), b, "")
	suite.Queued(t, ca, name, 2)
	suite.Entered(t, cb)
	id := cb.SessionID()
	link.StallBoth()
	w.Server.Expire(t, id)
	suite.Queued(t, ca, name, 1)
	resign(t, lead)
	link.Resume()
	require.ErrorIs(t, waiter.wait(t).err, recipes.ErrLost)
	require.Nil(t, waiter.lead)
	_, err := a.Leader(suite.Within(t))
	require.ErrorIs(t, err, election.ErrNoLeader)
	resign(t, elect(t, b, ""))
}

// testRemovedByHand deletes the entry of a leader, whose session lives on.
func testRemovedByHand(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	_, b := candidate(t, w, "b")
	first := elect(t, a, "")
	next := campaignAside(suite.Within(t), b, "b")
	suite.Queued(t, ca, name, 2)
	w.Server.Remove(t, w.Root, name)
	require.NoError(t, next.wait(t).err)
	require.ErrorIs(t, first.Proclaim(suite.Within(t), "late"), recipes.ErrLost)
	require.ErrorIs(t, first.Resign(suite.Within(t)), recipes.ErrLost)
	leader, err := a.Leader(suite.Within(t))
	require.NoError(t, err)
	require.Equal(t, "b", leader.Value)
	resign(t, next.lead)
}

func testCancelledCampaign(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	cb, b := candidate(t, w, "b")
	lead := elect(t, a, "")
	ctx, cancel := context.WithCancel(suite.Within(t))
	waiter := campaignAside(ctx, b, "")
	suite.Queued(t, ca, name, 2)
	suite.Entered(t, cb)
	cancel()
	require.ErrorIs(t, waiter.wait(t).err, context.Canceled)
	require.Nil(t, waiter.lead)
	suite.Queued(t, ca, name, 1)
	if err := lead.Resign(ctx); err != nil { // it goes on in the background
		require.ErrorIs(t, err, context.Canceled)
	}
	suite.Queued(t, ca, name, 0)
	for i := range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*2*time.Millisecond)
		lead, err := b.Campaign(ctx, "")
		cancel()
		if err == nil {
			resign(t, lead)
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		suite.Queued(t, ca, name, 0)
	}
}

func testLostReplies(t *testing.T, w *suite.World) {
	link := w.Server.Link(t)
	a := elections(t, w.Client(t, recipetest.Options{Link: link}), nil)
	_, observer := candidate(t, w, "")
	resign(t, elect(t, a, "")) // opens the session
	var last uint64
	for _, value := range []string{"1", "2", "3"} {
		link.LoseReply()
		lead := elect(t, a, value)
		require.Greater(t, lead.Term(), last)
		last = lead.Term()
		link.LoseReply()
		require.NoError(t, lead.Proclaim(suite.Within(t), value+"'"))
		leader, err := observer.Leader(suite.Within(t))
		require.NoError(t, err)
		require.Equal(t, value+"'", leader.Value)
		link.LoseReply()
		resign(t, lead)
		_, err = observer.Leader(suite.Within(t))
		require.ErrorIs(t, err, election.ErrNoLeader)
	}
}

// testFailuresWhileWaiting breaks the link of a candidate around the moment at which
// its turn comes: it is elected all the same.
func testFailuresWhileWaiting(t *testing.T, w *suite.World) {
	link := w.Server.Link(t)
	ca, a := candidate(t, w, "a")
	b := elections(t, w.Client(t, recipetest.Options{Link: link}), nil)
	for i := range 6 {
		lead := elect(t, a, "")
		next := campaignAside(suite.Within(t), b, "")
		suite.Queued(t, ca, name, 2)
		if i%2 == 0 {
			link.Cut()
		} else {
			link.LoseReply()
		}
		resign(t, lead)
		require.NoError(t, next.wait(t).err)
		require.Greater(t, next.lead.Term(), lead.Term())
		resign(t, next.lead)
		suite.Queued(t, ca, name, 0)
	}
}

// testDrain resigns while work goes on: nobody else is elected before it has ended.
func testDrain(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	_, b := candidate(t, w, "b")
	lead := elect(t, a, "")
	next := campaignAside(suite.Within(t), b, "")
	suite.Queued(t, ca, name, 2)
	var working atomic.Int32
	stop := make(chan struct{})
	for range 3 {
		working.Add(1)
		require.True(t, lead.Go(func(ctx context.Context) {
			<-ctx.Done()
			<-stop
			working.Add(-1)
		}))
	}
	resigned := make(chan error, 1)
	go func() { resigned <- lead.Resign(suite.Within(t)) }()
	suite.Await(t, lead.Context().Done(), "the work to be told")
	leader, err := b.Leader(suite.Within(t))
	require.NoError(t, err)
	require.Equal(t, lead.Term(), leader.Term, "it keeps the lead while it drains")
	suite.Entered(t, ca)
	require.True(t, next.waiting())
	close(stop)
	require.NoError(t, next.wait(t).err)
	require.Zero(t, working.Load(), "the work had ended")
	require.NoError(t, <-resigned)
	resign(t, next.lead)
}

// testDrainInTheBackground resigns without waiting for the work.
func testDrainInTheBackground(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	_, b := candidate(t, w, "b")
	lead := elect(t, a, "")
	stop := make(chan struct{})
	require.True(t, lead.Go(func(context.Context) { <-stop }))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, lead.Resign(ctx), context.Canceled)
	next := campaignAside(suite.Within(t), b, "")
	suite.Queued(t, ca, name, 2)
	require.True(t, next.waiting())
	close(stop)
	require.NoError(t, next.wait(t).err)
	resign(t, lead)
	resign(t, next.lead)
}

// testSameProcess has candidates share a client.
func testSameProcess(t *testing.T, w *suite.World) {
	c, a := candidate(t, w, "a")
	b := elections(t, c, &election.Options{Label: "b"})
	first := elect(t, a, "")
	_, err := a.Campaign(first.Context(), "")
	require.ErrorIs(t, err, recipes.ErrDeadlock)
	next, another := campaignAside(suite.Within(t), b, ""), campaignAside(suite.Within(t), b, "")
	suite.Queued(t, c, name, 3)
	resign(t, first)
	suite.Eventually(t, "one of two", func() bool { return next.waiting() != another.waiting() })
	if next.waiting() {
		next, another = another, next
	}
	require.NoError(t, next.err)
	leader, err := a.Leader(suite.Within(t))
	require.NoError(t, err)
	require.Equal(t, "b", leader.Owner.Label)
	resign(t, next.lead)
	require.NoError(t, another.wait(t).err)
	require.Greater(t, another.lead.Term(), next.lead.Term())
	resign(t, another.lead)
}

func testPriority(t *testing.T, w *suite.World) {
	c := w.Client(t, recipetest.Options{})
	lead := elect(t, elections(t, c, &election.Options{Priority: -1}), "leads already")
	var waiting []*campaign
	for i, priority := range []int{0, 0, 5, 2} {
		e := elections(t, w.Client(t, recipetest.Options{}), &election.Options{Priority: priority})
		waiting = append(waiting, campaignAside(suite.Within(t), e, ""))
		suite.Queued(t, c, name, i+2)
	}
	require.NoError(t, lead.Context().Err(), "no leader is deposed")
	last := lead
	for _, i := range []int{2, 3} {
		resign(t, last)
		require.NoError(t, waiting[i].wait(t).err)
		last = waiting[i].lead
	}
	require.True(t, waiting[0].waiting() && waiting[1].waiting())
	resign(t, last)
	suite.Eventually(t, "one of two equals", func() bool { return waiting[0].waiting() != waiting[1].waiting() })
	for _, i := range []int{0, 1, 0} {
		if !waiting[i].waiting() {
			require.NoError(t, waiting[i].err)
			require.NoError(t, waiting[i].lead.Resign(suite.Within(t)))
			waiting[1-i].wait(t)
		}
	}
	suite.Queued(t, c, name, 0)
}

func testInvalid(t *testing.T, w *suite.World) {
	c := w.Client(t, recipetest.Options{})
	_, err := election.New(c, "", nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = election.New(c, name, &election.Options{Label: "a\nb"})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	e := elections(t, c, nil)
	require.Equal(t, name, e.Name())
	for _, value := range []string{"\xff", strings.Repeat("x", 9<<10)} {
		_, err = e.Campaign(suite.Within(t), value)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	lead := elect(t, e, strings.Repeat("\n", 8<<10))
	require.ErrorIs(t, lead.Proclaim(suite.Within(t), "\xff"), recipes.ErrInvalid)
	resign(t, lead)
	require.ErrorIs(t, election.Run(suite.Within(t), e, nil, nil), recipes.ErrInvalid)
	work := func(context.Context, *election.Lead) error { return nil }
	require.ErrorIs(t, election.Run(suite.Within(t), e, work, &election.RunOptions{Pause: -1}), recipes.ErrInvalid)
}
