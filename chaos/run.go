//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/check"
	"github.com/lockctl/lockctl/chaos/internal/cluster"
	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/chaos/internal/vault"
	"github.com/lockctl/lockctl/chaos/internal/worker"
)

// Options say what to run.
type Options struct {
	Engine   string        // "etcd" or "zookeeper"
	Duration time.Duration // of faults
	Seed     uint64
	Faults   []string // the kinds of faults; defaults to all
	Each     bool     // go on until each kind was there, whatever Duration says
	Dir      string   // for data, logs and the history
	TTL      time.Duration
	Workers  int
	Mutant   string        // a broken engine, see package mutant
	Long     int           // one hold of so many is long; defaults to 20
	LongFor  time.Duration // at the most; defaults to 1.2 s
	Margin   time.Duration // beyond what everybody is to be served in; defaults to 10 s
	Loops    []worker.Loop
	Log      io.Writer
	// Worker and Member are the commands that run a worker, and a member of etcd.
	Worker, Member []string
}

// The times of a run.
const (
	warmUp      = 5 * time.Second
	warmUpLimit = 30 * time.Second
	warmGrants  = 3                       // of each loop
	usualMargin = 10 * time.Second        // of liveness, unless the options say otherwise
	longestHold = 1200 * time.Millisecond // unless the options say otherwise
	handOff     = 100 * time.Millisecond  // with the usual hold
	clockLook   = 10 * time.Second        // see package job
	longStall   = 8                       // a stall of this part of the TTL starts the count anew
	tooBusy     = 10 * time.Minute        // after which a machine that stalls so is given up
)

// activity is how many grants of each kind there must be before the first fault.
const activity = 10

// An Outcome is what came of a run.
type Outcome struct {
	Options   Options
	Service   string // what the servers say they are
	History   []history.Event
	Registers map[string]vault.Register
	Result    check.Result
	Left      []string // kinds of faults that could not be had
	Steps     int
}

// Passed reports whether nothing was found.
func (o *Outcome) Passed() bool { return len(o.Result.Violations) == 0 }

// Inconclusive reports whether something was found after the service itself had lost data,
// so that it may follow from that.
func (o *Outcome) Inconclusive() bool { return !o.Passed() && o.Result.Counts.Renewed > 0 }

// A run is one run.
type run struct {
	options Options
	cluster *cluster.Cluster
	crew    *crew
	log     *recorder
	vault   *vault.Server
}

func (o *Options) validate() error {
	if o.Engine != "etcd" && o.Engine != "zookeeper" {
		return fmt.Errorf("engine %q is neither etcd nor zookeeper", o.Engine)
	}
	for _, name := range o.Faults {
		if !slices.Contains(faultNames(), name) {
			return fmt.Errorf("there is no fault %q; there are %s", name, strings.Join(faultNames(), ", "))
		}
	}
	return nil
}

// loops are what each worker does, if nothing else was said. Two goroutines share a
// mutex, so that holds are passed on inside a process too; another stays with a process
// until someone else wants it.
func loops() []worker.Loop {
	return []worker.Loop{
		{Kind: history.Mutex, Name: "hot", Times: 2},
		{Kind: history.Mutex, Name: "cool"},
		{Kind: history.Mutex, Name: "kept", Retain: 200 * time.Millisecond},
		{Kind: history.Writer, Name: "rw", Times: 2},
		{Kind: history.Semaphore, Name: "sem"},
		{Kind: history.Election, Name: "lead"},
		{Kind: history.Queue, Name: "work"},
		{Kind: history.Limiter, Name: "leased"},
		{Kind: history.Limiter, Name: worker.ExactLimiter},
		{Kind: history.Counter, Name: "visits"},
		{Kind: history.Once, Name: "pay"},
		{Kind: history.Shard, Name: "shards"},
		{Kind: history.Group, Name: "team"},
		{Kind: history.Round, Name: "rounds"},
		{Kind: history.Seized, Name: "seized"},
		{Kind: history.Operator, Name: "seized"},
		{Kind: history.Barrier, Name: "gate"},
		{Kind: history.Passer, Name: "gate"},
		{Kind: history.Latch, Name: "ready"},
		{Kind: history.Awaiter, Name: "ready"},
		{Kind: history.Job, Name: "nightly"},
	}
}

// loopsOf are those of some kinds.
func loopsOf(kinds []string) ([]worker.Loop, error) {
	var some []worker.Loop
	for _, kind := range kinds {
		before := len(some)
		for _, l := range loops() {
			if l.Kind == kind {
				some = append(some, l)
			}
		}
		if len(some) == before {
			return nil, fmt.Errorf("workers do nothing with %q, but with %s", kind, strings.Join(loopKinds(), ", "))
		}
	}
	return some, nil
}

