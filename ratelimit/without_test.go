package ratelimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// TestDecayAdmitsLargeCalls has calls, while the store is away, that need more tokens than
// come in a second: they are admitted as those come, and who waits comes first.
func TestDecayAdmitsLargeCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := &memory.Link{}
		store, err := memory.NewStore(memory.NewServer(), &memory.Options{Link: link})
		require.NoError(t, err)
		client, err := recipes.NewClient(store, nil)
		require.NoError(t, err)
		l, err := New(client, "api", &Options{Config: Config{Rate: PerSecond(2), Burst: 10}, OnUnavailable: Decay})
		require.NoError(t, err)
		_, err = l.WaitN(t.Context(), "", 10)
		require.NoError(t, err)
		link.StallBoth()
		begun, spent := time.Now(), int64(0)
		until := func(n int64) {
			for ok := false; !ok; time.Sleep(10 * time.Millisecond) {
				require.Less(t, time.Since(begun), time.Minute)
				d, err := l.AllowN(t.Context(), "", n)
				require.NoError(t, err)
				ok = d.OK
			}
			spent += n
		}
		for range 2 {
			until(8)
			done := make(chan error, 1)
			r, err := l.ReserveN(t.Context(), "", 6)
			require.NoError(t, err)
			go func() {
				_, err := r.Wait(t.Context())
				done <- err
			}()
			until(1)
			select {
			case <-r.Ready():
			default:
				t.Error("who waits comes first")
			}
			require.NoError(t, <-done)
			spent += 6
		}
		require.LessOrEqual(t, float64(spent), 2*time.Since(begun).Seconds()+10)
		link.Resume()
		require.NoError(t, l.Close(context.Background()))
		require.NoError(t, client.Close())
	})
}
