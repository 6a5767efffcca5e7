package etcd_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// TestFirstWriteRemoved loses the reply to a register's first write, and has the value removed
// before the writer looks: it is not written again.
func TestFirstWriteRemoved(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := startHarness(t)
	link := server.Link(t)
	open := func(o recipetest.Options) *recipes.Register[int] {
		o.Root = "/removed"
		c := server.Open(t, o)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		r, err := recipes.NewRegister[int](c, "value")
		require.NoError(t, err)
		return r
	}
	a, b := open(recipetest.Options{Link: link}), open(recipetest.Options{})
	none, err := a.Snapshot(ctx)
	require.NoError(t, err)
	link.StallReplies()
	written := make(chan error, 1)
	go func() {
		_, err := a.Replace(ctx, none, 1)
		written <- err
	}()
	var v recipes.Versioned[int]
	suite.Eventually(t, "the write to be done", func() bool {
		v, err = b.Get(ctx)
		return err == nil && v.Version != 0
	})
	require.NoError(t, b.Delete(ctx, v.Version))
	link.Cut()
	link.Resume()
	require.ErrorIs(t, <-written, recipes.ErrUnavailable)
	v, err = b.Get(ctx)
	require.NoError(t, err)
	require.Zero(t, v.Version)
}