func loopKinds() []string {
	var kinds []string
	for _, l := range loops() {
		if !slices.Contains(kinds, l.Kind) {
			kinds = append(kinds, l.Kind)
		}
	}
	return kinds
}

// Run runs the clusters, workers and faults, and checks what happened. An error says
// that the run itself did not work out; what is found is in the outcome.
func Run(ctx context.Context, o Options) (_ *Outcome, err error) {
	if o.Loops == nil {
		o.Loops = loops()
	}
	if o.Margin == 0 {
		o.Margin = usualMargin
	}
	if o.Long == 0 {
		o.Long, o.LongFor = 20, longestHold
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &run{options: o}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if r.log, err = newRecorder(filepath.Join(o.Dir, "events.sock"), filepath.Join(o.Dir, "history.jsonl"), o.TTL/longStall); err != nil {
		return nil, err
	}
	out := &Outcome{Options: o}
	err = errors.Join(r.live(ctx, out), r.tearDown(out))
	if err != nil {
		return out, err
	}
	r.say("checking %d events", len(out.History))
	limit := worker.LimiterConfig("") // all allow the same
	out.Result = check.Run(out.History, check.Options{
		Limit: worker.SemaphoreLimit, Crew: worker.RoundSize, TTL: o.TTL, Activity: activity,
		StaleReads: o.Engine == "zookeeper",
		Rate:       float64(limit.Rate.Tokens) / limit.Rate.Per.Seconds(), Burst: float64(limit.Burst + limit.Slack),
	})
	return out, nil
}

// live is the run up to its end.
func (r *run) live(ctx context.Context, out *Outcome) error {
	listener, err := net.Listen("unix", filepath.Join(r.options.Dir, "vault.sock"))
	if err != nil {
		return err
	}
	r.vault = vault.Serve(listener)
	if r.cluster, err = cluster.Start(ctx, cluster.Options{
		Engine: r.options.Engine, Dir: r.options.Dir, Clients: r.options.Workers + 1, Serve: r.options.Member,
	}); err != nil {
		return err
	}
	if out.Service, err = r.cluster.Version(ctx); err != nil {
		return err
	}
	var configs []worker.Config
	for i := range r.options.Workers {
		configs = append(configs, r.workerConfig(i, r.options.Loops))
	}
	r.crew = newCrew(r.options.Worker, configs, r.log, r.options.Log)
	for i := range configs {
		if err := r.crew.start(i); err != nil {
			return err
		}
	}
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	if err := r.disturb(ctx, out); err != nil {
		return err
	}
	return r.finish(ctx)
}

func (r *run) workerConfig(i int, loops []worker.Loop) worker.Config {
	return worker.Config{
		URL: r.cluster.URL(i), TTL: r.options.TTL, Seed: r.options.Seed, Loops: loops, Mutant: r.options.Mutant,
		Long: r.options.Long, LongFor: r.options.LongFor,
		Events: filepath.Join(r.options.Dir, "events.sock"), Vault: filepath.Join(r.options.Dir, "vault.sock"),
	}
}

var errBusy = errors.New("this machine is too busy: processes don't run for so long and so often that nothing can be said")

// warmUp waits until each loop was granted something, and some time has passed.
func (r *run) warmUp(ctx context.Context) error {
	begin := history.Now()
	for {
		idle := r.log.below(r.crew.loops(), warmGrants, activity)
		now := history.Now()
		switch {
		case len(idle) == 0 && now-begin > warmUp:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case now-begin > tooBusy:
			return errBusy
		case now-r.log.calm(begin) > warmUpLimit:
			// Not an error of the run: the locks don't work.
			r.log.wrong("liveness", "without any fault these were granted too little: %v", idle)
			return nil
		}
		r.awaitEvent(ctx, time.Second)
	}
}

// disturb has faults for as long as the run is to last.
func (r *run) disturb(ctx context.Context, out *Outcome) error {
	n := newNemesis(r, r.options.Seed, r.options.Faults)
	if len(n.faults) == 0 {
		return fmt.Errorf("none of these faults can be had here: %s", strings.Join(n.left, ", "))
	}
	out.Left = n.left
	for begin := time.Now(); time.Since(begin) < r.options.Duration || r.options.Each && !n.all(); {
		if r.log.hasFailed() {
			r.say("something is wrong, so faults end here")
			break
		}
		if err := n.step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", n.steps, err)
		}
	}
	out.Steps = n.steps
	return nil
}

