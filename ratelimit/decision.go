package ratelimit

import "time"

// A Decision says whether a call may go on, and what a caller can be told of the limit. What it
// says of the future is an estimate, made from what this process knows.
type Decision struct {
	// OK says that the tokens were there, and are spent.
	OK bool
	// Limit is how many tokens can be there at once: the burst, or those of a window.
	Limit int64
	// Remaining is how many this process knows to be there.
	Remaining int64
	// ResetAfter is the time until all are there again, if nobody spends any.
	ResetAfter time.Duration
	// RetryAfter is the time until so many tokens may be there; 0 if OK. It is Never if
	// more were asked for than can be there at once.
	RetryAfter time.Duration
	// Degraded says that the decision was made without the store, by Options.OnUnavailable.
	Degraded bool
	// Rate and Policy are those in force.
	Rate   Rate
	Policy Policy
}

// Never is the RetryAfter of a call that no waiting helps.
const Never = never

// view is what a bucket knows of its limiter, for decisions.
type view struct {
	config Config
	free   int64   // in the store, when it was seen
	share  float64 // tokens a second that are this process's part
	even   float64 // what it would be if all were equal
	seen   int64   // when
	alive  bool    // it was seen at all
}

// decision describes a state of affairs: here are the tokens in this process.
func (v *view) decision(ok bool, here, now int64) Decision {
	d := Decision{OK: ok, Limit: v.config.Limit(), Rate: v.config.Rate, Policy: v.config.Policy}
	there := v.free
	if v.config.Policy == Bucket && v.alive {
		// An estimate: not worth a division of 128 bits.
		there += int64(float64(now-v.seen) * float64(v.config.Rate.Tokens) / float64(v.config.Rate.Per))
	}
	d.Remaining = max(min(here+max(there, 0), d.Limit), 0)
	if missing := d.Limit - d.Remaining; missing > 0 && v.config.Rate.Tokens > 0 {
		d.ResetAfter = time.Duration(float64(missing) * float64(v.config.Rate.Per) / float64(v.config.Rate.Tokens))
	}
	return d
}
