// Package clock is the time of day as package job sees it, which tests replace.
package clock

import (
	"context"
	"sync"
	"time"
)

// lookAgain is how often the clock is looked at while a moment is waited for: it may be
// set meanwhile, or stand still with the machine.
const lookAgain = 10 * time.Second

// A Clock tells the time of day, and wakes at it.
type Clock interface {
	Now() time.Time
	// Steady is the time since some moment, and passes evenly also when the clock is set.
	Steady() time.Duration
	// Until returns a channel that receives when a moment has come, or earlier; of the
	// zero moment nobody knows when. Call stop to free what that takes.
	Until(moment time.Time) (come <-chan time.Time, stop func())
}

type key struct{}

// With returns a context that has a clock.
func With(ctx context.Context, c Clock) context.Context { return context.WithValue(ctx, key{}, c) }

// From is the context's clock, or else the machine's.
func From(ctx context.Context) Clock {
	if c, ok := ctx.Value(key{}).(Clock); ok {
		return c
	}
	return machine{}
}

type machine struct{}

// began has a reading of the machine's monotonic clock.
var began = time.Now()

func (machine) Now() time.Time { return time.Now() }

func (machine) Steady() time.Duration { return time.Since(began) }

func (machine) Until(moment time.Time) (<-chan time.Time, func()) {
	d := lookAgain
	if !moment.IsZero() {
		d = min(d, time.Until(moment))
	}
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// A Fake is time that passes when it is told to, for several clocks that need not
// agree. Its methods, and those of its clocks, may be called at the same time.
type Fake struct {
	mu       sync.Mutex
	now      time.Time
	sleepers map[chan time.Time]sleeper
}

type sleeper struct {
	hand   *Hand
	moment time.Time
}

// NewFake makes a time that begins with a moment.
func NewFake(now time.Time) *Fake {
	return &Fake{now: now, sleepers: map[chan time.Time]sleeper{}}
}

// Advance has time pass.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.wake()
}

// wake wakes those whose moment has come.
func (f *Fake) wake() {
	for c, s := range f.sleepers {
		if now := f.now.Add(s.hand.ahead); !s.moment.After(now) {
			c <- now
			delete(f.sleepers, c)
		}
	}
}

// Waiting is how many wait for a moment.
func (f *Fake) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sleepers)
}

// Clock makes a clock that is ahead of the time, or behind it.
func (f *Fake) Clock(ahead time.Duration) *Hand { return &Hand{fake: f, ahead: ahead} }

// A Hand is one clock of a Fake.
type Hand struct {
	fake  *Fake
	ahead time.Duration // under fake.mu
}

// Set sets the clock ahead, or back.
func (h *Hand) Set(ahead time.Duration) {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	h.ahead = ahead
	h.fake.wake()
}

// Now implements Clock.
func (h *Hand) Now() time.Time {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	return h.fake.now.Add(h.ahead)
}

// Steady implements Clock.
func (h *Hand) Steady() time.Duration {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	return h.fake.now.Sub(time.Unix(0, 0))
}

// Until implements Clock.
func (h *Hand) Until(moment time.Time) (<-chan time.Time, func()) {
	f, c := h.fake, make(chan time.Time, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !moment.IsZero() {
		f.sleepers[c] = sleeper{h, moment}
		f.wake()
	}
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.sleepers, c)
	}
}
