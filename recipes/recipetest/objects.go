package recipetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

// A gallery compares what a list and a watch show of objects.
type gallery struct {
	*viewer
	t testing.TB
	c *recipes.Client
}

func (w *world) gallery(t testing.TB) gallery {
	c := w.client(t, Options{Label: "observer"})
	return gallery{w.view(t, c, ""), t, c}
}

// shows waits for the watch to show objects, of which each is described as
//
//	kind name: summary | role part label, role part label
//
// and looks whether a list shows the same.
func (g gallery) shows(want ...string) {
	g.t.Helper()
	var seen []string
	eventually(g.t, "the watch to show "+strings.Join(want, "\n"), func() bool {
		seen = nil
		for _, line := range want {
			kind, rest, _ := strings.Cut(line, " ")
			name, _, _ := strings.Cut(rest, ":")
			key := recipes.Object{Kind: recipes.Kind(kind), Name: name}.Key()
			seen = append(seen, describe(g.object(key)))
		}
		return strings.Join(seen, "\n") == strings.Join(want, "\n")
	})
	eventually(g.t, "a list to show the same", func() bool { // the watch may have shown it a moment before it was so for good
		objects, err := g.c.Objects(context.Background(), recipes.Filter{})
		require.NoError(g.t, err)
		var listed []string
		for _, o := range objects {
			listed = append(listed, describe(o))
		}
		return !slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(listed, line) })
	})
}

// describe puts labels in place of owners.
func describe(o recipes.Object) string {
	summary, entries := o.Summary(time.Now()), []string{}
	label := func(owner recipes.Owner) string {
		summary = strings.ReplaceAll(summary, owner.String(), owner.Label)
		return owner.Label
	}
	for i, e := range o.Entries {
		words := []string{string(o.Role(i)), e.Part, cmp.Or(label(e.Owner), "?")}
		entries = append(entries, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
	}
	if s, ok := o.State.(recipes.BarrierState); ok {
		label(s.By)
	}
	text := fmt.Sprintf("%s %s: %s", o.Kind, o.Name, summary)
	if len(entries) > 0 {
		text += " | " + strings.Join(entries, ", ")
	}
	return text
}

func testObjectsLocks(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	g := w.gallery(t)
	hold := lock(t, mutex(t, a, "job"))
	g.shows("mutex job: held by a | holder a")
	waiter := lockAside(ctx, mutex(t, b, "job"))
	g.shows("mutex job: held by a | holder a, waiter b")
	m, err := b.RWMutex("index", nil)
	require.NoError(t, err)
	r1, err := m.RLock(ctx)
	require.NoError(t, err)
	r2, err := m.RLock(ctx)
	require.NoError(t, err)
	g.shows("rwmutex index: shared by b and 1 more | holder b, holder b")

	unlock(t, hold)
	require.NoError(t, waiter.wait(t).err)
	leader, err := a.Mutex("lead", &recipes.MutexOptions{Kind: "boss"})
	require.NoError(t, err)
	disguised, err := a.Mutex("odd", &recipes.MutexOptions{Kind: recipes.KindGroup})
	require.NoError(t, err)
	boss, odd := lock(t, leader), lock(t, disguised)
	g.shows("mutex job: held by b | holder b", "boss lead: held by a | holder a", "lock odd: held by a | holder a")
	for _, h := range []*recipes.Hold{waiter.hold, r1, r2, boss, odd} {
		unlock(t, h)
	}
	eventually(t, "all to be free", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.objects) == 0
	})
}

