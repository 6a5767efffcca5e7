//go:build linux

// Package worker is the processes of a run that use locks. Each has one client and
// several loops, which ask, hold, work and release again and again, and record it.
//
// A worker ends when its standard input does, or when a line there says so:
//
//	stop       release everything, close the client, look for goroutines that are left
//	keep N     hold the next exclusive lock for N milliseconds, unless it is lost before
//	clock N    set this process's wall clock N seconds forward, or back
package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/chaos/internal/vault"
	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/wallclock"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/zk"
)

// Root is the root of all that a run stores.
const Root = "/chaos"

// SemaphoreLimit is the limit of the semaphores of a run.
const SemaphoreLimit = 3

// A Loop says what to do again and again.
type Loop struct {
	Kind  string // one of history's kinds
	Name  string // of the object
	Times int    // so many goroutines, which share the object; defaults to 1
	// Retain is for how long a mutex stays with the process, see recipes.MutexOptions.
	Retain time.Duration
}

// A Config says what a worker does.
type Config struct {
	Proc   string
	URL    string
	TTL    time.Duration
	Seed   uint64
	Events string // unix socket for the history
	Vault  string // unix socket of the vault
	Loops  []Loop
	Mutant string // the broken engine to use, "" for the real one
	// Long says that one hold of so many is long, up to LongFor.
	Long    int
	LongFor time.Duration
}

// pace is how long a stall must be to be recorded, and how often it is looked for.
const (
	stallLimit = 50 * time.Millisecond
	beat       = 10 * time.Millisecond
)

// closeTimeout is for how long a client that is closed waits for the service.
const closeTimeout = 10 * time.Second

// A process is a running worker.
type process struct {
	config  Config
	log     *history.Log
	vault   *vault.Client
	client  *recipes.Client
	ops     atomic.Int64
	closing []func(context.Context) error // what is closed before the client
	keep    atomic.Int64                  // for how long the next exclusive hold is to last, or 0

	mu      sync.Mutex
	session string
}

// An Opener makes a client of a broken engine.
type Opener func(ctx context.Context, name, url string, ttl time.Duration, o recipes.ClientOptions) (*recipes.Client, error)

// Run is a worker's process. The text is its Config as JSON.
func Run(text string, stdin io.Reader, mutant Opener) error {
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	clock, err := wallclock.Take()
	if err != nil && !errors.Is(err, wallclock.ErrUnsupported) {
		return err
	}
	events, err := net.Dial("unix", c.Events)
	if err != nil {
		return err
	}
	defer events.Close()
	p := &process{config: c, log: history.NewLog(events, c.Proc)}
	p.log.Add(history.Event{What: history.Started, PID: os.Getpid()})
	if p.vault, err = vault.Dial(c.Vault, c.Proc, p.log); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var pulse sync.WaitGroup
	pulse.Go(func() { p.watchPulse(ctx) })

	working, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.work(working, mutant) }()
	go p.obey(stdin, clock, stop)
	err = <-done
	cancel()
	pulse.Wait()
	_ = p.vault.Close() // nothing was written since
	last := history.Event{What: history.Stopped}
	if err != nil {
		last.Err = err.Error()
	}
	if leak := goleak.Find(goleak.IgnoreAnyFunction("github.com/lockctl/lockctl/chaos/internal/worker.(*process).obey")); leak != nil {
		last.Left = []string{leak.Error()}
	}
	p.log.Add(last)
	return errors.Join(err, p.log.Err())
}

// obey reads commands until the input ends, or says stop.
func (p *process) obey(stdin io.Reader, clock *wallclock.Clock, stop func()) {
	defer stop()
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "stop":
			return
		case "keep":
			if ms, err := strconv.ParseInt(argument, 10, 64); err == nil {
				p.keep.Store(int64(time.Duration(ms) * time.Millisecond))
			}
		case "clock":
			if seconds, err := strconv.ParseInt(argument, 10, 64); err == nil && clock != nil {
				clock.Shift(time.Duration(seconds) * time.Second)
			}
		}
	}
}

