package recipetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

const (
	partitionName = "jobs"
	shardCount    = 16
	// shortSettle makes members of the suite act soon.
	shortSettle = 40 * time.Millisecond
)

// shares says who owns each shard while the members of the given names are there, as
// another program has computed it.
var shares = map[string]string{
	"":    "................",
	"a":   "aaaaaaaaaaaaaaaa",
	"b":   "bbbbbbbbbbbbbbbb",
	"ab":  "baabaaaaaabbbbbb",
	"ac":  "acacaaacacccaacc",
	"bc":  "bccbcbbcbcbbbbcc",
	"abc": "bcabaaacacbbbbcc",
}

// moved is how many shards change their owner from one fleet to another.
func moved(from, to string) int {
	n := 0
	for i := range shares[from] {
		if shares[from][i] != shares[to][i] {
			n++
		}
	}
	return n
}

func partition(t testing.TB, c *recipes.Client, opts *recipes.PartitionOptions) *recipes.Partition {
	t.Helper()
	p, err := c.Partition(partitionName, shardCount, opts)
	require.NoError(t, err)
	return p
}

// A fleet watches over the members of a partition: who works on which shard, that no
// two do, and that tokens grow.
type fleet struct {
	t testing.TB

	mu       sync.Mutex
	posts    map[int]post          // who works on each shard
	last     map[int]uint64        // the latest token of each shard
	starts   int                   // how often work has begun
	told     map[string]int        // by member: how often work was told to stop
	lost     map[int]time.Time     // when the last work on each shard heard of a loss
	replaced map[int]time.Time     // when the work after that began
	killed   map[string]bool       // members whose sessions the test ends, who may hear of it late
	gates    map[int]chan struct{} // what keeps work from stopping, by shard; nil lets all stop
}

type post struct {
	member string
	token  uint64
}

func newFleet(t testing.TB) *fleet {
	return &fleet{
		t: t, posts: map[int]post{}, last: map[int]uint64{}, told: map[string]int{}, killed: map[string]bool{},
		lost: map[int]time.Time{}, replaced: map[int]time.Time{},
	}
}

// A hand is a member of a fleet.
type hand struct {
	client  *recipes.Client
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // of Run
	errs    int   // that OnError was told of, under the fleet's mutex
	onError func(error)
}

// join runs a member until the test ends, or stop.
func (f *fleet) join(c *recipes.Client, name string) *hand {
	f.t.Helper()
	h := &hand{client: c, done: make(chan struct{})}
	p := partition(f.t, c, &recipes.PartitionOptions{
		Member: name, Settle: shortSettle,
		OnError: func(err error) {
			f.mu.Lock()
			h.errs++
			onError := h.onError
			f.mu.Unlock()
			if onError != nil {
				onError(err)
			}
		},
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.done)
		h.err = p.Run(ctx, func(ctx context.Context, shard *recipes.Shard) error { return f.work(ctx, name, shard) })
	}()
	f.t.Cleanup(func() {
		f.release()
		cancel(nil)
		await(f.t, h.done, "a member to end")
	})
	return h
}

var errStopping = errors.New("stopping")

// stop ends a member, and waits for it.
func (h *hand) stop(t testing.TB) {
	t.Helper()
	h.cancel(errStopping)
	await(t, h.done, "a member to end")
	require.ErrorIs(t, h.err, errStopping)
}

// work works until it is told to stop and its gate, if it has one, is open.
func (f *fleet) work(ctx context.Context, name string, shard *recipes.Shard) error {
	i, own := shard.Index(), post{name, shard.Token()}
	f.mu.Lock()
	if other, busy := f.posts[i]; busy && !f.killed[other.member] {
		f.t.Errorf("shard %d is worked on by %s and by %s", i, other.member, name)
	}
	if own.token <= f.last[i] {
		f.t.Errorf("shard %d: token %d after %d", i, own.token, f.last[i])
	}
	f.posts[i], f.last[i] = own, own.token
	f.starts++
	f.replaced[i] = time.Now()
	f.mu.Unlock()

	<-ctx.Done()
	at := time.Now()
	f.mu.Lock()
	f.told[name]++
	if errors.Is(context.Cause(ctx), recipes.ErrLost) {
		f.lost[i] = at
	}
	gate := f.gates[i]
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.posts[i] == own {
		delete(f.posts, i)
	}
	return ctx.Err()
}

// linger keeps work from stopping until it is released.
func (f *fleet) linger() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gates = map[int]chan struct{}{}
	for i := range shardCount {
		f.gates[i] = make(chan struct{})
	}
}

// release lets the work on the given shards stop, or all work.
func (f *fleet) release(shards ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, gate := range f.gates {
		if len(shards) == 0 || i == shards[0] {
			close(gate)
			delete(f.gates, i)
		}
	}
}

// kill lets a member's work overlap with its successor's: on a service that is told to
// end a session, the owner hears of it at the same time as others.
func (f *fleet) kill(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killed[name] = true
}

// owners is who works on each shard, a letter for each.
func (f *fleet) owners() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	owners := []byte(shares[""])
	for i, p := range f.posts {
		owners[i] = p.member[0]
	}
	return string(owners)
}

// shows waits until the shards are owned as they should be with the given members.
func (f *fleet) shows(members string) {
	f.t.Helper()
	f.becomes(shares[members])
}

func (f *fleet) becomes(owners string) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("owners %s", owners), func() bool { return f.owners() == owners })
}

// count reads one of the fleet's counts.
func (f *fleet) count(read func() int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return read()
}

// begun is how often work has begun.
func (f *fleet) begun() int { return f.count(func() int { return f.starts }) }

// asked waits until a member's work was told to stop so many times.
func (f *fleet) asked(name string, times int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("work of %s to be told %d times", name, times), func() bool {
		return f.count(func() int { return f.told[name] }) == times
	})
}

// seen is who owns each shard, and who is next, as an observer sees it.
func seen(t testing.TB, p *recipes.Partition) (owners, next string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := p.Owners(ctx)
	require.NoError(t, err)
	require.Len(t, list, shardCount)
	for i, o := range list {
		require.Equal(t, i, o.Shard)
		require.Equal(t, o.Member != "", o.Token != 0)
		owners, next = owners+initial(o.Member), next+initial(o.Next)
	}
	return owners, next
}

func initial(member string) string {
	if member == "" {
		return "."
	}
	return member[:1]
}
