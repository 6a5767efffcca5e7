package electiontest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
)

func testRun(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	_, b := candidate(t, w, "b")
	failure := errors.New("work failed")
	for _, want := range []error{nil, failure} {
		err := election.Run(suite.Within(t), a, func(ctx context.Context, lead *election.Lead) error {
			require.NoError(t, ctx.Err())
			leader, err := b.Leader(ctx)
			require.NoError(t, err)
			require.Equal(t, "here", leader.Value)
			require.Equal(t, lead.Term(), leader.Term)
			return want
		}, &election.RunOptions{Value: "here"})
		require.ErrorIs(t, err, want)
		suite.Queued(t, ca, name, 0)
	}
	require.PanicsWithValue(t, "work", func() {
		_ = election.Run(suite.Within(t), a, func(context.Context, *election.Lead) error { panic("work") }, nil)
	})
	suite.Queued(t, ca, name, 0)

	ctx, cancel := context.WithCancelCause(suite.Within(t))
	stopping := errors.New("stopping")
	err := election.Run(ctx, a, func(ctx context.Context, _ *election.Lead) error {
		cancel(stopping)
		suite.Await(t, ctx.Done(), "the work to be told")
		require.ErrorIs(t, context.Cause(ctx), stopping)
		return nil
	}, nil)
	require.NoError(t, err, "the work has ended as it should")
	lead := elect(t, b, "")
	waiting, stop := context.WithTimeout(suite.Within(t), 20*time.Millisecond)
	defer stop()
	err = election.Run(waiting, a, func(context.Context, *election.Lead) error { return failure }, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	resign(t, lead)
}

// testRunAgain loses the lead, gives it up, and leads again each time.
func testRunAgain(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	ctx, cancel := context.WithCancel(suite.Within(t))
	var terms []uint64
	var views []election.View
	options := &election.RunOptions{
		Again: true, Pause: time.Millisecond, Value: "x",
		Observe: func(v election.View) { views = append(views, v) },
	}
	err := election.Run(ctx, a, func(ctx context.Context, lead *election.Lead) error {
		terms = append(terms, lead.Term())
		switch len(terms) {
		case 1:
			w.Server.Expire(t, ca.SessionID())
			suite.Await(t, ctx.Done(), "the lead to be lost")
			return ctx.Err()
		case 2:
			return nil
		case 3:
			w.Server.Remove(t, w.Root, name)
			return nil // without knowing
		}
		cancel()
		return nil
	}, options)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, terms, 4)
	require.IsIncreasing(t, terms)
	for _, v := range views {
		require.True(t, v.State != election.Led || v.Leader.Value == "x", tell(views...))
	}
	failure := errors.New("work failed")
	err = election.Run(suite.Within(t), a, func(context.Context, *election.Lead) error { return failure }, options)
	require.ErrorIs(t, err, failure)
	suite.Queued(t, ca, name, 0)
}

// testRunDrains ends the context of Run: nobody else is elected before the work and
// what it has started have ended.
func testRunDrains(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	_, b := candidate(t, w, "b")
	ctx, cancel := context.WithCancel(suite.Within(t))
	leading, returned, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- election.Run(ctx, a, func(ctx context.Context, lead *election.Lead) error {
			lead.Go(func(context.Context) { <-stop })
			close(leading)
			<-ctx.Done()
			close(returned)
			return nil
		}, nil)
	}()
	suite.Await(t, leading, "the lead")
	next := campaignAside(suite.Within(t), b, "")
	suite.Queued(t, ca, name, 2)
	cancel()
	suite.Await(t, returned, "the work to be told")
	suite.Entered(t, ca)
	require.True(t, next.waiting())
	close(stop)
	require.NoError(t, <-ended)
	require.NoError(t, next.wait(t).err)
	resign(t, next.lead)
}

func testRunLost(t *testing.T, w *suite.World) {
	ca, a := candidate(t, w, "a")
	err := election.Run(suite.Within(t), a, func(ctx context.Context, _ *election.Lead) error {
		w.Server.Expire(t, ca.SessionID())
		suite.Await(t, ctx.Done(), "the lead to be lost")
		require.ErrorIs(t, context.Cause(ctx), recipes.ErrLost)
		return nil
	}, nil)
	require.ErrorIs(t, err, recipes.ErrLost, "although the work did not say so")
	require.NoError(t, ca.Close())
	work := func(context.Context, *election.Lead) error { return nil }
	require.ErrorIs(t, election.Run(suite.Within(t), a, work, &election.RunOptions{Again: true}), recipes.ErrClosed)
	for _, err := range a.Observe(suite.Within(t)) {
		require.ErrorIs(t, err, recipes.ErrClosed)
	}
	_, err = a.Leader(suite.Within(t))
	require.ErrorIs(t, err, recipes.ErrClosed)
}
