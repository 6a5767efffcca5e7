package recipetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// testPartitionMoves has members join, leave and crash: only what must moves, and
// each shard has one owner at a time.
func testPartitionMoves(t *testing.T, w *world) {
	f := newFleet(t)
	observer := partition(t, w.client(t, Options{}), nil)
	a := f.join(w.client(t, Options{}), "a")
	f.shows("a")
	starts := shardCount
	require.Equal(t, starts, f.begun())
	step := func(from, to string) {
		t.Helper()
		f.shows(to)
		starts += moved(from, to)
		require.Equal(t, starts, f.begun(), "from %q to %q only what must moves", from, to)
		owners, next := seen(t, observer)
		require.Equal(t, shares[to], owners)
		require.Equal(t, shares[""], next)
	}
	b := f.join(w.client(t, Options{}), "b")
	step("a", "ab")
	c := f.join(w.client(t, Options{}), "c")
	step("ab", "abc")
	b.stop(t)
	step("abc", "ac")
	b = f.join(w.client(t, Options{}), "b")
	step("ac", "abc") // with its name it gets what it had

	f.kill("a")
	f.mu.Lock()
	a.onError = func(error) { a.cancel(errStopping) } // it does not come back
	f.mu.Unlock()
	w.server.Expire(t, a.client.SessionID())
	await(t, a.done, "the member that crashed to notice")
	step("abc", "bc")
	c.stop(t)
	step("bc", "b")
	b.stop(t)
	owners, next := seen(t, observer)
	require.Equal(t, shares[""], owners+next[:0])
	require.Equal(t, shares[""], next)
}

// testPartitionChurn has four members come, go and lose their sessions at random: no
// two own a shard at a time, and in the end each shard has its owner.
func testPartitionChurn(t *testing.T, w *world) {
	f := newFleet(t)
	stay := f.join(w.client(t, Options{}), "a")
	var churning sync.WaitGroup
	for _, name := range []string{"b", "c"} {
		c := w.client(t, Options{})
		churning.Go(func() {
			for range 6 {
				h := f.join(c, name)
				time.Sleep(rand.N(3 * shortSettle)) // so that it is at any stage
				h.cancel(errStopping)
				<-h.done
			}
		})
	}
	f.kill("a")
	last := ""
	for range 3 {
		time.Sleep(rand.N(6 * shortSettle)) // likewise
		eventually(t, "a new session", func() bool { return stay.client.SessionID() != "" && stay.client.SessionID() != last })
		last = stay.client.SessionID()
		w.server.Expire(t, last)
	}
	churning.Wait()
	f.shows("a")
	b := f.join(w.client(t, Options{}), "b")
	f.shows("ab")
	b.stop(t)
	f.shows("a")
}

// testPartitionDrain has a member whose work does not stop when it should: it keeps
// each shard until the work on that one has stopped.
func testPartitionDrain(t *testing.T, w *world) {
	f := newFleet(t)
	observer := partition(t, w.client(t, Options{}), nil)
	a := f.join(w.client(t, Options{}), "a")
	f.shows("a")
	f.linger()
	f.join(w.client(t, Options{}), "b")
	moves := moved("a", "ab")
	f.asked("a", moves)
	waiting := strings.ReplaceAll(shares["ab"], "a", ".")
	eventually(t, "b to wait for its shards", func() bool {
		_, next := seen(t, observer)
		return next == waiting
	})
	owners, _ := seen(t, observer)
	require.Equal(t, shares["a"], owners)
	require.Equal(t, shares["a"], f.owners())

	one := strings.IndexByte(shares["ab"], 'b')
	f.release(one)
	f.becomes("b" + strings.Repeat("a", shardCount-1))
	require.Equal(t, 0, one)
	require.Equal(t, shardCount+1, f.begun())

	// The member that ends keeps what is worked on, and others wait for all of it.
	a.cancel(errStopping)
	f.asked("a", shardCount)
	eventually(t, "b to wait for all", func() bool {
		_, next := seen(t, observer)
		return next == "."+strings.Repeat("b", shardCount-1)
	})
	f.release(5)
	f.becomes("baaaabaaaaaaaaaa")
	select {
	case <-a.done:
		t.Fatal("Run returned while work goes on")
	default:
	}
	f.release()
	f.shows("b")
	await(t, a.done, "the member to end")
	require.ErrorIs(t, a.err, errStopping)
	require.NotErrorIs(t, a.err, recipes.ErrLost)
	require.Equal(t, 2*shardCount, f.begun())
}

// testPartitionMismatch has members of several minds about the number of shards.
func testPartitionMismatch(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f := newFleet(t)
	a := f.join(w.client(t, Options{}), "a")
	f.shows("a")
	f.linger()
	idle := func(context.Context, *recipes.Shard) error { return nil }
	c := w.client(t, Options{})
	other, err := c.Partition(partitionName, 2*shardCount, &recipes.PartitionOptions{Settle: 1})
	require.NoError(t, err)
	refused := func() {
		t.Helper()
		err := other.Run(ctx, idle)
		require.ErrorIs(t, err, recipes.ErrConflict)
		require.ErrorContains(t, err, "16 shards, not 32")
	}
	refused()
	_, err = other.Owners(ctx)
	require.ErrorIs(t, err, recipes.ErrConflict)
	err = nil
	for _, watchErr := range other.Watch(ctx) {
		err = watchErr
	}
	require.ErrorIs(t, err, recipes.ErrConflict)

	a.cancel(errStopping)
	f.asked("a", shardCount)
	refused() // for as long as any work of the old number runs
	require.Equal(t, shardCount, f.begun())
	f.release()
	await(t, a.done, "the member to end")

	working := make(chan int, 2*shardCount)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- other.Run(running, func(_ context.Context, shard *recipes.Shard) error {
			working <- shard.Index()
			return nil
		})
	}()
	eventually(t, "all shards to be worked on", func() bool { return len(working) == 2*shardCount })
	owners, err := other.Owners(ctx)
	require.NoError(t, err)
	require.Len(t, owners, 2*shardCount)
	require.ErrorIs(t, partition(t, c, nil).Run(ctx, idle), recipes.ErrConflict)
	stop()
	require.ErrorIs(t, <-done, context.Canceled)
}

