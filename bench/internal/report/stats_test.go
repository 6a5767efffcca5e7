package report_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/bench/internal/report"
)

const ms = time.Millisecond

func TestNewSample(t *testing.T) {
	t.Parallel()
	s, err := report.NewSample([]time.Duration{1 * ms, 2 * ms, 5 * ms, 7 * ms, 90 * ms}, 7*ms)
	require.NoError(t, err)
	require.Equal(t, report.Sample{Mean: 2 * ms, Each: []time.Duration{1 * ms, 3 * ms, 2 * ms}}, s)
}

func TestNewSampleOfSlowOperations(t *testing.T) {
	t.Parallel()
	s, err := report.NewSample([]time.Duration{30 * ms, 70 * ms, 80 * ms}, 7*ms)
	require.NoError(t, err)
	require.Equal(t, report.Sample{Mean: 40 * ms, Each: []time.Duration{40 * ms}}, s)
	_, err = report.NewSample([]time.Duration{ms}, 7*ms)
	require.Error(t, err)
}

func TestNewSpans(t *testing.T) {
	t.Parallel()
	s, err := report.NewSpans([]time.Duration{3 * ms, 1 * ms, 5 * ms})
	require.NoError(t, err)
	require.Equal(t, report.Sample{Mean: 3 * ms, Each: []time.Duration{3 * ms, 1 * ms, 5 * ms}}, s)
	_, err = report.NewSpans(nil)
	require.Error(t, err)
}

func TestMedian(t *testing.T) {
	t.Parallel()
	require.Equal(t, 0*ms, report.Median[time.Duration](nil))
	require.Equal(t, 5*ms, report.Median([]time.Duration{9 * ms, 5 * ms, 1 * ms}))
	require.InDelta(t, 2.5, report.Median([]float64{4, 1, 2, 3}), 0)
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var values []time.Duration
	for i := range 100 {
		values = append(values, time.Duration(100-i)*ms)
	}
	require.Equal(t, 1*ms, report.Quantile(values, 0))
	require.Equal(t, 50*ms, report.Quantile(values, 0.5))
	require.Equal(t, 99*ms, report.Quantile(values, 0.99))
	require.Equal(t, 100*ms, report.Quantile(values, 1))
	require.Equal(t, 100*ms, values[0], "the values stay in their order")
	require.Equal(t, 0*ms, report.Quantile[time.Duration](nil, 0.5))
}
