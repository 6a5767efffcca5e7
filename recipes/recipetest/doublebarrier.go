package recipetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func doubleBarrier(t testing.TB, c *recipes.Client, name string, count int) *recipes.DoubleBarrier {
	t.Helper()
	b, err := c.DoubleBarrier(name, count)
	require.NoError(t, err)
	return b
}

// entering is a call to Enter that runs while the test goes on.
type entering struct {
	*attempt
	crossing *recipes.Crossing
}

func enterAside(ctx context.Context, b *recipes.DoubleBarrier) *entering {
	e := &entering{}
	e.attempt = waitAside(func() (err error) {
		e.crossing, err = b.Enter(ctx)
		return err
	})
	return e
}

func (e *entering) inside(t testing.TB) *recipes.Crossing {
	t.Helper()
	e.wait(t)
	require.NoError(t, e.err)
	return e.crossing
}

func leaveAside(c *recipes.Crossing) *attempt {
	return waitAside(func() error { return c.Leave(context.Background()) })
}

// stays fails the test if the call returns within a while. A call that is wrong to
// return may take longer on a busy machine, and is then not noticed here.
func (a *attempt) stays(t testing.TB, why string) {
	t.Helper()
	select {
	case <-a.done:
		t.Fatalf("returned %v: %s", a.err, why)
	case <-time.After(150 * time.Millisecond):
	}
}

func testDoubleBarrier(t *testing.T, w *world) {
	ctx := context.Background()
	ba, bb := doubleBarrier(t, w.client(t, Options{}), "double", 3), doubleBarrier(t, w.client(t, Options{}), "double", 3)
	first, second := enterAside(ctx, ba), enterAside(ctx, bb)
	first.stays(t, "two of three are there")
	require.True(t, second.waiting())
	third := enterAside(ctx, ba)
	c1, c2, c3 := first.inside(t), second.inside(t), third.inside(t)
	late := enterAside(ctx, bb)
	late.stays(t, "the round has its members")
	_, err := ba.Enter(c1.Context())
	require.ErrorIs(t, err, recipes.ErrDeadlock)
	require.True(t, c1.Deadline().After(time.Now()))

	l1, l2 := leaveAside(c1), leaveAside(c2)
	l1.stays(t, "one is inside still")
	early := enterAside(ctx, ba) // for the next round, while this one lasts
	early.stays(t, "the round is not over")
	require.True(t, l2.waiting())
	require.ErrorIs(t, c1.Leave(ended()), context.Canceled)
	require.NoError(t, c3.Leave(ctx))
	require.NoError(t, l1.wait(t).err)
	require.NoError(t, l2.wait(t).err)
	require.NoError(t, c1.Leave(ctx), "again")
	require.True(t, late.waiting() && early.waiting(), "two of three")
	last := enterAside(ctx, bb)
	var leaving []*attempt
	for _, e := range []*entering{late, early, last} {
		leaving = append(leaving, leaveAside(e.inside(t)))
	}
	for _, l := range leaving {
		require.NoError(t, l.wait(t).err)
	}

	c := w.client(t, Options{})
	_, err = doubleBarrier(t, c, "double", 2).Enter(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict)
	_, err = c.DoubleBarrier("double", 0)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = c.DoubleBarrier("", 2)
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

// testDoubleBarrierRounds has members go through several rounds without a pause:
// they begin each together and end each together.
func testDoubleBarrierRounds(t *testing.T, w *world) {
	const members, turns = 3, 4
	var came, left atomic.Int32
	var wg sync.WaitGroup
	for range members {
		b := doubleBarrier(t, w.client(t, Options{}), "rounds", members)
		wg.Go(func() {
			for turn := range int32(turns) {
				came.Add(1)
				c, err := b.Enter(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if n := came.Load(); n != members*(turn+1) {
					t.Errorf("round %d began when %d had come", turn, n)
				}
				left.Add(1)
				if err := c.Leave(context.Background()); err != nil {
					t.Error(err)
				}
				if n := left.Load(); n < members*(turn+1) {
					t.Errorf("round %d ended when %d had left", turn, n)
				}
			}
		})
	}
	wg.Wait()
}

// testDoubleBarrierGiveUp has members give up, just as the last one comes: either
// both are inside, or neither is.
func testDoubleBarrierGiveUp(t *testing.T, w *world) {
	ba, bb := doubleBarrier(t, w.client(t, Options{}), "give-up", 2), doubleBarrier(t, w.client(t, Options{}), "give-up", 2)
	for i := range 8 {
		ctx, cancel := context.WithCancel(context.Background())
		gives, stays := enterAside(ctx, ba), enterAside(context.Background(), bb)
		pause := time.Duration(i) * time.Millisecond
		time.Sleep(pause) // so that it hits at different moments
		cancel()
		gives.wait(t)
		if gives.err == nil {
			leaving := leaveAside(gives.crossing)
			require.NoError(t, stays.inside(t).Leave(context.Background()))
			require.NoError(t, leaving.wait(t).err)
			continue
		}
		require.ErrorIs(t, gives.err, context.Canceled)
		stays.stays(t, "the other was not counted")
		third := enterAside(context.Background(), ba)
		leaving := leaveAside(third.inside(t))
		require.NoError(t, stays.inside(t).Leave(context.Background()))
		require.NoError(t, leaving.wait(t).err)
	}
}

// testDoubleBarrierDeath ends the sessions of a member that waits and of one inside.
func testDoubleBarrierDeath(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	ba, bb := doubleBarrier(t, a, "death", 2), doubleBarrier(t, b, "death", 2)
	dies := enterAside(ctx, ba)
	dies.stays(t, "it is alone")
	expired := ""
	eventually(t, "the member to learn of its loss", func() bool {
		if id := a.SessionID(); id != "" && id != expired { // it enters anew if it was not in line yet
			w.server.Expire(t, id)
			expired = id
		}
		return !dies.waiting()
	})
	require.ErrorIs(t, dies.err, recipes.ErrLost)
	waits := enterAside(ctx, bb)
	waits.stays(t, "the other has died")
	again := enterAside(ctx, ba).inside(t)
	stays := waits.inside(t)
	leaving := leaveAside(stays)
	leaving.stays(t, "the other is inside")
	w.server.Expire(t, a.SessionID())
	await(t, again.Context().Done(), "the member to learn of its loss")
	require.NoError(t, leaving.wait(t).err, "who died has left")
	require.ErrorIs(t, again.Leave(ctx), recipes.ErrLost)
}