// bound is within what time a loop is served once faults are over: what a dead process
// holds lasts for a fresh TTL at the most, then the queue moves on. A job's moves on with
// its ticks, once its process has looked at a clock that was wrong.
func (r *run) bound(loop string) time.Duration {
	queue := 0
	for _, l := range r.options.Loops {
		queue = max(queue, r.options.Workers*max(1, l.Times))
	}
	d := r.options.TTL + time.Duration(queue)*handOff + 2*r.options.LongFor + r.options.Margin
	if strings.HasPrefix(loop, history.Job+"/") {
		d += time.Duration(r.options.Workers)*worker.TickEvery + clockLook
	}
	return d
}

// awaitService waits until every loop was granted something after a moment.
func (r *run) awaitService(ctx context.Context, since time.Duration) error {
	for begin := since; ; {
		waiting := r.log.unserved(r.crew.loops(), since)
		now := history.Now()
		switch {
		case len(waiting) == 0:
			r.log.Add(history.Event{T: now, What: history.Served, Since: since})
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case now-since > tooBusy:
			return errBusy
		case slices.ContainsFunc(waiting, func(l loopKey) bool { return now-r.log.calm(begin) > r.bound(l.loop) }):
			if renewed, err := r.renew(ctx); err != nil {
				return err
			} else if renewed {
				begin = history.Now()
				continue
			}
			r.log.wrong("liveness", "%v after all faults were over these were not granted anything: %v", now-begin, waiting)
			return nil
		}
		r.awaitEvent(ctx, 100*time.Millisecond)
	}
}

// renew gives a member that has lost data the data of the others, as an operator would, and
// reports whether there was one. A service that is not one is no fault of its clients.
func (r *run) renew(ctx context.Context) (bool, error) {
	if err := r.cluster.AwaitHealth(ctx); err != nil {
		return false, err
	}
	member, what, err := r.cluster.Diverged(ctx, worker.Root)
	if err != nil {
		r.log.note("comparing what members have: %v", err)
	}
	if err != nil || member == cluster.Nobody {
		return false, ctx.Err()
	}
	r.say("member %d has lost data, and gets that of the others: %s", member+1, what)
	r.log.Add(history.Event{What: history.Renewed, Name: memberName(member), Err: what})
	return true, r.cluster.Renew(ctx, member)
}

// awaitEvent waits for something to be recorded, or for a while.
func (r *run) awaitEvent(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-r.log.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// finish ends workers in order, works the queue off, and looks at what is left.
func (r *run) finish(ctx context.Context) error {
	r.say("stopping workers")
	if err := r.crew.stop(); err != nil {
		r.log.wrong("close", "%v", err)
	}
	if err := r.drain(); err != nil {
		return err
	}
	begin := history.Now()
	for {
		left, err := r.left(ctx)
		over := history.Now()-begin > r.options.TTL+r.options.Margin
		switch {
		case err == nil && len(left) == 0:
			return nil
		case over && err != nil:
			return err
		case over:
			r.log.wrong("left", "after all clients were closed or had expired: %s", strings.Join(left[:min(len(left), 20)], ", "))
			return nil
		}
		r.awaitEvent(ctx, 200*time.Millisecond)
	}
}

func (r *run) left(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return r.cluster.Left(ctx, worker.Root)
}

// drainLimit is how long it may take to work off what an hour has left in a queue. Who
// does so ends earlier if it gets nothing any more.
const drainLimit = 15 * time.Minute

// drain has one more worker take the items that are left in queues.
func (r *run) drain() error {
	for _, l := range r.options.Loops {
		if l.Kind != history.Queue {
			continue
		}
		config := r.workerConfig(r.options.Workers, []worker.Loop{{Kind: worker.Drain, Name: l.Name}})
		last := newCrew(r.options.Worker, []worker.Config{config}, r.log, r.options.Log)
		last.workers[0].number = 1000 // a name that no other worker has
		if err := last.start(0); err != nil {
			return err
		}
		if err := last.await(drainLimit); err != nil {
			r.log.wrong("close", "%v", err)
		}
	}
	return nil
}

// tearDown ends what runs and collects what was recorded.
func (r *run) tearDown(out *Outcome) error {
	var err error
	if r.crew != nil {
		r.crew.end()
	}
	if r.cluster != nil {
		if logs := r.cluster.Logs(40); r.log.hasFailed() {
			err = os.WriteFile(filepath.Join(r.options.Dir, "members.log"), []byte(logs), 0o600)
		}
		err = errors.Join(err, r.cluster.Close())
	}
	if r.vault != nil {
		out.Registers = r.vault.Registers()
		r.vault.Close()
	}
	events, closing := r.log.close()
	out.History = events
	return errors.Join(err, closing)
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.options.Log, format+"\n", args...)
}
