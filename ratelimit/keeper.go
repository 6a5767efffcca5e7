package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

const (
	// wallError is what is deducted from the time that passed by wall clocks, for what they
	// differ by and what a commit takes. Times of a service's clock are to a millisecond.
	wallError  = 50 * time.Millisecond
	storeError = time.Millisecond
	// conflictPause is the longest pause after another has written first; then it doubles.
	conflictPause = 2 * time.Millisecond
)

// A keeper is what the goroutine of a bucket's flight knows of the register. There is one
// at a time.
type keeper struct {
	single bool // the process takes once, by a commit, whatever the mode
	known  recipes.Snapshot[record]
	fresh  bool                      // known was not seen to be out of date
	told   *recipes.Snapshot[record] // what a write that came too late was told
	toldAt int64
	own    uint64 // the version that this process has written last
	lonely bool   // nobody else has written between the last two looks
	clock  clock
	seq    uint64
	sent   *attempt                  // whose outcome is unknown
	listed bool                      // the record may have this process
	met    bool                      // the register was read before
	touch  *recipes.Snapshot[record] // the value that was there first, until its age is known
	bank   bool                      // what is known of the time is to be written

	moment int64 // the present one when it was asked for last
	wall   int64 // and the wall clock then; 0 if it never was

	demand float64 // tokens a second
	since  int64   // moment of the last round
	had    int64   // tokens then
	trip   float64 // how long a round takes, in nanoseconds
	giving int64   // tokens to give back with the next write
}

// An attempt is a write that this process has made.
type attempt struct {
	take   take
	moment int64
	wall   int64
	record *record
	grant  grant
	calls  []*call // that it decides, in mode Exact
}

func random() float64 { return rand.Float64() }

// round reads what is to be read and writes once, until that succeeds.
func (b *bucket) round(ctx context.Context) error {
	begun := b.l.now()
	b.mu.Lock()
	must := b.errand == refit
	b.mu.Unlock()
	tries := 0
	b.told = nil // by an earlier round
	for again := false; ; {
		if err := b.know(ctx, must); err != nil {
			return fmt.Errorf("limiter %q: %w", b.name, err)
		}
		done, err := b.once(ctx, must)
		switch {
		case err == nil && done && b.touched() && b.needy() && !again:
			again = true // the service has told the time that has passed
			continue
		case err == nil && done:
			b.trip += (float64(b.l.now()-begun) - b.trip) / 4
			return nil
		case err == nil: // must read first
			must = true
			continue
		case !passing(err) || ctx.Err() != nil:
			return fmt.Errorf("limiter %q: %w", b.name, err)
		}
		must, b.lonely = true, false // whether it was written is seen then
		// The more who write at once, the longer it takes until each has had its turn.
		// Who was told what is there tries again at once, but only once: or else it would keep
		// the others from theirs.
		if tries++; tries > 1 || b.told == nil {
			b.told = nil
			pause(ctx, time.Duration(random()*float64(conflictPause<<min(tries-1, 6))))
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// meet takes in how long nobody has written: by the service's clock when this process
// has written too, or else by the wall clock.
func (b *bucket) meet(snap *recipes.Snapshot[record], received int64) {
	if !snap.Stored.IsZero() {
		b.touch = snap
		return
	}
	b.credit(&snap.Value, b.l.opts.Clock().Sub(snap.At)-wallError, received)
}

func (b *bucket) credit(s *record, passed time.Duration, received int64) {
	useful := max(s.Rate.lasts(s.capacity()), s.lease(), s.Rate.Per) // more makes no difference
	b.clock.credit(s, int64(min(passed, 2*min(useful, mostPer))), received)
}

// touched reports whether the last write has told how long nobody had written before.
func (b *bucket) touched() bool {
	touch := b.touch
	b.touch = nil
	if touch == nil || b.known.Stored.IsZero() || b.known.Version != b.own {
		return false
	}
	if touch.Value.Born != b.known.Value.Born || touch.Value.Base != b.known.Value.Base {
		return false // what was before a base is never caught up with
	}
	b.credit(&touch.Value, b.known.Stored.Sub(touch.Stored)-storeError, b.l.now())
	return true
}

// needy reports whether a decision waits for more than is here.
func (b *bucket) needy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls) > 0 || b.shortfall(b.known.Value.Limit()) > b.avail.Load()
}

// settle finds out what became of a write whose reply was lost.
func (b *bucket) settle(s *record) {
	sent := b.sent
	b.lose(nil)
	if sent != nil && s.Born == sent.record.Born && s.has(sent.take) {
		b.adopt(sent)
		b.mu.Lock()
		waiting := len(sent.calls) > 0 && len(b.calls) >= len(sent.calls) && b.calls[0] == sent.calls[0]
		b.mu.Unlock()
		if waiting { // or else they were answered when the flight failed
			b.answer(sent.calls, sent.grant, sent.record, b.l.now())
		}
	}
}

// once computes the next value from the known one and writes it. It returns false
// if it has to be read first. read says that it was.
func (b *bucket) once(ctx context.Context, read bool) (done bool, err error) {
	s := b.known.Value.clone()
	if base := b.l.base.view.Load(); b.key != "" && !s.Own && base.alive && base.config != s.Config {
		s.configure(base.config, false)
	}
	b.mu.Lock()
	errand, queued := b.errand, len(b.queue) > 0 && len(b.calls) == 0 // those calls came before the line
	b.mu.Unlock()
	switch {
	case errand == prune:
		err = b.remove(ctx, s)
	case errand == goAway:
		err = b.leave(ctx, s)
	case b.single || s.Mode == Exact && !queued:
		return b.decideAll(ctx, s, read)
	default:
		if err = b.tap(ctx, s); err == nil {
			err = b.lease(ctx, s, errand == refit)
		}
	}
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.errand == errand {
			b.errand = fetchTokens
		}
	}
	return true, err
}