func testObjectsSemaphore(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	g := w.gallery(t)
	sa, sb := semaphore(t, a, "pool", 3), semaphore(t, b, "pool", 0)
	two := acquire(t, sa, 2)
	g.shows("semaphore pool: 2 of 3 permits held by a | holder a")
	one, more := acquire(t, sb, 1), aside(ctx, sb.Locker(2))
	g.shows("semaphore pool: 3 of 3 permits held by a and 1 more | holder a, holder b, waiter b")
	require.NoError(t, sa.SetLimit(ctx, 5))
	g.shows("semaphore pool: 5 of 5 permits held by a and 2 more | holder a, holder b, holder b")
	unlock(t, two)
	unlock(t, one)
	unlock(t, more.granted(t))
	g.shows("semaphore pool: 0 of 5 permits held")

	alone := lock(t, mutex(t, a, "pool"))
	g.shows("mutex pool: held by a | holder a")
	unlock(t, alone)
	g.shows("semaphore pool: 0 of 5 permits held")
}

func testObjectsGroup(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	g := w.gallery(t)
	first, second := join(t, group(t, a, "web"), "10.0.0.1"), join(t, group(t, b, "web"), "10.0.0.2")
	g.shows("group web: 2 members | member a, member b")
	require.NoError(t, second.Update(ctx, "10.0.0.3"))
	eventually(t, "the metadata", func() bool { return string(g.object("group/web").Entries[1].Published) == `"10.0.0.3"` })
	require.NoError(t, first.Leave(ctx))
	g.shows("group web: 1 member | member b")
	w.server.Expire(t, b.SessionID())
	eventually(t, "nobody", func() bool { return g.object("group/web").Gone() })
}

func testObjectsQueue(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	g := w.gallery(t)
	opts := &recipes.QueueOptions{MaxAttempts: 1}
	qa, qb := workQueue[string](t, a, opts), workQueue[string](t, b, opts)
	put(t, qa, "value of the first", &recipes.PutOptions{ID: "first"})
	put(t, qa, "later", &recipes.PutOptions{ID: "later", Delay: time.Hour})
	put(t, qa, "urgent", &recipes.PutOptions{ID: "urgent", Priority: 3})
	g.shows("queue work: 2 ready, 1 delayed")
	urgent := take(t, qa)
	g.shows("queue work: 1 ready, 1 delayed, 1 taken | worker urgent a")
	first := take(t, qb)
	waiting, cancel := context.WithCancel(ctx)
	done := waitAside(func() error { _, err := qb.Take(waiting); return err })
	g.shows("queue work: 1 delayed, 2 taken | worker urgent a, worker first b, waiter b")

	items := g.object("queue/work").State.(recipes.QueueState).Items
	require.Len(t, items, 3)
	require.Equal(t, "urgent", items[0].ID)
	require.Equal(t, 3, items[0].Priority)
	require.Equal(t, 1, items[0].Attempts)
	require.Equal(t, "a", items[0].By.Label)
	require.Equal(t, "b", items[1].Worker.Label)
	require.Equal(t, recipes.ItemTaken, items[1].State(time.Now()))
	require.Equal(t, recipes.ItemReady, items[2].State(time.Now().Add(2*time.Hour)))

	cancel()
	require.ErrorIs(t, done.wait(t).err, context.Canceled)
	require.NoError(t, urgent.Return(ctx, 0)) // its only attempt
	ack(t, first)
	g.shows("queue work: 1 delayed, 1 dead")
	require.Len(t, items, 3, "what was shown stays as it was")
	require.Equal(t, "a", items[0].Worker.Label)
	require.Contains(t, g.object("queue/work").State.(recipes.QueueState).Items[1].Dead, "returned in attempt 1")
	require.NoError(t, qa.Remove(ctx, "urgent"))
	g.shows("queue work: 1 delayed")
}