// testPartitionLoss cuts a member off until its session is over: its contexts end
// before another owns the shards, and it comes back.
func testPartitionLoss(t *testing.T, w *world) {
	link := w.server.Link(t)
	f := newFleet(t)
	f.join(w.client(t, Options{TTL: costTTL, Link: link}), "a")
	f.shows("a")
	f.join(w.client(t, Options{}), "b")
	f.shows("ab")
	link.StallBoth()
	f.shows("b")
	f.mu.Lock()
	for i, owner := range shares["ab"] {
		if owner == 'a' && !f.lost[i].Before(f.replaced[i]) {
			t.Errorf("shard %d had another owner %v before the loss was known", i, f.lost[i].Sub(f.replaced[i]))
		}
	}
	f.mu.Unlock()
	link.Resume()
	f.shows("ab")
}

// testPartitionExpire ends the session of a member, which comes back and gets what it
// had; nothing of others moves.
func testPartitionExpire(t *testing.T, w *world) {
	f := newFleet(t)
	a := f.join(w.client(t, Options{}), "a")
	f.shows("a")
	b := f.join(w.client(t, Options{}), "b")
	f.shows("ab")
	tokens := f.tokens()
	f.kill("b")
	told := make(chan error, 100)
	f.mu.Lock()
	b.onError = func(err error) { told <- err }
	f.mu.Unlock()
	old := b.client.SessionID()
	w.server.Expire(t, old)
	eventually(t, "the member to be told", func() bool { return len(told) > 0 })
	var lost *recipes.LostError
	require.ErrorAs(t, <-told, &lost)
	require.NotEqual(t, recipes.LostBroken, lost.Reason, "nobody broke it")
	eventually(t, "a new session", func() bool { return b.client.SessionID() != "" && b.client.SessionID() != old })
	f.shows("ab")
	for i, token := range f.tokens() {
		if shares["ab"][i] == 'a' {
			require.Equal(t, tokens[i], token, "shard %d stayed", i)
		}
	}
	require.Zero(t, f.count(func() int { return a.errs }))
}

// tokens are the latest tokens of the shards.
func (f *fleet) tokens() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	tokens := make([]uint64, shardCount)
	for i := range tokens {
		tokens[i] = f.last[i]
	}
	return tokens
}

// testPartitionStandBy has two members of one name: the second gets what the first
// had, and nothing else moves.
func testPartitionStandBy(t *testing.T, w *world) {
	f := newFleet(t)
	f.join(w.client(t, Options{}), "b")
	f.shows("b")
	first := f.join(w.client(t, Options{}), "a")
	f.shows("ab")
	second := w.client(t, Options{})
	f.join(second, "a")
	begun := f.begun()
	observer := partition(t, w.client(t, Options{}), nil)
	eventually(t, "the second's session", func() bool { return second.SessionID() != "" })
	first.stop(t)
	f.shows("ab")
	require.Equal(t, begun+moved("b", "ab"), f.begun())
	list, err := observer.Owners(context.Background())
	require.NoError(t, err)
	for _, o := range list {
		if o.Member == "a" {
			require.Equal(t, second.SessionID(), o.Session)
		}
	}
}

// testPartitionWork has work that fails, that ends, and that is told to stop.
func testPartitionWork(t *testing.T, w *world) {
	failure := errors.New("work failed")
	var mu sync.Mutex
	calls, told := map[int]int{}, []error{}
	p := partition(t, w.client(t, Options{}), &recipes.PartitionOptions{
		Settle: 1,
		OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		},
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	tokens := map[int]uint64{}
	go func() {
		done <- p.Run(ctx, func(ctx context.Context, shard *recipes.Shard) error {
			mu.Lock()
			defer mu.Unlock()
			i := shard.Index()
			calls[i]++
			if i == 3 && calls[i] > 1 && tokens[i] != shard.Token() {
				t.Error("work that failed goes on under the same token")
			}
			tokens[i] = shard.Token()
			if shard.Deadline().Before(time.Now()) {
				t.Error("the deadline has passed")
			}
			switch {
			case i == 3 && calls[i] <= 2:
				return failure
			case i == 4:
				return nil
			}
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			if !errors.Is(context.Cause(ctx), errStopping) {
				t.Error(context.Cause(ctx))
			}
			if i == 5 {
				return failure
			}
			return context.Cause(ctx)
		})
	}()
	eventually(t, "the third call", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return calls[3] == 3 && len(calls) == shardCount
	})
	observer := partition(t, w.client(t, Options{}), nil)
	list, err := observer.Owners(context.Background())
	require.NoError(t, err)
	for _, o := range list {
		require.NotZero(t, o.Token, "shard %d is kept", o.Shard)
		require.Len(t, o.Member, 26, "a name of its own")
	}
	cancel(errStopping)
	require.ErrorIs(t, <-done, errStopping)
	require.Len(t, told, 3, "two failures, and one while stopping: %v", told)
	for _, err := range told {
		require.ErrorIs(t, err, failure)
	}
	require.ErrorContains(t, told[2], "shard 5")
	for i, n := range calls {
		require.Equal(t, map[bool]int{true: 3, false: 1}[i == 3], n, "calls for shard %d", i)
	}
}
