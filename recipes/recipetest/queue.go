package recipetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func workQueue[T any](t testing.TB, c *recipes.Client, opts *recipes.QueueOptions) *recipes.Queue[T] {
	t.Helper()
	q, err := recipes.NewQueue[T](c, "work", opts)
	require.NoError(t, err)
	return q
}

func put[T any](t testing.TB, q *recipes.Queue[T], value T, opts *recipes.PutOptions) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := q.Put(ctx, value, opts)
	require.NoError(t, err)
	return id
}

// take takes, and fails the test if that takes too long.
func take[T any](t testing.TB, q *recipes.Queue[T]) *recipes.Item[T] {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	item, err := q.Take(ctx)
	require.NoError(t, err)
	return item
}

func ack[T any](t testing.TB, item *recipes.Item[T]) {
	t.Helper()
	require.NoError(t, item.Ack(context.Background()))
}

func length[T any](t testing.TB, q *recipes.Queue[T]) int {
	t.Helper()
	n, err := q.Len(context.Background())
	require.NoError(t, err)
	return n
}

// testQueueWorkers has several workers in two clients: each item goes to one of
// them at a time, and is acknowledged once. Some are returned.
func testQueueWorkers(t *testing.T, w *world) {
	const items, workers = 12, 3
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	busy, acked := map[int]bool{}, map[int]int{}
	work := func(item *recipes.Item[int]) {
		mu.Lock()
		if busy[item.Value] {
			t.Errorf("item %d is worked on twice", item.Value)
		}
		busy[item.Value] = true
		mu.Unlock()
		time.Sleep(rand.N(2 * time.Millisecond)) // so that workers meet
		mu.Lock()
		defer mu.Unlock()
		busy[item.Value] = false
		if item.Attempt() == 1 && item.Value%4 == 0 {
			return
		}
		acked[item.Value]++
	}
	var wg sync.WaitGroup
	for range 2 {
		q := workQueue[int](t, w.client(t, Options{}), nil)
		for range workers {
			wg.Go(func() {
				for {
					item, err := q.Take(ctx)
					if err != nil {
						return
					}
					work(item)
					if item.Attempt() == 1 && item.Value%4 == 0 {
						err = item.Return(context.Background(), 0)
					} else {
						err = item.Ack(context.Background())
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	q := workQueue[int](t, w.client(t, Options{}), nil)
	for i := range items {
		put(t, q, i, nil)
	}
	eventually(t, "an empty queue", func() bool { return length(t, q) == 0 })
	cancel()
	wg.Wait()
	require.Len(t, acked, items)
	for i, n := range acked {
		require.Equal(t, 1, n, "item %d", i)
	}
	dead, err := q.DeadLetters(context.Background())
	require.NoError(t, err)
	require.Empty(t, dead)
}

func testQueueOrder(t *testing.T, w *world) {
	ctx := context.Background()
	a := w.client(t, Options{Label: "a"})
	q := workQueue[string](t, a, nil)
	other, err := recipes.NewQueue[string](a, "work/other", nil)
	require.NoError(t, err)
	put(t, other, "of another queue", &recipes.PutOptions{Priority: 99})
	for _, value := range []string{"first", "second", "third"} {
		put(t, q, value, nil)
	}
	put(t, q, "low", &recipes.PutOptions{Priority: -1})
	urgent := put(t, q, "urgent", &recipes.PutOptions{Priority: 5, ID: "u/1"})
	require.Equal(t, "u/1", urgent)
	require.Equal(t, urgent, put(t, q, "the same", &recipes.PutOptions{ID: urgent}), "an ID is there once")

	b := workQueue[string](t, w.client(t, Options{Label: "b"}), nil)
	item := take(t, b)
	require.Equal(t, "urgent", item.Value)
	require.Equal(t, urgent, item.ID())
	require.Equal(t, 1, item.Attempt())
	first := take(t, b)
	require.Equal(t, "first", first.Value)

	list, err := q.List(ctx)
	require.NoError(t, err)
	var values []string
	for _, i := range list {
		values = append(values, i.Value)
	}
	require.Equal(t, []string{"urgent", "first", "second", "third", "low"}, values)
	require.Equal(t, "b", list[0].Worker.Label)
	require.Equal(t, "a", list[0].By.Label)
	require.Equal(t, 1, list[0].Attempts)
	require.Nil(t, list[2].Worker)

	require.NoError(t, first.Return(ctx, 0))
	list, err = q.List(ctx)
	require.NoError(t, err)
	require.Zero(t, list[1].Due, "without a delay, no clock decides when it is due")
	require.NoError(t, first.Ack(ctx), "does nothing after Return")
	require.Error(t, first.Context().Err())
	again := take(t, workQueue[string](t, a, nil)) // with a view as of now
	require.Equal(t, "first", again.Value, "what is returned keeps its place")
	require.Equal(t, 2, again.Attempt())
	require.Greater(t, again.Token(), first.Token())
	ack(t, again)
	ack(t, item)
	for _, value := range []string{"second", "third", "low"} {
		next := take(t, b)
		require.Equal(t, value, next.Value)
		ack(t, next)
		ack(t, next)
	}
	require.Zero(t, length(t, q))
	require.Equal(t, 1, length(t, other))
}

func testQueueDelay(t *testing.T, w *world) {
	const delay = 300 * time.Millisecond
	q := workQueue[string](t, w.client(t, Options{}), nil)
	start := time.Now()
	put(t, q, "later", &recipes.PutOptions{Delay: delay, Priority: 1})
	put(t, q, "now", nil)
	item := take(t, q)
	if item.Value == "later" { // on a machine that is slow enough
		require.GreaterOrEqual(t, time.Since(start), delay)
	}
	ack(t, item)
	item = take(t, q)
	require.GreaterOrEqual(t, time.Since(start), delay)
	start = time.Now()
	require.NoError(t, item.Return(context.Background(), delay))
	item = take(t, q)
	require.GreaterOrEqual(t, time.Since(start), delay)
	require.Equal(t, 2, item.Attempt())
	ack(t, item)
}

func testQueueWorkerDies(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	qa, qb := workQueue[string](t, a, nil), workQueue[string](t, b, nil)
	id := put(t, qa, "hard", nil)
	item := take(t, qa)
	next := make(chan *recipes.Item[string], 1)
	go func() {
		item, err := qb.Take(context.Background())
		if err != nil {
			t.Error(err)
		}
		next <- item
	}()
	w.server.Expire(t, a.SessionID())
	await(t, item.Context().Done(), "the worker to learn that its session is over")
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(item.Context()), &lost)
	require.Equal(t, recipes.LostSession, lost.Reason)
	again := <-next
	require.NotNil(t, again)
	require.Equal(t, id, again.ID())
	require.Equal(t, 2, again.Attempt())
	require.Greater(t, again.Token(), item.Token())
	require.ErrorIs(t, item.Ack(context.Background()), recipes.ErrLost)
	require.ErrorIs(t, item.Return(context.Background(), 0), recipes.ErrLost)
	require.NoError(t, again.Context().Err())
	require.True(t, again.Deadline().After(time.Now()))
	ack(t, again)
	require.Zero(t, length(t, qb))
}

func testQueueDeadLetters(t *testing.T, w *world) {
	ctx := context.Background()
	c, observer := w.client(t, Options{}), w.client(t, Options{})
	opts := &recipes.QueueOptions{MaxAttempts: 2}
	// A new queue has a view as of now, so that items come in order for sure.
	take := func() *recipes.Item[int] { return take(t, workQueue[int](t, c, opts)) }
	q, seen := workQueue[int](t, c, opts), workQueue[int](t, observer, opts)
	returned, died := put(t, q, 1, nil), put(t, q, 2, nil)
	_, err := workQueue[string](t, c, nil).Put(ctx, "not a number", &recipes.PutOptions{ID: "text"})
	require.NoError(t, err)
	fine := put(t, q, 3, nil)
	for range 2 {
		item := take()
		require.Equal(t, returned, item.ID())
		require.NoError(t, item.Return(ctx, 0))
	}
	for range 2 {
		item := take()
		require.Equal(t, died, item.ID())
		w.server.Expire(t, c.SessionID())
		await(t, item.Context().Done(), "the worker to learn of it")
	}
	item := take()
	require.Equal(t, fine, item.ID())
	ack(t, item)
	require.Zero(t, length(t, seen))
	dead, err := seen.DeadLetters(ctx)
	require.NoError(t, err)
	require.Len(t, dead, 3)
	require.Equal(t, returned, dead[0].ID)
	require.Contains(t, dead[0].Dead, "returned in attempt 2")
	require.Contains(t, dead[1].Dead, "lost in attempt 2")
	require.Contains(t, dead[2].Dead, "not a int")
	require.JSONEq(t, `"not a number"`, string(dead[2].Raw))

	require.NoError(t, seen.Remove(ctx, "text"))
	require.ErrorIs(t, seen.Remove(ctx, "text"), recipes.ErrConflict)
	require.NoError(t, seen.Revive(ctx, died))
	require.ErrorIs(t, seen.Revive(ctx, died), recipes.ErrConflict)
	item = take()
	require.Equal(t, died, item.ID())
	require.Equal(t, 1, item.Attempt())
	ack(t, item)
}

func testQueueCancel(t *testing.T, w *world) {
	q := workQueue[int](t, w.client(t, Options{}), nil)
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := q.Take(ctx)
			results <- err
		}()
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	for range 3 {
		err := <-results
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, recipes.ErrHeld)
	}
	put(t, q, 1, nil)
	ack(t, take(t, q))
}

// testQueueTakeOutlivesSession ends the session of a worker that waits.
func testQueueTakeOutlivesSession(t *testing.T, w *world) {
	c, other := w.client(t, Options{}), w.client(t, Options{})
	q := workQueue[int](t, c, nil)
	done := make(chan *recipes.Item[int], 1)
	go func() {
		item, err := q.Take(context.Background())
		if err != nil {
			t.Error(err)
		}
		done <- item
	}()
	eventually(t, "a session", func() bool { return c.SessionID() != "" })
	w.server.Expire(t, c.SessionID())
	put(t, workQueue[int](t, other, nil), 7, nil)
	select {
	case item := <-done:
		require.Equal(t, 7, item.Value)
		ack(t, item)
	case <-time.After(patience):
		t.Fatal("Take did not go on with a new session")
	}
}

// testQueueClose closes a client that has an item and waits for another.
func testQueueClose(t *testing.T, w *world) {
	c := w.server.Open(t, Options{Root: w.root, TTL: calmTTL})
	q, other := workQueue[int](t, c, nil), workQueue[int](t, w.client(t, Options{}), nil)
	id := put(t, q, 1, nil)
	item := take(t, q)
	waiting := make(chan error, 1)
	go func() {
		_, err := q.Take(context.Background())
		waiting <- err
	}()
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-waiting, recipes.ErrClosed)
	require.ErrorIs(t, context.Cause(item.Context()), recipes.ErrClosed)
	require.ErrorIs(t, item.Ack(context.Background()), recipes.ErrLost)
	_, err := q.Put(context.Background(), 2, nil)
	require.ErrorIs(t, err, recipes.ErrClosed)
	again := take(t, other)
	require.Equal(t, id, again.ID())
	require.Equal(t, 2, again.Attempt())
	ack(t, again)
	require.Zero(t, length(t, other))
}

func testQueueInvalid(t *testing.T, w *world) {
	ctx := context.Background()
	c := w.client(t, Options{})
	for _, name := range []string{"", "a\nb", strings.Repeat("x", 448)} {
		_, err := recipes.NewQueue[int](c, name, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%q", name)
	}
	_, err := recipes.NewQueue[int](c, "q", &recipes.QueueOptions{MaxAttempts: -1})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	q, err := recipes.NewQueue[any](c, strings.Repeat("x", 447), nil)
	require.NoError(t, err)
	for _, opts := range []recipes.PutOptions{{Delay: -1}, {ID: "a\x00b"}, {ID: strings.Repeat("x", 65)}} {
		_, err = q.Put(ctx, 1, &opts)
		require.ErrorIs(t, err, recipes.ErrInvalid)
	}
	_, err = q.Put(ctx, func() {}, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = q.Put(ctx, strings.Repeat("x", 300<<10), nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	require.ErrorIs(t, q.Remove(ctx, ""), recipes.ErrInvalid)
	put(t, q, any(1), &recipes.PutOptions{ID: strings.Repeat("ü", 32)})
	item := take(t, q)
	require.ErrorIs(t, item.Return(ctx, -1), recipes.ErrInvalid)
	ack(t, item)
}

// testCostOfQueue has ten workers wait for one item: one of them runs for it.
func testCostOfQueue(t *testing.T, w *world) {
	const workers = 10
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan *recipes.Item[int], workers)
	var wg sync.WaitGroup
	clients := []*recipes.Client{w.client(t, Options{TTL: costTTL}), w.client(t, Options{TTL: costTTL})}
	putter := workQueue[int](t, clients[0], nil)
	put(t, putter, 0, nil)
	ack(t, take(t, putter)) // makes what stays
	w.settle(t)
	before := w.server.Cost(t)
	for i := range workers {
		q := workQueue[int](t, clients[i%2], nil)
		wg.Go(func() {
			if item, err := q.Take(ctx); err == nil {
				got <- item
			}
		})
	}
	eventually(t, "all workers in line", func() bool {
		return w.server.Cost(t).Sub(before).Commits >= workers
	})
	w.settle(t)
	before = w.server.Cost(t)
	put(t, putter, 1, nil)
	item := <-got
	w.settle(t)
	taken := w.server.Cost(t).Sub(before)
	ack(t, item)
	w.settle(t)
	all := w.server.Cost(t).Sub(before)
	t.Logf("put and take among %d workers: %+v; with ack: %+v", workers, taken, all)
	// The item, its claim, its attempt, out of the line; and the nodes for entries.
	require.LessOrEqual(t, taken.Commits, 4+4, "commits")
	require.Equal(t, 2, all.Commits-taken.Commits, "commits of Ack")
	require.LessOrEqual(t, all.Reads, 60, "reads")
	cancel()
	wg.Wait()
}