// watchPulse records the times for which the process did not run.
func (p *process) watchPulse(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	last := history.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := history.Now()
		if now-last > stallLimit {
			p.log.Add(history.Event{T: now, What: history.Stalled, Since: last})
		}
		last = now
	}
}

// work runs the loops until the context ends, then closes the client.
func (p *process) work(ctx context.Context, mutant Opener) error {
	if err := p.open(ctx, mutant); err != nil {
		return err
	}
	var loops sync.WaitGroup
	err := p.start(ctx, &loops)
	loops.Wait()
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, end := range p.closing {
		// A service that is slow is no fault of a limiter: its tokens are void later.
		if ended := end(closing); errors.Is(ended, recipes.ErrUnavailable) {
			p.log.Add(history.Event{What: history.Note, Name: p.config.Proc + ": " + ended.Error()})
		} else {
			err = errors.Join(err, ended)
		}
	}
	return errors.Join(err, p.client.Close())
}

// open makes the client, as soon as the service can be reached.
func (p *process) open(ctx context.Context, mutant Opener) error {
	options := recipes.ClientOptions{Owner: recipes.Owner{Label: p.config.Proc}, CloseTimeout: closeTimeout}
	for {
		var err error
		switch scheme, _, _ := strings.Cut(p.config.URL, "://"); {
		case p.config.Mutant != "":
			p.client, err = mutant(ctx, p.config.Mutant, p.config.URL, p.config.TTL, options)
		case scheme == "etcd":
			p.client, err = etcd.Dial(ctx, p.config.URL, &etcd.Options{Root: Root, TTL: p.config.TTL, Client: options})
		default:
			p.client, err = zk.Dial(ctx, p.config.URL, &zk.Options{Root: Root, TTL: p.config.TTL, Client: options})
		}
		if err == nil || !errors.Is(err, recipes.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
	}
}

func (p *process) start(ctx context.Context, loops *sync.WaitGroup) error {
	for _, l := range p.config.Loops {
		if l.Kind == Drain {
			return p.drain(ctx, l.Name)
		}
		act, err := p.actor(ctx, l, loops)
		if err != nil {
			return fmt.Errorf("%s %q: %w", l.Kind, l.Name, err)
		}
		for i := range max(1, l.Times) {
			loop := newLoop(p, l, i)
			loops.Go(func() { loop.run(ctx, act) })
		}
	}
	return nil
}

// A loop is one goroutine of a worker.
type loop struct {
	*process
	name  string
	rand  *rand.Rand
	owing bool // it has an item in the queue that it was not done with
}

func newLoop(p *process, l Loop, i int) *loop {
	name := LoopName(l, i)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return &loop{process: p, name: name, rand: rand.New(rand.NewPCG(p.config.Seed, hash.Sum64()))}
}

// LoopName is how the i-th goroutine of a loop is called in the history.
func LoopName(l Loop, i int) string { return fmt.Sprintf("%s/%s/%d", l.Kind, l.Name, i) }

// An action is one round of a loop.
type action func(ctx context.Context, l *loop)

func (l *loop) run(ctx context.Context, act action) {
	for ctx.Err() == nil {
		l.pause(ctx, 5*time.Millisecond, 60*time.Millisecond)
		if ctx.Err() == nil {
			l.noteSession()
			act(ctx, l)
		}
	}
}

// pause waits for a time between the two, or until the context ends.
func (l *loop) pause(ctx context.Context, least, most time.Duration) {
	timer := time.NewTimer(least + time.Duration(l.rand.Int64N(int64(most-least))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// one reports true once in n times.
func (l *loop) one(n int) bool { return l.rand.IntN(n) == 0 }

// noteSession records the session if it is new.
func (l *loop) noteSession() {
	id := l.client.SessionID()
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != "" && id != l.session {
		l.session = id
		l.log.Add(history.Event{What: history.Session, ID: id})
	}
}
