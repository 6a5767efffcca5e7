package main

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRates measures for moments, to see that everything works. What is not installed is
// left out by name.
func TestRates(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	err := rates(ctx, []string{"-dir", t.TempDir(), "-duration", "300ms", "-warm", "200ms", "-run", "strict/8/|million/1/lockctl$"}, &out, &progress)
	require.NoError(t, err, "%s", &progress)
	for _, contender := range []string{rateLeased, rateExact, rateLocal, rateRedis, rateEtcdCAS} {
		require.Regexp(t, `\| `+contender+` \| 8 \| `, out.String())
	}
	require.Contains(t, out.String(), "| strict | overshoot ≤ 0 in every window | 0 | met |")
	require.Error(t, rates(ctx, []string{"-run", "("}, &out, &progress))
	require.Error(t, rateWorker("{", nil, nil))
}

func TestOvershoot(t *testing.T) {
	limit := rateLimit{Rate: 1000, Burst: 10}
	require.Zero(t, overshoot([]int64{11, 1, 0, 0, 2}, limit))
	require.InDelta(t, 4, overshoot([]int64{0, 0, 15, 0, 0}, limit), 1e-9)
	require.InDelta(t, 3, overshoot([]int64{0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 5}, limit), 1e-9)
}

func TestHistogram(t *testing.T) {
	var h, other histogram
	for ns := int64(1); ns <= 1_000_000; ns += 7 {
		if ns%2 == 0 {
			h.add(ns)
		} else {
			other.add(ns)
		}
	}
	h.merge(other)
	for _, q := range []float64{0.1, 0.5, 0.99} {
		got := float64(h.quantile(q))
		require.InDelta(t, q*1e6, got, 0.07*q*1e6)
	}
	require.Zero(t, (histogram)(nil).quantile(0.5))
	require.Less(t, math.Abs(float64(h.quantile(0))-16), 2.0)
}
