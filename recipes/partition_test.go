package recipes_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// These tests run in virtual time, so that every moment is exact.

const (
	shards = 8
	settle = time.Second
)

// A member is a caller of Partition.Run.
type member struct {
	client *recipes.Client
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	mu  sync.Mutex
	log diary
}

// A diary is what has happened to a member.
type diary struct {
	begun  []time.Time // when work began
	told   []time.Time // when it was told to stop
	causes []error     // why
	errs   []error     // that OnError was told of
}

func partake(t *testing.T, server *memory.Server, name string, link *memory.Link) *member {
	t.Helper()
	m := &member{client: open(t, server, &memory.Options{TTL: ttl, Link: link}), done: make(chan struct{})}
	p, err := m.client.Partition("p", shards, &recipes.PartitionOptions{Member: name, OnError: func(err error) {
		m.note(func(log *diary) { log.errs = append(log.errs, err) })
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = p.Run(ctx, func(ctx context.Context, _ *recipes.Shard) error {
			m.note(func(log *diary) { log.begun = append(log.begun, time.Now()) })
			<-ctx.Done()
			m.note(func(log *diary) {
				log.told = append(log.told, time.Now())
				log.causes = append(log.causes, context.Cause(ctx))
			})
			return nil
		})
	}()
	return m
}

func (m *member) note(f func(log *diary)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.log)
}

// diary is what has happened until now.
func (m *member) diary() diary {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log
}

// owns is how many shards are worked on now.
func (m *member) owns() int {
	log := m.diary()
	return len(log.begun) - len(log.told)
}

// end ends the member and its client.
func (m *member) end(t *testing.T) {
	t.Helper()
	m.cancel()
	<-m.done
	require.ErrorIs(t, m.err, context.Canceled)
	require.NoError(t, m.client.Close())
}

// TestPartitionSettles has a member that joins and leaves before the others have
// given anything up, and one that stays.
func TestPartitionSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, start := memory.NewServer(), time.Now()
		a := partake(t, server, "a", nil)
		time.Sleep(settle/2 - 1)
		require.Zero(t, a.owns())
		time.Sleep(time.Nanosecond)
		require.Equal(t, shards, a.owns(), "half of Settle after it has joined")
		for range 5 {
			b := partake(t, server, "b", nil)
			time.Sleep(settle - 1)
			b.end(t)
			require.Zero(t, b.owns())
			require.Equal(t, shards, a.owns())
		}
		time.Sleep(10 * settle)
		require.Empty(t, a.diary().told, "nothing has moved")

		joined := time.Now()
		b := partake(t, server, "b", nil)
		time.Sleep(settle - 1)
		require.Empty(t, a.diary().told)
		time.Sleep(time.Nanosecond)
		require.Equal(t, shards, a.owns()+b.owns(), "a shard is handed over without delay")
		require.NotEmpty(t, b.diary().begun)
		for i, at := range a.diary().told {
			require.Equal(t, joined.Add(settle), at)
			require.Equal(t, joined.Add(settle), b.diary().begun[i])
			require.ErrorIs(t, a.diary().causes[i], context.Canceled)
			require.NotErrorIs(t, a.diary().causes[i], recipes.ErrLost)
		}
		for _, at := range a.diary().begun {
			require.Equal(t, start.Add(settle/2), at)
		}
		b.end(t)
		require.Equal(t, shards, a.owns())
		a.end(t)
		require.Empty(t, server.Left(""))
	})
}

// TestPartitionStartsTogether has members that start within half of Settle: each
// shard goes to its owner at once.
func TestPartitionStartsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.NewServer()
		var members []*member
		for _, name := range []string{"a", "b", "c"} {
			members = append(members, partake(t, server, name, nil))
			time.Sleep(settle / 5)
		}
		time.Sleep(10 * settle)
		total := 0
		for _, m := range members {
			total += m.owns()
			require.Empty(t, m.diary().told)
			require.NotEmpty(t, m.diary().begun)
		}
		require.Equal(t, shards, total)
		for _, m := range members { // all at once, so that nobody waits for another
			m.cancel()
		}
		began := time.Now()
		for _, m := range members {
			m.end(t)
		}
		require.Less(t, time.Since(began), settle/2)
	})
}

