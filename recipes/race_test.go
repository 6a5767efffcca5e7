package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// TestUnlockBesideLoss releases a hold while its session ends: Unlock says that it
// was released or that it was lost, and the context ends for a reason that fits.
func TestUnlockBesideLoss(t *testing.T) {
	server := memory.NewServer()
	c := open(t, server, nil)
	defer c.Close()
	for range 300 {
		hold := lock(t, c, "a")
		var wg sync.WaitGroup
		wg.Go(func() { server.Expire(hold.SessionID()) })
		err := hold.Unlock(context.Background())
		wg.Wait()
		cause := context.Cause(hold.Context())
		if err == nil {
			require.NotErrorIs(t, cause, recipes.ErrLost)
			continue
		}
		require.ErrorIs(t, err, recipes.ErrLost)
		require.True(t, errors.Is(cause, recipes.ErrLost) || errors.Is(cause, context.Canceled), "%v", cause)
	}
}
