package recipetest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockctl/lockctl/recipes"
)

// BenchmarkRecipes measures each recipe but Mutex, for which see Benchmark: the work of
// those who use it, without waiting for others unless that is what it is for. open is as
// for Benchmark. What one operation is, the name of the sub-benchmark says.
func BenchmarkRecipes(b *testing.B, open func() (*recipes.Client, error)) {
	for _, bm := range []struct {
		name string
		// prepare makes what is measured, of an object called name.
		prepare func(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error
	}{
		{"RWMutex/Lock+Unlock", benchWriter},
		{"RWMutex/RLock+Unlock", benchReader},
		{"Semaphore/Acquire+Unlock", benchSemaphore},
		{"Multi/Lock+Unlock", benchMulti},
		{"Barrier/Set+Lift+Wait", benchBarrier},
		{"Latch/CountDown+Wait+Remove", benchLatch},
		{"Register/Get", benchGet},
		{"Register/Update", benchUpdate},
		{"Counter/Add", benchCounter},
		{"Group/Join+Leave", benchGroup},
		{"Partition/Join+Own+Leave", benchPartition},
		{"Queue/Put+Take+Ack", benchQueue},
		{"Once/New", benchOnce},
		{"Once/Known", benchKnown},
		{"Watch/Change+Seen", benchWatch},
	} {
		b.Run(bm.name, func(b *testing.B) {
			op := bm.prepare(b, benchClient(b, open), b.Name())
			Loop(b, op)
		})
	}
	b.Run("DoubleBarrier/Enter+Leave", func(b *testing.B) {
		op := benchDoubleBarrier(b, benchClient(b, open), benchClient(b, open), b.Name())
		Loop(b, op)
	})
}

// Loop measures an operation, which is done once before, so that the session is open.
func Loop(b *testing.B, op func(ctx context.Context) error) {
	b.Helper()
	ctx := context.Background()
	require.NoError(b, op(ctx))
	b.ReportAllocs()
	for b.Loop() {
		if err := op(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// benchClient opens a client, and closes it when the benchmark has ended.
func benchClient(b *testing.B, open func() (*recipes.Client, error)) *recipes.Client {
	b.Helper()
	c, err := open()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return c
}

// lockAndUnlock is the operation of a lock.
func lockAndUnlock(lock recipes.Locker[*recipes.Hold]) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		hold, err := lock.Lock(ctx)
		if err != nil {
			return err
		}
		return hold.Unlock(ctx)
	}
}

func benchWriter(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	m, err := c.RWMutex(name, nil)
	require.NoError(b, err)
	return lockAndUnlock(m)
}

func benchReader(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	m, err := c.RWMutex(name, nil)
	require.NoError(b, err)
	return lockAndUnlock(m.RLocker())
}

func benchSemaphore(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	s, err := c.Semaphore(name, 4, nil)
	require.NoError(b, err)
	return lockAndUnlock(s)
}

// benchMulti has two locks.
func benchMulti(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	locks := map[string]recipes.Locker[*recipes.Hold]{}
	for i := range 2 {
		m, err := c.Mutex(name+strconv.Itoa(i), nil)
		require.NoError(b, err)
		locks[m.Name()] = m
	}
	multi, err := recipes.NewMulti(locks)
	require.NoError(b, err)
	return func(ctx context.Context) error {
		hold, err := multi.Lock(ctx)
		if err != nil {
			return err
		}
		return hold.Unlock(ctx)
	}
}

func benchBarrier(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	barrier, err := c.Barrier(name)
	require.NoError(b, err)
	return inTurn(barrier.Set, barrier.Lift, barrier.Wait)
}

func benchLatch(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	latch, err := c.Latch(name, 1)
	require.NoError(b, err)
	countDown := func(ctx context.Context) error {
		_, err := latch.CountDown(ctx)
		return err
	}
	return inTurn(countDown, latch.Wait, latch.Remove)
}

// inTurn does one step after the other.
func inTurn(steps ...func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func benchGet(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	r, err := recipes.NewRegister[int](c, name)
	require.NoError(b, err)
	_, err = r.Update(context.Background(), func(int) (int, error) { return 1, nil })
	require.NoError(b, err)
	return func(ctx context.Context) error {
		_, err := r.Get(ctx)
		return err
	}
}

func benchUpdate(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	r, err := recipes.NewRegister[int](c, name)
	require.NoError(b, err)
	return func(ctx context.Context) error {
		_, err := r.Update(ctx, func(n int) (int, error) { return n + 1, nil })
		return err
	}
}

func benchCounter(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	counter, err := recipes.NewCounter(c, name)
	require.NoError(b, err)
	return func(ctx context.Context) error {
		_, err := counter.Add(ctx, 1)
		return err
	}
}

func benchGroup(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	group, err := c.Group(name)
	require.NoError(b, err)
	return func(ctx context.Context) error {
		member, err := group.Join(ctx, "10.0.0.7:8080")
		if err != nil {
			return err
		}
		return member.Leave(ctx)
	}
}

// benchPartition has one member, which leaves when it owns the one shard.
func benchPartition(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	p, err := c.Partition(name, 1, &recipes.PartitionOptions{Settle: time.Microsecond})
	require.NoError(b, err)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		owned := false
		err := p.Run(ctx, func(context.Context, *recipes.Shard) error {
			owned = true
			cancel()
			return nil
		})
		if owned {
			return nil
		}
		return fmt.Errorf("owned nothing: %w", err)
	}
}

func benchQueue(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	q, err := recipes.NewQueue[int](c, name, nil)
	require.NoError(b, err)
	return func(ctx context.Context) error {
		if _, err := q.Put(ctx, 1, nil); err != nil {
			return err
		}
		item, err := q.Take(ctx)
		if err != nil {
			return err
		}
		return item.Ack(ctx)
	}
}

func benchOnce(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	once, err := recipes.NewOnce[int](c, name, &recipes.OnceOptions{Keep: 1})
	require.NoError(b, err)
	n := 0
	return func(ctx context.Context) error {
		n++
		_, err := once.Do(ctx, strconv.Itoa(n), func(context.Context, *recipes.Hold) (int, error) { return n, nil })
		return err
	}
}

func benchKnown(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	once, err := recipes.NewOnce[int](c, name, nil)
	require.NoError(b, err)
	return func(ctx context.Context) error {
		_, err := once.Do(ctx, "key", func(context.Context, *recipes.Hold) (int, error) { return 1, nil })
		return err
	}
}

// benchWatch locks and unlocks, each until a watch has told of it.
func benchWatch(b *testing.B, c *recipes.Client, name string) func(ctx context.Context) error {
	mutex, err := c.Mutex(name, nil)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	held := make(chan bool, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for change, err := range c.Watch(ctx, recipes.Filter{Prefix: name}) {
			if err != nil {
				return
			}
			if change.Kind != recipes.WatchLost {
				held <- len(change.Object.Entries) > 0
			}
		}
	}()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
	require.False(b, <-held, "the watch is up to date, and nobody holds the lock")
	return func(ctx context.Context) error {
		hold, err := mutex.Lock(ctx)
		if err != nil {
			return err
		}
		if !<-held {
			return fmt.Errorf("the watch told of no holder")
		}
		if err := hold.Unlock(ctx); err != nil {
			return err
		}
		if <-held {
			return fmt.Errorf("the watch told of a holder")
		}
		return nil
	}
}

// benchDoubleBarrier is a round of two.
func benchDoubleBarrier(b *testing.B, one, other *recipes.Client, name string) func(ctx context.Context) error {
	var barriers []*recipes.DoubleBarrier
	for _, c := range []*recipes.Client{one, other} {
		barrier, err := c.DoubleBarrier(name, 2)
		require.NoError(b, err)
		barriers = append(barriers, barrier)
	}
	return func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, barrier := range barriers {
			g.Go(func() error {
				crossing, err := barrier.Enter(ctx)
				if err != nil {
					return err
				}
				return crossing.Leave(ctx)
			})
		}
		return g.Wait()
	}
}
