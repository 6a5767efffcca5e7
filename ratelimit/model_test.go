package ratelimit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sea is a register, and processes that use it over links with random delays, in a
// time that only the test knows. They run the arithmetic alone.
type sea struct {
	t       testing.TB
	rnd     *rand.Rand
	now     int64
	events  []event
	version int
	value   *record
	config  Config
	spent   []spending
	procs   int
	slow    int64 // the longest delay
	cycle   int64 // from one rush to the next
}

type event struct {
	at int64
	do func()
}

type spending struct{ at, n int64 }

func (s *sea) after(d int64, do func()) { s.events = append(s.events, event{s.now + d, do}) }

func (s *sea) run(until int64) {
	for len(s.events) > 0 {
		i := 0
		for j := range s.events {
			if s.events[j].at < s.events[i].at {
				i = j
			}
		}
		e := s.events[i]
		s.events = slices.Delete(s.events, i, i+1)
		if e.at > until {
			return
		}
		s.now = e.at
		e.do()
	}
}

func (s *sea) delay() int64 { return s.rnd.Int64N(s.slow + 1) }

// A swimmer is a process. Its clock is off by a constant.
type swimmer struct {
	s       *sea
	id      string
	skew    int64
	clock   clock
	known   *record
	version int
	seq     uint64
	unspent int64
	stop    int64 // by its clock
	spentAt int64
	gone    bool
	cut     bool
	greed   float64
}

func (s *sea) join() {
	s.procs++
	p := &swimmer{s: s, id: fmt.Sprint(s.procs), skew: s.rnd.Int64N(1e12), greed: s.rnd.Float64(), clock: clock{sent: unknown}}
	s.after(s.delay(), p.read)
	s.after(1, p.live)
}

func (p *swimmer) local() int64 { return p.s.now + p.skew }

// rush reports whether it is a time in which all spend what they can.
func (s *sea) rush() bool { return s.now%s.cycle < s.cycle/4 }

// live spends: all in a rush, otherwise now and then, and often just before the tokens are
// void.
func (p *swimmer) live() {
	s := p.s
	if p.gone {
		return
	}
	left := p.stop - p.local()
	if p.unspent > 0 && left > 0 {
		n := int64(0)
		switch x := s.rnd.Float64(); {
		case s.rush(), left == 1, x < p.greed/10:
			n = p.unspent
		case x < 0.2:
			n = s.rnd.Int64N(p.unspent + 1)
		}
		if n > 0 {
			p.unspent -= n
			p.spentAt = p.local()
			s.spent = append(s.spent, spending{s.now, n})
		}
	}
	wait := s.rnd.Int64N(int64(20 * time.Millisecond))
	if s.rush() {
		wait = s.rnd.Int64N(int64(time.Millisecond))
	}
	switch x := s.rnd.IntN(3000); {
	case x == 0: // a crash, and another in its place
		p.gone = true
		s.join()
		return
	case x == 1 && !p.cut: // it is cut off, and spends what it has in the last moment
		p.cut = true
		s.join()
	case x < 10:
		wait = s.rnd.Int64N(int64(3 * time.Second)) // a pause
	}
	if p.cut {
		if left <= 1 {
			return
		}
		wait = left - 1
	}
	s.after(wait, p.live)
}

// read asks for the value.
func (p *swimmer) read() {
	s := p.s
	s.after(s.delay(), func() {
		value, version := s.value.clone(), s.version
		s.after(s.delay(), func() {
			if p.gone || p.cut {
				return
			}
			p.known, p.version = value, version
			p.clock.observe(value, p.local())
			s.after(s.rnd.Int64N(int64(time.Millisecond)), p.write)
		})
	})
}