// TestPartitionLosesFirst cuts a member off: all its work is told at the deadline,
// and others begin when the margin has passed.
func TestPartitionLosesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := memory.NewServer(), &memory.Link{}
		a := partake(t, server, "a", link)
		time.Sleep(settle)
		require.Equal(t, shards, a.owns())
		b := partake(t, server, "b", nil)
		time.Sleep(2 * settle)
		rest := a.owns()
		require.Equal(t, shards, rest+b.owns())
		link.StallReplies() // requests go through, also that to end the session
		handed := len(a.diary().told)
		for a.owns() > 0 {
			time.Sleep(ttl / 64)
		}
		lost := a.diary().told[handed]
		for i, at := range a.diary().told[handed:] {
			require.Equal(t, lost, at, "all at the same moment")
			require.ErrorIs(t, a.diary().causes[handed+i], recipes.ErrLost)
		}
		for b.owns() < shards {
			time.Sleep(ttl / 64)
		}
		for _, at := range b.diary().begun[shards-rest:] {
			require.Equal(t, lost.Add(ttl/8), at, "the margin later")
		}
		link.Resume()
		time.Sleep(10 * settle)
		require.Equal(t, rest, a.owns(), "it has come back")
		require.Equal(t, shards, a.owns()+b.owns())
		require.NotEmpty(t, a.diary().errs)
		require.ErrorIs(t, a.diary().errs[0], recipes.ErrLost)
		a.end(t)
		b.end(t)
	})
}

// TestPartitionWithoutHeir has a member that joins and then can't take shards: the
// others keep them. One that ends waits for it for as long as Settle, and not longer.
func TestPartitionWithoutHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := memory.NewServer(), &memory.Link{}
		a := partake(t, server, "a", nil)
		time.Sleep(settle)
		b := partake(t, server, "b", link)
		time.Sleep(settle / 4)
		link.StallBoth() // its membership lasts as long as its session
		time.Sleep(5 * settle)
		require.Equal(t, shards, a.owns())
		require.Empty(t, a.diary().told)
		link.Resume()
		time.Sleep(2 * settle)
		require.NotZero(t, b.owns(), "it can take them now")
		require.Equal(t, shards, a.owns()+b.owns())

		link.StallBoth()
		rest, ending := a.owns(), time.Now()
		a.cancel()
		time.Sleep(settle - 1)
		require.Equal(t, rest, a.owns())
		a.end(t)
		require.Equal(t, settle, time.Since(ending))
		link.Resume()
		time.Sleep(settle)
		require.Equal(t, shards, b.owns())
		b.end(t)
	})
}

// TestPartitionUnreachable runs while the service is away, and when it is back.
func TestPartitionUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, link := memory.NewServer(), &memory.Link{}
		link.StallBoth()
		a := partake(t, server, "a", link)
		time.Sleep(time.Minute)
		require.Zero(t, a.owns())
		require.Greater(t, len(a.diary().errs), 5)
		require.ErrorIs(t, a.diary().errs[0], recipes.ErrUnavailable)
		link.Resume()
		time.Sleep(10 * settle)
		require.Equal(t, shards, a.owns())
		a.end(t)
	})
}

// TestPartitionPauses has work that fails at once, and work that fails after a while.
func TestPartitionPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, memory.NewServer(), &memory.Options{TTL: ttl})
		defer c.Close()
		var mu sync.Mutex
		calls, told := [2]int{}, 0
		p, err := c.Partition("p", 2, &recipes.PartitionOptions{OnError: func(error) {
			mu.Lock()
			defer mu.Unlock()
			told++
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), settle/2+time.Hour)
		defer cancel()
		err = p.Run(ctx, func(ctx context.Context, shard *recipes.Shard) error {
			mu.Lock()
			calls[shard.Index()]++
			mu.Unlock()
			if shard.Index() == 1 {
				time.Sleep(11 * time.Second)
			}
			return errors.New("no")
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, calls[0]+calls[1], told)
		require.InDelta(t, 3600/7.5, calls[0], 60, "pauses of up to ten seconds")
		require.InDelta(t, 3600/11.1, calls[1], 3, "after a while the first pause again")
	})
}

// TestPartitionGoexit has work that ends its goroutine: the shard is given up, and
// taken again.
func TestPartitionGoexit(t *testing.T) {
	c := open(t, memory.NewServer(), nil)
	defer c.Close()
	p, err := c.Partition("p", 1, &recipes.PartitionOptions{Settle: 1})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var tokens []uint64
	err = p.Run(ctx, func(_ context.Context, shard *recipes.Shard) error {
		if tokens = append(tokens, shard.Token()); len(tokens) == 1 {
			runtime.Goexit()
		}
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, tokens, 2)
	require.Greater(t, tokens[1], tokens[0])
}