// present is the present moment. If by the wall clock more time has passed since the last one,
// the machine may have been suspended, in which the monotonic clock stands still.
func (b *bucket) present() int64 {
	moment, wall := b.l.now(), wallNow()
	if b.wall != 0 && wall-b.wall-(moment-b.moment) > int64(wallError) {
		b.clock.doubt()
	}
	b.moment, b.wall = moment, wall
	return moment
}

// soon is how long nobody may have written for it not to matter.
const soon = 100 * time.Millisecond

// tap writes the record as it is, where the service then tells for how long nobody had
// written. A process does so once, before it takes tokens, unless someone has just written.
func (b *bucket) tap(ctx context.Context, s *record) error {
	if b.touch == nil {
		return nil
	}
	if passed := b.l.opts.Clock().Sub(b.touch.At); passed >= 0 && passed < soon {
		b.touch = nil
		return nil
	}
	same := s.clone()
	same.Lag = unknown // by now
	moment := b.present()
	snap, err := b.reg.Replace(ctx, b.known, *same)
	if err != nil {
		b.late(snap, err)
		return err
	}
	b.clock.wrote(same, moment, b.l.now())
	b.known, b.own, b.fresh = snap, snap.Version, true
	b.touched()
	return nil
}

// lease takes tokens for the time to come.
func (b *bucket) lease(ctx context.Context, s *record, refit bool) error {
	t, moment := b.ask(s, refit)
	trial := s.clone()
	if g := trial.apply(t, &b.clock, moment); b.idle(trial, t, g, moment) && s.Config == b.known.Value.Config {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.learn(trial, g.share, moment)
		b.pace(g)
		return nil
	}
	return b.write(ctx, s, t, moment)
}

// idle reports whether a take changes nothing that others should know: it gets nothing,
// gives nothing, and the process is known to want some. What it has lasts a while.
func (b *bucket) idle(s *record, t take, g grant, moment int64) bool {
	before, listed := b.known.Value.Procs[t.id]
	lasts := before.Until - s.T // for longer than the process's own clock says, by the lag
	if t.unspent > 0 {
		lasts = min(lasts, b.stop.Load()-moment)
	}
	return g.tokens == 0 && listed && !g.lost && before.Out == t.unspent && t.back == 0 && before.Demand >= t.demand/2 &&
		before.Need >= t.need && lasts > int64(s.lease())/2 && b.touch == nil
}

// leave gives back what is unspent.
func (b *bucket) leave(ctx context.Context, s *record) error {
	b.mu.Lock()
	moment := b.present()
	b.expireLocked(moment)
	b.putBack(0)
	b.giving += max(b.held-b.paid, 0)
	b.held, b.paid = 0, 0
	b.voids++
	t := b.report(moment)
	b.mu.Unlock()
	if !b.listed && t.denied+t.admitted == 0 {
		return nil
	}
	t.leave = true
	return b.write(ctx, s, t, moment)
}

// remove removes a register that says nothing.
func (b *bucket) remove(ctx context.Context, s *record) error {
	s.advance(b.clock.at(b.present(), s))
	if b.known.Version == 0 || !s.whole() || s.Own || b.key == "" {
		return nil
	}
	b.fresh = false
	return b.reg.Remove(ctx, b.known)
}

// write writes what a take makes of the record.
func (b *bucket) write(ctx context.Context, s *record, t take, moment int64) error {
	a := &attempt{take: t, moment: moment, wall: wallNow(), record: s}
	a.grant = s.apply(t, &b.clock, moment)
	snap, err := b.reg.Replace(ctx, b.known, *s)
	received := b.l.now()
	if err != nil {
		b.late(snap, err)
		if !errors.Is(err, recipes.ErrConflict) {
			b.lose(a)
		}
		return err
	}
	b.clock.wrote(s, moment, received)
	b.known, b.own, b.fresh = snap, snap.Version, true
	b.adopt(a)
	return nil
}

// lose notes a write whose outcome is unknown.
func (b *bucket) lose(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = a
}