func testObjectsValues(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	g := w.gallery(t)
	r, err := recipes.NewRegister[any](a, "config")
	require.NoError(t, err)
	v, err := r.CompareAndSwap(ctx, 0, map[string]int{"limit": 20})
	require.NoError(t, err)
	counter, err := recipes.NewCounter(b, "config") // a name can be each kind's
	require.NoError(t, err)
	_, err = counter.Add(ctx, 41)
	require.NoError(t, err)
	g.shows(`register config: {"limit":20}`, "counter config: 41")
	seen := g.object("register/config").State.(recipes.RegisterState)
	require.Equal(t, v.Version, seen.Version)
	require.Equal(t, "a", seen.By.Label)
	require.True(t, v.At.Equal(seen.At))
	_, err = r.CompareAndSwap(ctx, v.Version, strings.Repeat("long ", 50))
	require.NoError(t, err)
	_, err = counter.Add(ctx, 1)
	require.NoError(t, err)
	g.shows(`register config: "long long long long long long long long long long long lon…`, "counter config: 42")

	latch, err := a.Latch("ready", 2)
	require.NoError(t, err)
	barrier, err := b.Barrier("frozen")
	require.NoError(t, err)
	_, err = latch.CountDown(ctx)
	require.NoError(t, err)
	require.NoError(t, barrier.Set(ctx))
	g.shows("latch ready: 1 of 2 left", "barrier frozen: set by b")
	_, err = latch.CountDown(ctx)
	require.NoError(t, err)
	g.shows("latch ready: open, counted from 2")
	require.NoError(t, latch.Remove(ctx))
	require.NoError(t, barrier.Lift(ctx))
	present, err := r.Get(ctx)
	require.NoError(t, err)
	require.NoError(t, r.Delete(ctx, present.Version))
	for _, key := range []string{"latch/ready", "barrier/frozen", "register/config"} {
		eventually(t, key+" to be gone", func() bool { return g.object(key).Gone() })
	}
	g.shows("counter config: 42")
}

func testObjectsDoubleBarrier(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	g := w.gallery(t)
	ba, bb := doubleBarrier(t, a, "phase", 2), doubleBarrier(t, b, "phase", 2)
	first := enterAside(ctx, ba)
	g.shows("double-barrier phase: 1 of 2 there | waiter a")
	second := enterAside(ctx, bb)
	ca, cb := first.inside(t), second.inside(t)
	g.shows("double-barrier phase: round 1, 2 of 2 inside | inside a, inside b")
	next := enterAside(ctx, bb)
	g.shows("double-barrier phase: round 1, 2 of 2 inside | inside a, inside b, waiter b")
	left := leaveAside(ca)
	g.shows("double-barrier phase: round 1, 1 of 2 inside | inside b, waiter b")
	require.NoError(t, cb.Leave(ctx))
	require.NoError(t, left.wait(t).err)
	g.shows("double-barrier phase: 1 of 2 there | waiter b")
	again := enterAside(ctx, ba)
	ca, cb = again.inside(t), next.inside(t)
	g.shows("double-barrier phase: round 2, 2 of 2 inside | inside b, inside a")
	left = leaveAside(ca)
	require.NoError(t, cb.Leave(ctx))
	require.NoError(t, left.wait(t).err)
	g.shows("double-barrier phase: 0 of 2 there")
}

func testObjectsOnce(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	g := w.gallery(t)
	oa, ob := once(t, a, 0), once(t, b, 0)
	_, err := oa.Do(ctx, "order/1", returns("done"))
	require.NoError(t, err)
	g.shows("once payments: 0 running, 1 recorded")
	release := make(chan struct{})
	runner := waitAside(func() error {
		_, err := oa.Do(ctx, "order/2", func(context.Context, *recipes.Hold) (string, error) {
			<-release
			return "done", nil
		})
		return err
	})
	g.shows("once payments: 1 running, 1 recorded | worker order/2 a")
	waiter := waitAside(func() error { _, err := ob.Do(ctx, "order/2", returns("never")); return err })
	g.shows("once payments: 1 running, 1 recorded | worker order/2 a, waiter order/2 b")
	close(release)
	require.NoError(t, runner.wait(t).err)
	require.NoError(t, waiter.wait(t).err)
	g.shows("once payments: 0 running, 2 recorded")
	require.Equal(t, []string{"order/1", "order/2"}, g.object("once/payments").State.(recipes.OnceState).Keys)
}

