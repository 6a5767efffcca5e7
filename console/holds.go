package console

import (
	"slices"
	"time"
)

// maxHolds is how many finished holds of a lock are remembered.
const maxHolds = 128

// holds is the record of a lock's finished holds, or of what has flowed through a limiter.
// It is not changed once made: add returns the next one.
type holds struct {
	count  int             // all that were seen
	recent []time.Duration // the last of them, oldest first
	flow   flow
}

func (h holds) add(d time.Duration) holds {
	keep := h.recent[max(0, len(h.recent)-maxHolds+1):]
	recent := make([]time.Duration, 0, len(keep)+1)
	return holds{count: h.count + 1, recent: append(append(recent, keep...), max(d, 0))}
}

func (h holds) mean() time.Duration {
	if len(h.recent) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range h.recent {
		sum += d
	}
	return sum / time.Duration(len(h.recent))
}

// quantile returns the smallest recent hold that at least the fraction q of them
// does not exceed.
func (h holds) quantile(q float64) time.Duration {
	if len(h.recent) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(h.recent))
	i := int(q * float64(len(sorted)))
	if float64(i) == q*float64(len(sorted)) {
		i--
	}
	return sorted[min(max(i, 0), len(sorted)-1)]
}