// ask is what is asked for.
func (b *bucket) ask(s *record, refit bool) (take, int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	moment := b.present()
	b.expireLocked(moment)
	b.measure(moment)
	lead := b.lead(s.Config)
	switch {
	case s.Mode == Exact, b.yield:
		b.putBack(0)
	case refit:
		share := s.Rate.perSecond() / float64(max(len(s.Procs), 1))
		b.putBack(int64(share * (s.period() + lead).Seconds()))
	}
	t := b.report(moment)
	t.need, t.demand, t.only = b.shortfall(s.Limit()), int64(min(b.demand, 1e15)), s.Mode == Exact
	t.lead = max(lead, min(time.Duration(b.trip), s.period()))
	return t, moment
}

// report is a take that tells what became of earlier tokens, and asks for none. Called
// with the mutex.
func (b *bucket) report(moment int64) take {
	b.seq++
	have := b.avail.Load() + b.held
	b.paid = min(b.paid, have)
	return take{
		id: b.id, who: b.l.who, seq: b.seq, unspent: have - b.paid, back: b.giving,
		spentAt: min(b.spentAt.Load()+spentStep, moment), denied: b.denied.Load(), admitted: b.extra.Load(),
		degraded: b.degraded.Load(),
	}
}

// putBack has the next write give back what is more than that. Called with the mutex.
func (b *bucket) putBack(to int64) {
	b.paid = min(b.paid, b.avail.Load()+b.held)
	n := b.takeDown(to)
	paid := min(b.paid, n)
	b.paid -= paid
	b.giving += n - paid
}

// takeDown takes away what is more than that. Called with the mutex.
func (b *bucket) takeDown(to int64) int64 {
	for {
		have := b.avail.Load()
		if have <= to {
			return 0
		}
		if b.avail.CompareAndSwap(have, to) {
			return have - to
		}
	}
}

// expireLocked drops what is void. Called with the mutex.
func (b *bucket) expireLocked(moment int64) {
	if moment >= b.stop.Load() || wallNow() >= b.stopWall.Load() {
		b.drop()
	}
}

// shortfall is what who is first in line is short of, if that can ever be there. Called with
// the mutex.
func (b *bucket) shortfall(limit int64) int64 {
	n := b.need
	if len(b.queue) > 0 {
		n = b.queue[0].n
	}
	if n > limit {
		return 0
	}
	return max(n-b.avail.Load(), 0)
}

// pace notes when to ask again. Called with the mutex.
func (b *bucket) pace(g grant) {
	b.yield = g.yield && b.avail.Load() > 0
	wait := g.wait
	if b.yield || wait == never {
		wait = 0
	}
	b.next.Store(b.l.now() + int64(jitter(wait)))
}

// measure estimates how many tokens a second would be spent: what was, and what was
// refused or waits. It grows at once, and gets less slowly.
func (b *bucket) measure(moment int64) {
	spent := max(b.had-b.avail.Load(), 0) + b.denied.Load() + b.extra.Load() + b.need
	for _, r := range b.queue {
		spent += r.n
	}
	passed := time.Duration(moment - b.since)
	if b.since == 0 {
		passed = 0
	}
	// A few that come at once say little of how many come in a period.
	passed = max(passed, b.view.Load().config.period()/4, time.Millisecond)
	b.demand = max(float64(spent)/passed.Seconds(), 0.7*b.demand)
}

// lead is for how long tokens last when more are fetched.
func (b *bucket) lead(c Config) time.Duration {
	period := c.period()
	return min(max(time.Duration(3*b.trip), period/10), period/3)
}

// adopt takes in what a write has come to.
func (b *bucket) adopt(a *attempt) {
	s, t, g := a.record, a.take, a.grant
	b.mu.Lock()
	defer b.mu.Unlock()
	b.denied.Add(-t.denied)
	b.extra.Add(-t.admitted)
	b.giving -= min(t.back, b.giving)
	if g.lost {
		b.drop() // before stop says that what is there lasts
	}
	b.listed = !t.leave && s.Procs[t.id].Seq != 0
	if (b.listed || g.tokens > 0) && !t.exact && !t.leave {
		lasts := int64(s.lease()) * 19 / 20 // clocks may run at somewhat different speeds
		b.stop.Store(a.moment + lasts)
		b.stopWall.Store(a.wall + lasts)
		if !b.listed { // the record has no room for it
			b.paid += g.tokens
		}
		b.avail.Add(g.tokens)
	}
	b.learn(s, g.share, a.moment)
	b.had, b.since = b.avail.Load(), a.moment
	b.low.Store(int64(g.share * b.lead(s.Config).Seconds()))
	if !b.listed {
		b.low.Store(0) // it gets no more than it needs
	}
	b.pace(g)
}

// learn takes in what a record says.
func (b *bucket) learn(s *record, share float64, moment int64) {
	b.see(func(v *view) {
		v.config, v.free, v.share, v.seen, v.alive = s.Config, s.free(), share, moment, true
		v.even = s.Rate.perSecond() / float64(max(len(s.Procs), 1))
	})
}

// see changes the view, and tells of another configuration.
func (b *bucket) see(change func(*view)) {
	for {
		old := b.view.Load()
		v := *old
		change(&v)
		if !b.view.CompareAndSwap(old, &v) {
			continue
		}
		if v.config != old.config && b.l.opts.OnChange != nil {
			b.l.opts.OnChange(b.key, v.config)
		}
		return
	}
}
