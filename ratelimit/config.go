package ratelimit

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// The bounds of a Config.
const (
	mostTokens = 1_000_000_000_000
	leastPer   = time.Millisecond
	mostPer    = 366 * 24 * time.Hour

	defaultPeriod = time.Second
	leastPeriod   = 10 * time.Millisecond
	mostPeriod    = 10 * time.Second
)

// A Rate is so many tokens in so much time. Both are whole numbers, so that a rate is
// exact however long it runs.
type Rate struct {
	Tokens int64         `json:"tokens"` // 1 to 10^12
	Per    time.Duration `json:"per"`    // 1 ms to 366 days
}

// PerSecond is the rate of n tokens a second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// ParseRate reads "100/s", "5/10m" or "1000/1h30m". It returns ErrInvalid for a rate that
// can't be read or is out of range.
func ParseRate(text string) (Rate, error) {
	bad := func(problem string) (Rate, error) {
		return Rate{}, &recipes.InvalidError{Field: "rate", Problem: fmt.Sprintf("%q %s", text, problem)}
	}
	tokens, per, ok := strings.Cut(text, "/")
	if !ok {
		return bad(`is not of the form "100/s" or "5/10m"`)
	}
	n, err := strconv.ParseInt(tokens, 10, 64)
	if err != nil {
		return bad("does not begin with a whole number of tokens")
	}
	if per != "" && strings.Trim(per, "0123456789.") == per {
		per = "1" + per
	}
	d, err := time.ParseDuration(per)
	if err != nil {
		return bad("does not end in a time, such as s, m, h or 10m")
	}
	r := Rate{n, d}
	if problem := r.problem(); problem != "" {
		return bad(problem)
	}
	return r, nil
}

// String is the form that ParseRate reads.
func (r Rate) String() string {
	per := r.Per.String()
	switch r.Per {
	case time.Millisecond, time.Second:
		per = per[1:]
	case time.Minute:
		per = "m"
	case time.Hour:
		per = "h"
	default:
		for _, zero := range []struct{ long, short string }{{"m0s", "m"}, {"h0m", "h"}} {
			if strings.HasSuffix(per, zero.long) {
				per = strings.TrimSuffix(per, zero.long) + zero.short
			}
		}
	}
	return strconv.FormatInt(r.Tokens, 10) + "/" + per
}

func (r Rate) problem() string {
	switch {
	case r.Tokens < 1 || r.Tokens > mostTokens:
		return fmt.Sprintf("has %d tokens, not 1 to 10^12", r.Tokens)
	case r.Per < leastPer || r.Per > mostPer:
		return fmt.Sprintf("is for %v, not 1ms to 366 days", r.Per)
	}
	return ""
}

// minted is how many whole tokens come in so much time, and what is left of the next one
// in units of 1/Per of a token. part is what was left before.
func (r Rate) minted(d, part int64) (tokens, rest int64) {
	if d <= 0 {
		return 0, part
	}
	hi, lo := bits.Mul64(uint64(r.Tokens), uint64(d))
	lo, carry := bits.Add64(lo, uint64(part), 0)
	hi += carry
	if hi >= uint64(r.Per) {
		return math.MaxInt64, 0
	}
	quo, rem := bits.Div64(hi, lo, uint64(r.Per))
	if quo > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(quo), int64(rem)
}

// lasts is how long n tokens take to come, rounded up.
func (r Rate) lasts(n int64) time.Duration {
	if n <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(r.Per))
	if hi >= uint64(r.Tokens) {
		return math.MaxInt64
	}
	quo, rem := bits.Div64(hi, lo, uint64(r.Tokens))
	if quo >= math.MaxInt64 {
		return math.MaxInt64
	}
	if rem > 0 {
		quo++
	}
	return time.Duration(quo)
}

// perSecond is the rate as a number, for estimates.
func (r Rate) perSecond() float64 { return float64(r.Tokens) / r.Per.Seconds() }

// A Policy says what a limiter limits.
type Policy string

// The policies.
const (
	// Bucket is a token bucket: tokens come at the rate, and up to Burst of them wait to
	// be used. In a window of w it admits up to burst + rate·w, so the burst adds to the
	// rate: "17 per 30 s" with a burst of 17 admits 34 in some window of 30 s. For "never
	// more than 17 in any 30 s" use Window.
	Bucket Policy = "bucket"
	// Window admits up to Rate.Tokens in any window of length Rate.Per, wherever it
	// begins. There is no burst. It admits a little less than a bucket in the long run:
	// what was used is counted for up to a sixteenth of Per longer than need be.
	Window Policy = "window"
)

