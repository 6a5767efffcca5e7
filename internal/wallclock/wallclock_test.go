package wallclock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/wallclock"
)

func TestShift(t *testing.T) {
	supported := wallclock.Supported()
	clock, err := wallclock.Take()
	require.Equal(t, supported, err == nil)
	if errors.Is(err, wallclock.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	before := time.Now()
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		clock.Shift(by)
		now := time.Now()
		require.InDelta(t, by.Seconds(), now.Round(0).Sub(before.Round(0)).Seconds(), 5)
		require.Less(t, now.Sub(before), 5*time.Second, "the monotonic clock is as it was")
	}
}
