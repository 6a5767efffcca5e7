package recipes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a client in memory that is closed when the test ends.
func open(t *testing.T, server *memory.Server, o *memory.Options) *recipes.Client {
	t.Helper()
	c, err := memory.Open(server, o)
	require.NoError(t, err)
	return c
}

func lock(t *testing.T, c *recipes.Client, name string) *recipes.Hold {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	h, err := m.Lock(context.Background())
	require.NoError(t, err)
	return h
}
