package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lockctl/lockctl/job"
)

// runJob does all of the job command that runs a job. Its error has the exit code.
func (a *app) runJob(ctx context.Context, o jobOptions) error {
	return a.withTurn(ctx, o.command, o.dial(), func(t turn) error {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer null.Close()
		if o.verbose {
			a.sayQueues(ctx, t.service, []string{o.name})
		}
		w := &jobWorker{app: a, turn: t, options: o, stdin: null}
		return w.run(ctx)
	})
}

// A jobWorker runs a command for each tick of a job.
type jobWorker struct {
	*app
	turn    turn
	options jobOptions
	stdin   *os.File           // of the commands
	cancel  context.CancelFunc // ends the job

	mu       sync.Mutex
	forward  chan os.Signal // to the command; nil while none runs
	stopping bool           // no other command is to be started
	result   error          // how lockctl ends when it was stopped
}

// run runs the job until a signal arrives, or trying again can't help.
func (w *jobWorker) run(ctx context.Context) error {
	ctx, w.cancel = context.WithCancel(ctx)
	defer w.cancel()
	options := w.options.job
	options.Notify = w.notify
	j, err := job.New(w.turn.client, w.options.name, &options)
	if err != nil {
		return err
	}
	end := make(chan struct{})
	var heeding sync.WaitGroup
	heeding.Go(func() { w.heed(end) })
	err = j.Run(ctx, w.tick)
	close(end)
	heeding.Wait()
	if ctx.Err() != nil {
		return w.result
	}
	return err
}

// heed takes signals until end is closed.
func (w *jobWorker) heed(end <-chan struct{}) {
	for {
		select {
		case sig := <-w.turn.signals:
			w.signal(sig)
		case <-end:
			return
		}
	}
}

// signal forwards a signal to the command that runs, which is the last one then. Without
// one it ends the job. USR1 and USR2 are for commands only, and end nothing.
func (w *jobWorker) signal(sig os.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ends := sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2
	w.stopping = w.stopping || ends
	switch {
	case w.forward != nil:
		select {
		case w.forward <- sig:
		default: // more than a command can be waiting for
		}
	case ends:
		w.cancel()
	}
}

// stop ends the job with a result.
func (w *jobWorker) stop(result error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping, w.result = true, result
	w.cancel()
}

// tick runs the command for one tick. If a signal came meanwhile, lockctl ends as the
// command did.
func (w *jobWorker) tick(ctx context.Context, run *job.Run) error {
	t := w.turn
	forward := make(chan os.Signal, 16)
	t.signals = forward
	if !w.runs(forward) {
		return context.Canceled
	}
	held := tenure{
		Lease: jobLease{run, ctx}, what: fmt.Sprintf("job %q", w.options.name), stdin: w.stdin,
		env: []string{
			"LOCKCTL_NAME=" + w.options.name,
			"LOCKCTL_TOKEN=" + tokenText(run.Token),
			"LOCKCTL_TICK=" + run.Tick.Format(time.RFC3339Nano),
			"LOCKCTL_ATTEMPT=" + strconv.Itoa(run.Attempt),
			"LOCKCTL_MISSED=" + strconv.Itoa(run.Missed),
		},
	}
	if w.json() {
		held.stdout = w.Stderr // standard output has the events
	}
	_, err := w.app.run(t, held, w.options.command, w.options.verbose)
	if !w.runs(nil) {
		w.stop(err)
	}
	return err
}

// runs says where signals go from here on. It reports false if the job is to end.
func (w *jobWorker) runs(forward chan os.Signal) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		forward = nil
	}
	w.forward = forward
	return !w.stopping
}

// A jobLease is what the command of one tick may run under.
type jobLease struct {
	*job.Run
	ctx context.Context // ends when the lock is lost
}

func (t jobLease) Context() context.Context { return t.ctx }

// notify tells what happens to the job.
func (w *jobWorker) notify(e job.Event) {
	if w.json() {
		if err := w.writeJSON(newJobJSON(w.turn.backend, w.turn.client.Engine(), w.options.name, e)); err != nil {
			w.stop(err)
		}
	}
	if text, important := tellJob(w.turn.backend, w.options.name, e); important || w.options.verbose {
		w.say("%s", text)
	}
}

// tellJob says what has happened, and whether a person wants to know that in any case.
// Some of the texts were written by another process.
func tellJob(b backend, name string, e job.Event) (text string, important bool) {
	text = fmt.Sprintf("job %q: tick %s", name, e.Attempt.Tick.Format(time.RFC3339Nano))
	again := ""
	if e.Again {
		again = "; it is run again"
	}
	switch e.Kind {
	case job.Holding:
		return fmt.Sprintf("running job %q with token %d, next tick %s", name, e.Token, moment(e.Next)), false
	case job.Started:
		return fmt.Sprintf("%s starts, attempt %d", text, e.Attempt.Attempt), false
	case job.Ended:
		switch e.Attempt.Outcome {
		case job.Completed:
			return text + " completed", false
		case job.Abandoned:
			return fmt.Sprintf("%s was abandoned by %s%s", text, e.Attempt.By, again), true
		}
		return fmt.Sprintf("%s failed: %v%s", text, e.Err, again), true
	case job.Unrecorded:
		return fmt.Sprintf("%s: how it ended was not recorded: %v", text, e.Err), true
	case job.Skipped:
		return fmt.Sprintf("job %q: %s skipped, the last %s", name, count(e.Skipped, "tick"), e.Tick.Format(time.RFC3339Nano)), true
	case job.Asked:
		return fmt.Sprintf("%s asks to release job %q: %s", e.Request.By, name, e.Request.Why), true
	case job.Lost:
		return fmt.Sprintf("%v; waiting in line again", e.Err), true
	}
	return fmt.Sprintf("%s can't be reached, trying again: %v", b.name(), e.Err), true
}
