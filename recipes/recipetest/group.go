package recipetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func group(t testing.TB, c *recipes.Client, name string) *recipes.Group {
	t.Helper()
	g, err := c.Group(name)
	require.NoError(t, err)
	return g
}

func join(t testing.TB, g *recipes.Group, meta string) *recipes.Membership {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := g.Join(ctx, meta)
	require.NoError(t, err)
	return m
}

// metas describes members by their metadata.
func metas(members []recipes.Member) string {
	var all []string
	for _, m := range members {
		all = append(all, strings.Trim(string(m.Meta), `"`))
	}
	return strings.Join(all, " ")
}

func testGroup(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{Label: "a"}), w.client(t, Options{Label: "b"})
	ga, gb := group(t, a, "workers"), group(t, b, "workers")
	members, err := gb.Members(ctx)
	require.NoError(t, err)
	require.Empty(t, members)
	ma, mb := join(t, ga, "one"), join(t, gb, "two")
	twice := join(t, ga, "three")
	other := join(t, group(t, a, "others"), "else")
	members, err = gb.Members(ctx)
	require.NoError(t, err)
	require.Equal(t, "one two three", metas(members))
	require.Equal(t, ma.ID(), members[0].ID)
	require.Equal(t, "b", members[1].Owner.Label)
	require.Equal(t, b.SessionID(), members[1].Session)
	require.NotEqual(t, ma.ID(), twice.ID())
	require.True(t, ma.Deadline().After(time.Now()))

	require.NoError(t, ma.Update(ctx, "first"))
	require.NoError(t, mb.Update(ctx, nil))
	members, err = ga.Members(ctx)
	require.NoError(t, err)
	require.Equal(t, "first  three", metas(members), "the order stays")

	require.NoError(t, ma.Leave(ctx))
	require.NoError(t, ma.Leave(ctx), "again")
	require.NotErrorIs(t, context.Cause(ma.Context()), recipes.ErrLost)
	require.ErrorIs(t, ma.Update(ctx, nil), recipes.ErrLost)
	require.NoError(t, twice.Leave(ctx))
	members, err = ga.Members(ctx)
	require.NoError(t, err)
	require.Len(t, members, 1)
	require.NoError(t, mb.Leave(ctx))
	require.NoError(t, other.Leave(ctx))

	_, err = a.Group("")
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = ga.Join(ctx, strings.Repeat("x", 65<<10))
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

// followers keeps the latest members that a watch has shown.
type followers struct {
	mu     sync.Mutex
	latest string
	seen   int
}

func (w *world) follow(t testing.TB, g *recipes.Group) *followers {
	f := &followers{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		await(t, done, "the watch to end")
	})
	go func() {
		defer close(done)
		for members, err := range g.Watch(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			f.mu.Lock()
			f.latest, f.seen = metas(members), f.seen+1
			f.mu.Unlock()
		}
	}()
	eventually(t, "the watch to be live", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.seen > 0
	})
	return f
}

func (f *followers) shows(t testing.TB, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the watch to show %q", want), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.latest == want
	})
}

func testGroupWatch(t *testing.T, w *world) {
	ctx := context.Background()
	link := w.server.Link(t)
	a := w.client(t, Options{})
	g := group(t, a, "watched")
	f := w.follow(t, group(t, w.client(t, Options{Link: link}), "watched"))
	one := join(t, g, "1")
	f.shows(t, "1")
	two := join(t, g, "2")
	f.shows(t, "1 2")
	require.NoError(t, one.Update(ctx, "uno"))
	f.shows(t, "uno 2")
	link.Cut()
	require.NoError(t, one.Leave(ctx))
	three := join(t, g, "3")
	f.shows(t, "2 3")
	for i := range 20 { // faster than the watch may follow
		require.NoError(t, two.Update(ctx, i))
	}
	f.shows(t, "19 3")
	require.NoError(t, two.Leave(ctx))
	require.NoError(t, three.Leave(ctx))
	f.shows(t, "")
}

func testGroupLoss(t *testing.T, w *world) {
	ctx := context.Background()
	a, b := w.client(t, Options{}), w.client(t, Options{})
	ga, gb := group(t, a, "loss"), group(t, b, "loss")
	f := w.follow(t, gb)
	lost, stays := join(t, ga, "lost"), join(t, gb, "stays")
	f.shows(t, "lost stays")
	w.server.Expire(t, a.SessionID())
	f.shows(t, "stays")
	await(t, lost.Context().Done(), "the member to learn of its loss")
	require.ErrorIs(t, context.Cause(lost.Context()), recipes.ErrLost)
	require.ErrorIs(t, lost.Update(ctx, "here"), recipes.ErrLost)
	require.ErrorIs(t, lost.Leave(ctx), recipes.ErrLost)
	again := join(t, ga, "again")
	f.shows(t, "stays again")
	require.NoError(t, again.Leave(ctx))
	require.NoError(t, stays.Leave(ctx))
}
