package ratelimit

import (
	"fmt"
	"time"
)

const (
	defaultTimeout = 250 * time.Millisecond
	defaultMaxKeys = 10_000
)

// An Unavailable says what becomes of decisions while the store can't be reached, when the
// tokens that the process has are spent or void.
type Unavailable int

// The policies for when the store is away.
const (
	// Closed refuses.
	Closed Unavailable = iota + 1
	// Open admits everything.
	Open
	// Decay admits at the rate that was this process's part last, which goes over to an
	// even part of the whole within some ten seconds. A process that has not reached the
	// store before refuses.
	Decay
)

// Options say what a limiter allows, and how a process uses it. nil means all defaults.
type Options struct {
	// Config is stored by the first who uses the limiter. Later what is stored counts,
	// also if it differs: OnChange tells. Without a Rate it must be stored already, and
	// decisions return ErrUnset if it is not.
	Config Config
	// OnUnavailable defaults to Closed.
	OnUnavailable Unavailable
	// Timeout bounds a request to the store, and so what a decision waits: 1 ms to 1 m.
	// After a request that failed, decisions are made at once until one succeeds.
	// Defaults to 250 ms.
	Timeout time.Duration
	// MaxKeys is how many keys a Limiter remembers: 1 to 10^6. When there are more, the
	// tokens of those that were not used for longest are given back. Defaults to 10,000.
	MaxKeys int
	// Strict has a process that starts count only the time that it has seen pass itself.
	// Otherwise it takes in how long nobody has written, by the service's clock or, on
	// etcd, by wall clocks. One that is wrong then adds at most what fills the bucket once,
	// for each start of a process.
	Strict bool
	// Clock is the wall clock, for how long nobody has written: see Strict. Nothing else
	// depends on it. Defaults to time.Now.
	Clock func() time.Time
	// OnChange is told the configuration in force when it is first seen to differ from
	// Config, and whenever it changes; key is that of the decision, "" for none. It is called
	// from a goroutine of the limiter and must return soon. Defaults to none.
	OnChange func(key string, c Config)
}

func (o *Options) complete() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.OnUnavailable = orDefault(opts.OnUnavailable, Closed)
	opts.Timeout = orDefault(opts.Timeout, defaultTimeout)
	opts.MaxKeys = orDefault(opts.MaxKeys, defaultMaxKeys)
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	switch {
	case opts.OnUnavailable < Closed || opts.OnUnavailable > Decay:
		return opts, invalid("Options.OnUnavailable", fmt.Sprintf("is %d, which is none", opts.OnUnavailable))
	case opts.Timeout < time.Millisecond || opts.Timeout > time.Minute:
		return opts, invalid("Options.Timeout", fmt.Sprintf("is %v, not 1ms to 1m", opts.Timeout))
	case opts.MaxKeys < 1 || opts.MaxKeys > 1_000_000:
		return opts, invalid("Options.MaxKeys", fmt.Sprintf("is %d, not 1 to 10^6", opts.MaxKeys))
	}
	if opts.Config.Rate == (Rate{}) {
		if opts.Config != (Config{}) {
			return opts, invalid("Config.Rate", "is missing")
		}
		return opts, nil
	}
	var err error
	opts.Config, err = opts.Config.complete()
	return opts, err
}