// A Mode says how decisions are made.
type Mode string

// The modes.
const (
	// Leased: each process takes tokens for the time to come, and spends them in memory.
	Leased Mode = "leased"
	// Exact: each decision is made by a commit to the store. Calls of one process that
	// wait at the same time share one.
	Exact Mode = "exact"
)

// A Config is what a limiter allows. It is stored, and the same for all processes.
type Config struct {
	// Rate is how many tokens there are in how much time.
	Rate Rate `json:"rate"`
	// Burst is how many tokens can wait to be used: 1 to 10^12. Window has none. Defaults
	// to what the rate brings in a second, but at least 1.
	Burst int64 `json:"burst,omitempty"`
	// Slack is by how many tokens Burst + Rate·w, or the limit of a Window, may be exceeded
	// in some window of w. Processes that have taken tokens and not said yet that they are
	// spent have them beside the bucket, up to Slack. With 0, the default, they have them
	// of the bucket, and nothing is ever exceeded. See the package's comment for what is
	// gained by more.
	Slack int64 `json:"slack,omitempty"`
	// Policy defaults to Bucket.
	Policy Policy `json:"policy,omitempty"`
	// Mode defaults to Leased.
	Mode Mode `json:"mode,omitempty"`
	// Period is for how long a process takes tokens at a time: 10 ms to 10 s. It is less
	// where Burst and Slack are less than three periods' tokens. Defaults to 1 s.
	Period time.Duration `json:"period,omitempty"`
}

// Validate returns ErrInvalid if a field is out of range.
func (c Config) Validate() error {
	_, err := c.complete()
	return err
}

// complete fills in the defaults.
func (c Config) complete() (Config, error) {
	if problem := c.Rate.problem(); problem != "" {
		return c, invalid("Config.Rate", problem)
	}
	c.Policy, c.Mode = orDefault(c.Policy, Bucket), orDefault(c.Mode, Leased)
	c.Period = orDefault(c.Period, defaultPeriod)
	switch {
	case c.Policy == Window && c.Burst != 0:
		return c, invalid("Config.Burst", "is for a bucket, and Window has none")
	case c.Policy == Bucket && c.Burst == 0:
		c.Burst = min(max(1, int64(c.Rate.perSecond())), mostTokens)
	}
	switch {
	case c.Policy != Bucket && c.Policy != Window:
		return c, invalid("Config.Policy", fmt.Sprintf("%q is neither bucket nor window", c.Policy))
	case c.Mode != Leased && c.Mode != Exact:
		return c, invalid("Config.Mode", fmt.Sprintf("%q is neither leased nor exact", c.Mode))
	case c.Burst < 0 || c.Burst > mostTokens:
		return c, invalid("Config.Burst", fmt.Sprintf("is %d, not 1 to 10^12", c.Burst))
	case c.Slack < 0 || c.Slack > mostTokens:
		return c, invalid("Config.Slack", fmt.Sprintf("is %d, not 0 to 10^12", c.Slack))
	case c.Period < leastPeriod || c.Period > mostPeriod:
		return c, invalid("Config.Period", fmt.Sprintf("is %v, not %v to %v", c.Period, leastPeriod, mostPeriod))
	}
	return c, nil
}

// Limit is how many tokens can be there at once: the burst, or the tokens of a window.
func (c Config) Limit() int64 {
	if c.Policy == Window {
		return c.Rate.Tokens
	}
	return c.Burst
}

// capacity is how many tokens can be there and out at once.
func (c Config) capacity() int64 { return c.Limit() + c.Slack }

// shortest is the shortest time for which tokens are taken: about a round trip.
const shortest = 5 * time.Millisecond

// period is for how long a process takes tokens. What is out occupies the bucket until
// its process says that it is spent, so a third of the capacity is taken at a time.
func (c Config) period() time.Duration {
	fits := float64(c.capacity()) / (3 * c.Rate.perSecond()) * float64(time.Second)
	if fits >= float64(c.Period) {
		return c.Period
	}
	return max(time.Duration(fits), shortest)
}

// lease is how long tokens that were taken can be spent.
func (c Config) lease() time.Duration { return max(3*c.period(), time.Second) }

func invalid(field, problem string) error {
	return &recipes.InvalidError{Field: field, Problem: problem}
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
