//go:build linux

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/cluster"
	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/internal/wallclock"
)

// A nemesis has things go wrong, one or two at a time, and after each waits until
// everybody is served again. What it does is drawn from a seed; which member leads at
// that moment is not.
type nemesis struct {
	run    *run
	seed   uint64
	deck   []fault // what is to come
	faults []fault
	rand   *rand.Rand
	steps  int
	left   []string // kinds that can't be had on this machine or service
}

// together is how often, of ten, two faults come together.
const together = 4

func newNemesis(r *run, seed uint64, only []string) *nemesis {
	n := &nemesis{run: r, seed: seed, rand: rand.New(rand.NewPCG(seed, 1))}
	for _, f := range faults() {
		if len(only) == 0 || slices.Contains(only, f.name) {
			n.faults = append(n.faults, f)
		}
	}
	if r.cluster.Disk < 0 {
		n.drop("disk-full")
	}
	if r.options.Engine != "etcd" {
		n.drop("compact")
	}
	if !wallclock.Supported() {
		n.drop("shift-clock")
	}
	return n
}

func faultNames() []string {
	var names []string
	for _, f := range faults() {
		names = append(names, f.name)
	}
	return names
}

func (n *nemesis) drop(name string) {
	before := len(n.faults)
	n.faults = slices.DeleteFunc(n.faults, func(f fault) bool { return f.name == name })
	if len(n.faults) < before {
		n.left = append(n.left, name)
	}
}

// draw takes the next kind: all in a random order, then all again.
func (n *nemesis) draw() fault {
	if len(n.deck) == 0 {
		n.deck = slices.Clone(n.faults)
		n.rand.Shuffle(len(n.deck), func(i, j int) { n.deck[i], n.deck[j] = n.deck[j], n.deck[i] })
	}
	f := n.deck[0]
	n.deck = n.deck[1:]
	return f
}

// all reports whether each kind was there at least once.
func (n *nemesis) all() bool { return n.steps > 0 && len(n.deck) == 0 }

// step has one or two faults, and returns when everybody was served again.
func (n *nemesis) step(ctx context.Context) error {
	n.steps++
	var stages []*stage
	kinds := []fault{n.draw()}
	if n.rand.IntN(10) < together && len(n.deck) > 0 {
		kinds = append(kinds, n.draw())
	}
	r := n.run
	var length time.Duration
	for i, f := range kinds {
		s := &stage{
			cluster: r.cluster, crew: r.crew, log: r.log, ttl: r.options.TTL,
			rand: rand.New(rand.NewPCG(n.seed, uint64(n.steps*10+i+2))),
		}
		s.over, s.end = context.WithCancel(ctx)
		least := f.least(s.ttl)
		length = max(length, least+time.Duration(n.rand.Int64N(int64(least)/2)))
		began := history.Now()
		detail, err := f.begin(ctx, s)
		if err != nil {
			r.log.note("%s: %v", f.name, err)
		}
		r.log.Add(history.Event{T: began, What: history.Begin, Name: f.name, ID: detail})
		r.say("step %d: %s %s", n.steps, f.name, detail)
		stages = append(stages, s)
		n.pause(ctx, time.Duration(n.rand.Int64N(int64(500*time.Millisecond))))
	}
	n.pause(ctx, length)
	for _, s := range stages {
		s.end()
	}
	r.cluster.Network.Heal() // what still acts, such as a restart of all, may need it
	for i, s := range stages {
		if err := s.heal(); err != nil {
			r.log.note("end of %s: %v", kinds[i].name, err)
		}
	}
	for i, s := range stages {
		s.acting.Wait()
		r.log.Add(history.Event{What: history.End, Name: kinds[i].name})
	}
	return n.recover(ctx)
}

// recover undoes everything, and waits until each loop was granted something once most
// members serve.
func (n *nemesis) recover(ctx context.Context) error {
	r := n.run
	r.cluster.Network.Heal()
	var err error
	for i := range cluster.Size {
		err = errors.Join(err, r.cluster.Resume(i))
	}
	for i := range r.crew.workers {
		err = errors.Join(err, r.crew.resume(i), r.crew.start(i))
	}
	if err == nil {
		err = r.cluster.AwaitQuorum(ctx)
	}
	if err != nil {
		return err
	}
	healed := history.Now()
	r.log.Add(history.Event{T: healed, What: history.Healed})
	if err := r.awaitService(ctx, healed); err != nil {
		return err
	}
	if _, err = r.renew(ctx); err != nil { // the next fault is for a cluster that is whole
		return err
	}
	return r.cluster.Tidy(ctx)
}

func (n *nemesis) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
