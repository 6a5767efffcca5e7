package recipetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// testQueueAckAfterLoss acknowledges while the worker does not know yet that
// another has the item.
func testQueueAckAfterLoss(t *testing.T, w *world) {
	link := w.server.Link(t)
	a, b := w.client(t, Options{Link: link, TTL: costTTL}), w.client(t, Options{})
	qa, qb := workQueue[string](t, a, nil), workQueue[string](t, b, nil)
	put(t, qb, "hard", nil)
	item := take(t, qa)
	id := a.SessionID()
	link.StallBoth()
	w.server.Expire(t, id)
	again := take(t, qb)
	require.ErrorIs(t, item.Ack(item.Context()), recipes.ErrLost, "the service does not answer, and the claim is lost meanwhile")
	result := make(chan error, 1)
	go func() { result <- item.Ack(context.Background()) }()
	link.Resume()
	require.ErrorIs(t, <-result, recipes.ErrLost)
	list, err := qb.List(context.Background())
	require.NoError(t, err)
	require.Len(t, list, 1, "the late worker touched nothing")
	require.NotNil(t, list[0].Worker)
	ack(t, again)
	require.Zero(t, length(t, qb))
}

// testQueueAckAfterAnothersAck acknowledges an item that another has acknowledged meanwhile,
// by a request that may have been carried out or not.
func testQueueAckAfterAnothersAck(t *testing.T, w *world) {
	link := w.server.Link(t)
	a, b := w.client(t, Options{Link: link, TTL: costTTL}), w.client(t, Options{})
	qa, qb := workQueue[string](t, a, nil), workQueue[string](t, b, nil)
	put(t, qb, "hard", nil)
	item := take(t, qa)
	id := a.SessionID()
	link.StallRequests()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, item.Ack(ctx), recipes.ErrUnavailable)
	w.server.Expire(t, id)
	ack(t, take(t, qb))
	await(t, item.Context().Done(), "the claim to be lost")
	link.Cut()
	link.Resume()
	require.ErrorIs(t, item.Ack(within(t)), recipes.ErrLost)
	require.Zero(t, length(t, qb))
}

// testQueueLostReply loses the replies to every kind of call.
func testQueueLostReply(t *testing.T, w *world) {
	link := w.server.Link(t)
	q, observer := workQueue[int](t, w.client(t, Options{Link: link}), nil), workQueue[int](t, w.client(t, Options{}), nil)
	put(t, q, -1, nil)
	ack(t, take(t, q))          // opens the session
	for i := range rounds / 3 { // of three losses each
		link.LoseReply()
		put(t, q, i, nil)
		require.Equal(t, 1, length(t, observer), "one item")
		link.LoseReply()
		item := take(t, q)
		require.Equal(t, i, item.Value)
		require.Equal(t, 1, item.Attempt())
		link.LoseReply()
		ack(t, item)
		require.Zero(t, length(t, observer))
	}
}

// testQueueSettlesInTheBackground has the service answer when the worker does not wait for it
// any more: what it said of its items becomes so all the same.
func testQueueSettlesInTheBackground(t *testing.T, w *world) {
	link := w.server.Link(t)
	q, other := workQueue[int](t, w.client(t, Options{Link: link, TTL: costTTL}), nil), workQueue[int](t, w.client(t, Options{}), nil)
	put(t, other, 1, nil)
	put(t, other, 2, nil)
	done, returned := take(t, q), take(t, q)
	link.StallBoth()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for _, err := range []error{done.Ack(ctx), returned.Return(ctx, 0)} {
		require.ErrorIs(t, err, recipes.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, done.Context().Err(), "it may not be so yet")
	link.Resume()
	again := take(t, other)
	require.Equal(t, returned.ID(), again.ID())
	require.Equal(t, 2, again.Attempt())
	ack(t, again)
	await(t, done.Context().Done(), "the other item to be acknowledged")
	require.NoError(t, done.Ack(within(t)))
	require.NoError(t, returned.Return(within(t), time.Hour))
	require.Zero(t, length(t, other))
}

// testQueueCut breaks the connection of the worker that waits, and puts meanwhile.
func testQueueCut(t *testing.T, w *world) {
	link := w.server.Link(t)
	c := w.client(t, Options{Link: link})
	q, putter := workQueue[int](t, c, nil), workQueue[int](t, w.client(t, Options{}), nil)
	for i := range 3 {
		done := make(chan *recipes.Item[int], 1)
		go func() {
			item, err := q.Take(context.Background())
			if err != nil {
				t.Error(err)
			}
			done <- item
		}()
		eventually(t, "a session", func() bool { return c.SessionID() != "" })
		link.Cut()
		put(t, putter, i, nil)
		item := <-done
		require.NotNil(t, item)
		require.Equal(t, i, item.Value)
		require.Equal(t, 1, item.Attempt())
		ack(t, item)
	}
}