// names are kinds and names of objects.
func names(objects []recipes.Object) string {
	var all []string
	for _, o := range objects {
		all = append(all, string(o.Kind)+" "+o.Name)
	}
	return strings.Join(all, ", ")
}

func testObjectsFilter(t *testing.T, w *world) {
	ctx := context.Background()
	c := w.client(t, Options{})
	for _, name := range []string{"a", "a/b", "ab", "b"} {
		hold, member := lock(t, mutex(t, c, name)), join(t, group(t, c, name), "")
		t.Cleanup(func() { unlock(t, hold); require.NoError(t, member.Leave(ctx)) })
		o, err := recipes.NewOnce[string](c, name, nil)
		require.NoError(t, err)
		_, err = o.Do(ctx, "b", returns("x"))
		require.NoError(t, err)
		q, err := recipes.NewQueue[int](c, name, nil)
		require.NoError(t, err)
		put(t, q, 1, nil)
	}
	const locks, groups = recipes.KindLock, recipes.KindGroup
	for _, tc := range []struct {
		filter recipes.Filter
		want   string
	}{
		{recipes.Filter{Name: "a"}, "group a, mutex a, once a, queue a"},
		{recipes.Filter{Prefix: "a/"}, "group a/b, mutex a/b, once a/b, queue a/b"},
		{recipes.Filter{Kinds: []recipes.Kind{groups}}, "group a, group a/b, group ab, group b"},
		{recipes.Filter{Kinds: []recipes.Kind{groups}, Name: "a"}, "group a"},
		{recipes.Filter{Kinds: []recipes.Kind{locks, groups}, Name: "ab"}, "group ab, mutex ab"},
		{recipes.Filter{Kinds: []recipes.Kind{"mutex"}, Prefix: "a"}, "mutex a, mutex a/b, mutex ab"},
		{recipes.Filter{Kinds: []recipes.Kind{"queue", "once"}, Name: "a"}, "once a, queue a"},
		{recipes.Filter{Kinds: []recipes.Kind{"queue"}, Prefix: "b"}, "queue b"},
		{recipes.Filter{Kinds: []recipes.Kind{"rwmutex", "boss"}}, ""},
		{recipes.Filter{Name: "nothing"}, ""},
	} {
		objects, err := c.Objects(ctx, tc.filter)
		require.NoError(t, err)
		require.Equal(t, tc.want, names(objects), "%+v", tc.filter)
		v := w.viewOf(t, c, tc.filter)
		var watched []string
		for _, o := range objects {
			watched = append(watched, describe(v.object(o.Key())))
			require.Equal(t, describe(o), describe(v.object(o.Key())))
		}
		v.mu.Lock()
		require.Len(t, v.objects, len(watched))
		v.mu.Unlock()
	}
	for _, bad := range []recipes.Filter{{Name: "a\n"}, {Prefix: "\x00"}, {Name: "a", Prefix: "a"}} {
		_, err := c.Objects(ctx, bad)
		require.ErrorIs(t, err, recipes.ErrInvalid)
		for _, err := range c.Watch(ctx, bad) {
			require.ErrorIs(t, err, recipes.ErrInvalid)
		}
	}
}

// testObjectsChangeKind has a lock become one of another kind, for who wants to see
// one of them.
func testObjectsChangeKind(t *testing.T, w *world) {
	ctx := context.Background()
	c := w.client(t, Options{Label: "a"})
	mutexes := w.viewOf(t, c, recipes.Filter{Kinds: []recipes.Kind{recipes.KindMutex}})
	readers := w.viewOf(t, c, recipes.Filter{Kinds: []recipes.Kind{recipes.KindRWMutex}, Name: "job"})
	shows := func(v *viewer, kind recipes.Kind) {
		t.Helper()
		eventually(t, fmt.Sprintf("%q to be shown", kind), func() bool { return v.object("lock/job").Kind == kind })
	}
	hold := lock(t, mutex(t, c, "job"))
	shows(mutexes, recipes.KindMutex)
	reader, err := c.RWMutex("job", nil)
	require.NoError(t, err)
	next := aside(ctx, reader.RLocker())
	w.queued(t, c, "job", 2)
	shows(readers, "")
	unlock(t, hold)
	shows(readers, recipes.KindRWMutex)
	shows(mutexes, "")
	unlock(t, next.granted(t))
	shows(readers, "")
}

