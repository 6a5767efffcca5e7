package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	limits := recipetest.Limits{CycleCommits: 2, CycleReads: 0, WakeReads: 1, TurnReads: 1, ViewWatches: 1}
	recipetest.Run(t, limits, func(testing.TB) recipetest.Server { return harness{memory.NewServer()} })
}

func TestInvalidOptions(t *testing.T) {
	_, err := memory.Open(nil, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = memory.Open(memory.NewServer(), &memory.Options{TTL: -1})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = memory.Open(memory.NewServer(), &memory.Options{
		Client: recipes.ClientOptions{Owner: recipes.Owner{Label: "a\nb"}},
	})
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

// harness implements recipetest.Server.
type harness struct{ server *memory.Server }

func (h harness) Open(t testing.TB, o recipetest.Options) *recipes.Client {
	t.Helper()
	options := &memory.Options{Root: o.Root, TTL: o.TTL}
	options.Client.Owner.Label = o.Label
	if o.Link != nil {
		options.Link = o.Link.(*memory.Link)
	}
	c, err := memory.Open(h.server, options)
	require.NoError(t, err)
	return c
}

func (h harness) Link(testing.TB) recipetest.Link { return &memory.Link{} }

func (h harness) Expire(_ testing.TB, sessionID string) { h.server.Expire(sessionID) }

func (h harness) Restart(testing.TB) { h.server.Restart() }

func (h harness) Cost(testing.TB) recipetest.Cost {
	c := h.server.Counts()
	return recipetest.Cost{
		Commits: c.Commits, Reads: c.Reads, Watches: c.Watches, Renewals: c.Renewals, Events: c.Events,
	}
}

func (h harness) Foreign(testing.TB, string, string) {}

func (h harness) Reap(testing.TB, string, string) {}

func (h harness) Remove(_ testing.TB, root, name string) { h.server.Remove(root, name) }

func (h harness) Left(_ testing.TB, root string) []string { return h.server.Left(root) }
