package report

import (
	"errors"
	"math"
	"slices"
	"time"
)

// A Sample is one round of one contender.
type Sample struct {
	Mean time.Duration   // of the following
	Each []time.Duration // from one completed operation to the next, or how long each took
}

// NewSample makes a sample of the moments at which operations were completed,
// in order, as times since the start. Moments after the window don't count,
// except for the first two: clients then end one by one, so that fewer contend. It
// returns an error if there are fewer than two.
func NewSample(at []time.Duration, window time.Duration) (Sample, error) {
	if len(at) < 2 {
		return Sample{}, errors.New("fewer than two operations in one round: it needs a longer duration")
	}
	n, _ := slices.BinarySearch(at, window+1)
	n = max(n, 2)
	each := make([]time.Duration, n-1)
	for i := range each {
		each[i] = at[i+1] - at[i]
	}
	return Sample{Mean: (at[n-1] - at[0]) / time.Duration(n-1), Each: each}, nil
}

// NewSpans makes a sample of how long each operation took, for operations that don't
// follow one another.
func NewSpans(each []time.Duration) (Sample, error) {
	if len(each) == 0 {
		return Sample{}, errors.New("no operations in one round: it needs a longer duration")
	}
	var sum time.Duration
	for _, d := range each {
		sum += d
	}
	return Sample{Mean: sum / time.Duration(len(each)), Each: each}, nil
}

// number is what statistics are computed of.
type number interface{ ~int64 | ~float64 }

// Median is the middle of the values, or the mean of the two in the middle, and
// 0 if there are none.
func Median[T number](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile is the least value such that the part q of all values, between 0 and
// 1, is not larger. It is 0 if there are no values.
func Quantile[T number](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