// testObjectsInternal looks for what is nobody's to see: inboxes, and what the engine
// keeps for itself.
func testObjectsInternal(t *testing.T, w *world) {
	a, b := w.client(t, Options{}), w.client(t, Options{})
	hold := lock(t, mutex(t, a, "held"))
	asked := waitAside(func() error { return b.Ask(context.Background(), "held", "please") })
	<-hold.Asked()
	objects, err := a.Objects(context.Background(), recipes.Filter{})
	require.NoError(t, err)
	require.Equal(t, "mutex held", names(objects))
	v := w.view(t, a, "")
	v.mu.Lock()
	require.Len(t, v.objects, 1)
	v.mu.Unlock()
	unlock(t, hold)
	require.NoError(t, asked.wait(t).err)
}

// testObjectsThroughRestart changes objects of several kinds around a restart of the
// service: the watch ends up with their final state.
func testObjectsThroughRestart(t *testing.T, w *world) {
	ctx := context.Background()
	c := w.client(t, Options{Label: "a", TTL: restartTTL})
	g := w.gallery(t)
	q := workQueue[int](t, c, nil)
	put(t, q, 1, &recipes.PutOptions{ID: "1"})
	member := join(t, group(t, c, "web"), "")
	barrier, err := c.Barrier("frozen")
	require.NoError(t, err)
	require.NoError(t, barrier.Set(ctx))
	g.shows("queue work: 1 ready", "group web: 1 member | member a", "barrier frozen: set by a")
	w.server.Restart(t)
	eventually(t, "the barrier to be lifted", func() bool { return barrier.Lift(ctx) == nil })
	put(t, q, 2, &recipes.PutOptions{ID: "2"})
	counter, err := recipes.NewCounter(c, "new")
	require.NoError(t, err)
	_, err = counter.Add(ctx, 1)
	require.NoError(t, err)
	g.shows("queue work: 2 ready", "group web: 1 member | member a", "counter new: 1")
	eventually(t, "the barrier to be gone", func() bool { return g.object("barrier/frozen").Gone() })
	require.NoError(t, member.Leave(ctx))
}

// testCostOfView has objects of several kinds: one watch shows them all, and costs
// nothing while nothing changes.
func testCostOfView(t *testing.T, w *world) {
	ctx := context.Background()
	c, observer := w.client(t, Options{Label: "a", TTL: costTTL}), w.client(t, Options{})
	hold := lock(t, mutex(t, c, "held"))
	q := workQueue[int](t, c, nil)
	for i := range 20 {
		put(t, q, i, nil)
	}
	counter, err := recipes.NewCounter(c, "counted")
	require.NoError(t, err)
	_, err = counter.Add(ctx, 1)
	require.NoError(t, err)
	w.settle(t)
	before := w.server.Cost(t)
	v := w.view(t, observer, "")
	cost := w.server.Cost(t).Sub(before)
	t.Logf("a watch of 22 objects and items: %+v", cost)
	if w.limits.ViewWatches > 0 {
		require.LessOrEqual(t, cost.Watches, w.limits.ViewWatches, "watches")
	}
	before = w.server.Cost(t)
	eventually(t, "three renewals", func() bool { return w.server.Cost(t).Sub(before).Renewals >= 3 })
	idle := w.server.Cost(t).Sub(before)
	require.Zero(t, idle.Reads+idle.Commits+idle.Watches, "reads, commits and watches while nothing changes: %+v", idle)
	put(t, q, 20, nil)
	eventually(t, "the item", func() bool { return describe(v.object("queue/work")) == "queue work: 21 ready" })
	unlock(t, hold)
}