// write takes tokens.
func (p *swimmer) write() {
	s := p.s
	if p.gone || p.cut {
		return
	}
	moment := p.local()
	if moment >= p.stop {
		p.unspent = 0
	}
	next := p.known.clone()
	p.seq++
	t := take{
		id: p.id, seq: p.seq, unspent: p.unspent, spentAt: min(p.spentAt, moment), need: s.rnd.Int64N(1 + s.rnd.Int64N(s.config.capacity())),
		demand: s.rnd.Int64N(int64(3*s.config.Rate.perSecond()) + 1), lead: time.Duration(s.rnd.Int64N(1e8)),
	}
	switch s.rnd.IntN(20) {
	case 0:
		t.leave, t.back, t.unspent = true, p.unspent, 0
		p.unspent = 0
	case 1:
		t.back = s.rnd.Int64N(p.unspent + 1)
		p.unspent -= t.back
		t.unspent -= t.back
	}
	g := next.apply(t, &p.clock, moment)
	version := p.version
	lostReply := s.rnd.IntN(50) == 0
	s.after(s.delay(), func() {
		ok := s.version == version
		if ok {
			s.version++
			s.value = next.clone()
		}
		s.after(s.delay(), func() {
			if p.gone || p.cut {
				return
			}
			pause := s.rnd.Int64N(int64(s.config.period()))
			if s.rush() {
				pause = s.rnd.Int64N(int64(5 * time.Millisecond))
			}
			switch {
			case !ok, lostReply: // the tokens are never spent
				s.after(pause/8, p.read)
				return
			case g.lost:
				p.unspent = 0
			}
			p.clock.wrote(next, moment, p.local())
			if !t.leave {
				p.unspent += g.tokens
				p.stop = moment + int64(next.lease())*19/20
			}
			s.after(pause, p.read)
		})
	})
}

// overshoot is by how much the tokens spent exceed limit and rate in the worst window.
func overshoot(spent []spending, c Config) float64 {
	slices.SortStableFunc(spent, func(a, b spending) int { return cmp.Compare(a.at, b.at) })
	if c.Policy == Window {
		worst, sum, first := int64(0), int64(0), 0
		for _, e := range spent {
			sum += e.n
			for spent[first].at <= e.at-int64(c.Rate.Per) {
				sum -= spent[first].n
				first++
			}
			worst = max(worst, sum)
		}
		return float64(worst - c.Rate.Tokens)
	}
	level, worst, last := 0.0, 0.0, int64(0)
	for _, e := range spent {
		level = max(level-float64(e.at-last)*float64(c.Rate.Tokens)/float64(c.Rate.Per), 0) + float64(e.n)
		worst, last = max(worst, level), e.at
	}
	return worst - float64(c.Burst)
}

// TestEveryWindow has processes come, hoard, spend, pause and crash at random, and looks at
// every window of what they spent.
func TestEveryWindow(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 30
	}
	for _, policy := range []Policy{Bucket, Window} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			var used float64 // the sum of the parts of what was allowed
			for range seeds {
				seed := rand.Uint64()
				rnd := rand.New(rand.NewPCG(seed, 1))
				c := Config{Rate: Rate{1 + rnd.Int64N(3000), leastPer + time.Duration(rnd.Int64N(int64(2*time.Second)))}, Policy: policy}
				if policy == Bucket {
					c.Burst = 1 + rnd.Int64N(int64(2*c.Rate.perSecond())+3)
				}
				if rnd.IntN(3) == 0 {
					c.Slack = rnd.Int64N(2000)
				}
				c, err := c.complete()
				require.NoError(t, err)
				s := &sea{t: t, rnd: rnd, config: c, value: newRecord(c, "a"), slow: rnd.Int64N(int64(100 * time.Millisecond)),
					cycle: int64(time.Second) + rnd.Int64N(int64(5*time.Second))}
				s.value.Lag = 0
				for range 1 + rnd.IntN(6) {
					s.join()
				}
				s.run(int64(30 * time.Second))
				over := overshoot(s.spent, c)
				require.LessOrEqual(t, over, float64(c.Slack)+1e-6, "seed %d: %+v", seed, c)
				var spent float64
				for _, e := range s.spent {
					spent += float64(e.n)
				}
				used += spent / (float64(c.Limit()) + 30*c.Rate.perSecond())
			}
			t.Logf("spent %.1f %%, on average", 100*used/float64(seeds))
			require.Greater(t, used/float64(seeds), 0.1, "the processes have spent something")
		})
	}
}
