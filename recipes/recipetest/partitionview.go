package recipetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// testPartitionWatch follows who owns what through joins, leaves and a cut.
func testPartitionWatch(t *testing.T, w *world) {
	link := w.server.Link(t)
	f := newFleet(t)
	p := partition(t, w.client(t, Options{Link: link}), nil)
	var mu sync.Mutex
	owners := []byte(shares[""])
	next := []byte(shares[""])
	yields := 0
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for o, err := range p.Watch(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if yields < shardCount && o.Shard != yields {
				t.Errorf("first each shard, in order: %d", o.Shard)
			}
			yields++
			owners[o.Shard], next[o.Shard] = initial(o.Member)[0], initial(o.Next)[0]
			mu.Unlock()
		}
	}()
	shows := func(members string) {
		t.Helper()
		eventually(t, "the watch to show the owners of "+members, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return yields >= shardCount && string(owners) == shares[members] && string(next) == shares[""]
		})
	}
	shows("")
	a := f.join(w.client(t, Options{Label: "first"}), "a")
	shows("a")
	link.Cut()
	b := f.join(w.client(t, Options{}), "b")
	shows("ab")
	list, err := p.Owners(context.Background())
	require.NoError(t, err)
	require.Equal(t, "first", list[1].Owner.Label)
	require.Equal(t, a.client.SessionID(), list[1].Session)
	require.WithinDuration(t, time.Now(), list[1].Since, patience)
	a.stop(t)
	shows("b")
	b.stop(t)
	shows("")
	cancel()
	await(t, done, "the watch to end")
}

// testPartitionCut breaks and disturbs the connection of a member, which must hear of
// those who join all the same, and have one entry for each shard.
func testPartitionCut(t *testing.T, w *world) {
	link := w.server.Link(t)
	f := newFleet(t)
	observer := partition(t, w.client(t, Options{}), nil)
	f.join(w.client(t, Options{Link: link}), "a")
	f.shows("a")
	for range 3 {
		link.Cut()
		b := f.join(w.client(t, Options{}), "b")
		f.shows("ab")
		link.LoseReply()
		b.stop(t)
		f.shows("a")
		owners, next := seen(t, observer)
		require.Equal(t, shares["a"], owners)
		require.Equal(t, shares[""], next)
	}
}

// testPartitionClose closes the client of a member, and then runs on it.
func testPartitionClose(t *testing.T, w *world) {
	f := newFleet(t)
	c := w.server.Open(t, Options{Root: w.root, TTL: calmTTL})
	a := f.join(c, "a")
	f.shows("a")
	f.join(w.client(t, Options{}), "b")
	f.shows("ab")
	f.kill("a")
	require.NoError(t, c.Close())
	await(t, a.done, "the member to end")
	require.ErrorIs(t, a.err, recipes.ErrClosed)
	f.shows("b")
	err := partition(t, c, nil).Run(context.Background(), func(context.Context, *recipes.Shard) error { return nil })
	require.ErrorIs(t, err, recipes.ErrClosed)
}

// testPartitionEnded has members that end before they own anything.
func testPartitionEnded(t *testing.T, w *world) {
	p := partition(t, w.client(t, Options{}), nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStopping)
	err := p.Run(ctx, func(context.Context, *recipes.Shard) error { return nil })
	require.ErrorIs(t, err, errStopping)
	owners, _ := seen(t, p)
	require.Equal(t, shares[""], owners)

	// Those who join and leave at once leave nothing behind.
	for range 3 {
		newFleet(t).join(w.client(t, Options{}), "a").stop(t)
	}
	f := newFleet(t)
	f.join(w.client(t, Options{}), "b")
	f.shows("b")
	owners, next := seen(t, p)
	require.Equal(t, shares["b"], owners)
	require.Equal(t, shares[""], next)
}

