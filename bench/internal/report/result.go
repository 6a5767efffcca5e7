package report

import (
	"slices"
	"time"
)

// A Role says what a contender is in a comparison.
type Role int

// The roles of contenders.
const (
	Ours  Role = iota // what the benchmark is about
	Peer              // what does the same
	Floor             // what costs less because it does less
)

// A Count is what one operation cost the servers, by their own counters.
type Count struct {
	What string // such as "commits"
	Each float64
}

// What is counted of a cycle of one client, beside what the servers count.
const (
	MicrosToLock     = "µs to lock"
	MicrosToUnlock   = "µs to unlock"
	RequestsToLock   = "requests to lock"
	RequestsToUnlock = "requests to unlock"
)

// A Result is what one contender did in one scenario.
type Result struct {
	Name    string
	Role    Role
	Samples []Sample // by round; none if it was not measured
	Counts  []Count
	Absent  string // why it was not measured
}

// Time is the median over the rounds of the mean time of an operation.
func (r *Result) Time() time.Duration { return Median(r.means()) }

// Range is the shortest and the longest of the rounds' mean times.
func (r *Result) Range() (shortest, longest time.Duration) {
	if len(r.Samples) == 0 {
		return 0, 0
	}
	means := r.means()
	return slices.Min(means), slices.Max(means)
}

func (r *Result) means() []time.Duration {
	var means []time.Duration
	for _, s := range r.Samples {
		means = append(means, s.Mean)
	}
	return means
}

// Quantile is a quantile of the times of all operations of all rounds.
func (r *Result) Quantile(q float64) time.Duration {
	var each []time.Duration
	for _, s := range r.Samples {
		each = append(each, s.Each...)
	}
	return Quantile(each, q)
}

// Against is how many times as long as the other this one takes: the median of
// the ratios of the rounds. It is 0 if one of them was not measured.
func (r *Result) Against(other *Result) float64 {
	var ratios []float64
	for i := range min(len(r.Samples), len(other.Samples)) {
		ratios = append(ratios, float64(r.Samples[i].Mean)/float64(other.Samples[i].Mean))
	}
	return Median(ratios)
}

// Count is what one operation cost, by what was counted.
func (r *Result) Count(what string) (each float64, counted bool) {
	for _, c := range r.Counts {
		if c.What == what {
			return c.Each, true
		}
	}
	return 0, false
}

// A Scenario is one thing to do, and how each contender did it.
type Scenario struct {
	Name      string // such as "etcd/cycle"
	Title     string
	Operation string // what is timed, such as "cycle"
	Results   []*Result
	Goals     []Goal
}

// Ours is the result that the others are compared with, nil if there is none.
func (s *Scenario) Ours() *Result {
	for _, r := range s.Results {
		if r.Role == Ours && len(r.Samples) > 0 {
			return r
		}
	}
	return nil
}

// measured is the result of a contender, nil if it was not measured.
func (s *Scenario) measured(name string) *Result {
	for _, r := range s.Results {
		if r.Name == name && len(r.Samples) > 0 {
			return r
		}
	}
	return nil
}

// best is the fastest of the peers, nil if none was measured.
func (s *Scenario) best() *Result {
	var best *Result
	for _, r := range s.Results {
		if r.Role == Peer && len(r.Samples) > 0 && (best == nil || r.Time() < best.Time()) {
			best = r
		}
	}
	return best
}