func testPartitionInvalid(t *testing.T, w *world) {
	c := w.client(t, Options{})
	for _, name := range []string{"", "a\nb", strings.Repeat("x", 508)} {
		_, err := c.Partition(name, 1, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%q", name)
	}
	for _, shards := range []int{-1, 0, 4097} {
		_, err := c.Partition(partitionName, shards, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%d shards", shards)
	}
	for field, opts := range map[string]recipes.PartitionOptions{
		"PartitionOptions.Member": {Member: "a\x00b"},
		"PartitionOptions.Weight": {Weight: 101},
		"PartitionOptions.Settle": {Settle: -1},
	} {
		_, err := c.Partition(partitionName, 1, &opts)
		require.ErrorIs(t, err, recipes.ErrInvalid)
		require.ErrorContains(t, err, field)
	}
	_, err := c.Partition(partitionName, 1, &recipes.PartitionOptions{Weight: -1})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	p, err := c.Partition(strings.Repeat("x", 507), 4096, &recipes.PartitionOptions{Member: strings.Repeat("m", 256), Weight: 100})
	require.NoError(t, err)
	require.Equal(t, 4096, p.Shards())
	require.Len(t, p.Name(), 507)
	require.Equal(t, 3536, p.ShardOf("order-17"))
	require.ErrorIs(t, p.Run(context.Background(), nil), recipes.ErrInvalid)
}

// testCostOfPartition counts what shards that move cost, and members that do nothing.
func testCostOfPartition(t *testing.T, w *world) {
	f := newFleet(t)
	a, b := w.client(t, Options{TTL: costTTL}), w.client(t, Options{TTL: costTTL})
	unlock(t, lock(t, mutex(t, a, "first"))) // opens the sessions
	unlock(t, lock(t, mutex(t, b, "first")))
	cost := func(what string, commits int, act func()) Cost {
		t.Helper()
		w.settle(t)
		before := w.server.Cost(t)
		act()
		w.settle(t)
		cost := w.server.Cost(t).Sub(before)
		cost.Renewals = 0
		t.Logf("%s: %+v", what, cost)
		require.Equal(t, commits, cost.Commits, "commits when %s", what)
		return cost
	}
	f.join(a, "a")
	f.shows("a")
	moves := moved("a", "ab")
	var second *hand
	joined := cost("a member joins", 1+2*moves, func() {
		second = f.join(b, "b")
		f.shows("ab")
	})
	require.LessOrEqual(t, joined.Watches, 1+moves, "one watch, and one for each shard that is waited for")
	idle := cost("idle", 0, func() {
		before := w.server.Cost(t).Renewals
		eventually(t, "six renewals", func() bool { return w.server.Cost(t).Renewals >= before+6 })
	})
	require.Equal(t, Cost{}, idle, "members send keep-alives only")
	cost("a member leaves", 2+2*moves, func() {
		second.stop(t)
		f.shows("a")
	})
}

// testPartitionMany has far more shards than requests and hand-overs at once: each
// moves once.
func testPartitionMany(t *testing.T, w *world) {
	const many = 256
	var mu sync.Mutex
	owners, starts := [many]string{}, 0
	own := func(i int, from, to string) {
		mu.Lock()
		defer mu.Unlock()
		if owners[i] != from {
			t.Errorf("shard %d is owned by %q, not by %q", i, owners[i], from)
		}
		if owners[i] = to; to != "" {
			starts++
		}
	}
	join := func(c *recipes.Client, name string) (stop func()) {
		p, err := c.Partition(partitionName, many, &recipes.PartitionOptions{Member: name})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- p.Run(ctx, func(ctx context.Context, shard *recipes.Shard) error {
				own(shard.Index(), "", name)
				<-ctx.Done()
				own(shard.Index(), name, "")
				return nil
			})
		}()
		return func() {
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
		}
	}
	owned := func(name string, n int) {
		t.Helper()
		eventually(t, name+" to own its shards", func() bool {
			mu.Lock()
			defer mu.Unlock()
			count := map[string]int{}
			for _, owner := range owners {
				count[owner]++
			}
			return count[name] == n && count[""] == 0
		})
	}
	a, b := w.client(t, Options{TTL: restartTTL}), w.client(t, Options{TTL: restartTTL})
	unlock(t, lock(t, mutex(t, a, "first"))) // opens the sessions
	unlock(t, lock(t, mutex(t, b, "first")))
	stopA := join(a, "a")
	owned("a", many)
	before := w.server.Cost(t)
	stopB := join(b, "b")
	owned("b", manyOfB)
	cost := w.server.Cost(t).Sub(before)
	t.Logf("%d of %d shards move: %+v", manyOfB, many, cost) // with more commits where requests had to be repeated
	stopB()
	owned("a", many)
	stopA()
	require.Equal(t, many+2*manyOfB, starts)
}

// manyOfB is how many of 256 shards belong to b, beside a.
const manyOfB = 117
