//go:build unix

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Lease is what the command may run under. *recipes.Hold is one.
type Lease interface {
	// Context ends when the lease is lost; its cause says why.
	Context() context.Context
	// Deadline is when the lease is lost unless it is renewed until then.
	Deadline() time.Time
}

// A Command is what to run, and how.
type Command struct {
	Path string   // of the executable
	Args []string // the first is the name the command sees
	Env  []string // "name=value" each

	// Stdin, Stdout and Stderr are handed to the command as they are.
	Stdin, Stdout, Stderr *os.File

	// Signals are forwarded to the command's process group. nil forwards none.
	// Signals of job control (SIGTSTP, SIGCONT) and SIGWINCH are taken care of
	// and don't belong here.
	Signals <-chan os.Signal

	// Grace is the time before the deadline at which SIGTERM is sent. It must be
	// shorter than the time that a lease has left between two renewals, or a
	// healthy lease ends the command. It must be positive.
	Grace time.Duration

	// Note is told what this package does to the command, Trace which signals it
	// forwards, after it was done. They are called by one goroutine, and may block:
	// the command is ended in time nevertheless, and what comes meanwhile may be
	// dropped. nil discards it.
	Note, Trace func(what string)
}

// A Result says how a command ended.
type Result struct {
	// Code is the exit status of the command, 128 plus the number of the signal
	// that ended it.
	Code int
	// Lost is nil if the command ended by itself, and otherwise why it was ended.
	Lost error
	// Signal is the last of HUP, INT, QUIT and TERM that was forwarded to the
	// command, nil for none.
	Signal os.Signal
}

// ErrExpiring is the reason to end a command whose lease is about to be lost: it
// was not renewed, or has lasted as long as it may.
var ErrExpiring = errors.New("the deadline of the hold is near")

const (
	lateGrace  = time.Second            // from SIGTERM to SIGKILL when the lease is lost already
	killLead   = 500 * time.Millisecond // SIGKILL is sent at most this long before the deadline
	killRepeat = 20 * time.Millisecond
	groupPoll  = 100 * time.Millisecond // looks whether the group is gone, where no SIGCHLD tells
)

// Run starts the command and returns when its process group has ended. The error
// is not nil if the command could not be started; it then is as from
// os.StartProcess.
//
// Run takes over all child processes of this process while it runs: it reaps
// orphans that it inherits. So it can run only once at a time, in a process that
// has started no other children.
func Run(lease Lease, c Command) (Result, error) {
	// The kernel ties the parent's death signal to the thread that forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer adoptOrphans()()

	r := &run{lease: lease, cmd: c, tty: openTerminal(), teller: newTeller()}
	defer r.teller.close()
	r.children = listen(1, syscall.SIGCHLD)
	r.jobs = listen(8, syscall.SIGTSTP, syscall.SIGWINCH)
	r.continued = listen(1, syscall.SIGCONT)
	defer signal.Stop(r.children)
	defer signal.Stop(r.jobs)
	defer signal.Stop(r.continued)

	process, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{
		Env:   c.Env,
		Files: []*os.File{c.Stdin, c.Stdout, c.Stderr},
		Sys:   attributes(),
	})
	if err != nil {
		return Result{}, err
	}
	r.pgid = process.Pid
	_ = process.Release() // it is waited for with wait4, which tells of stops too
	defer r.tty.release(r.pgid)
	return r.loop(), nil
}

// listen delivers signals to a channel, but leaves those alone that were ignored
// when the process started, as nohup and shells do for commands in the background.
func listen(size int, signals ...os.Signal) chan os.Signal {
	c := make(chan os.Signal, size)
	for _, s := range signals {
		if s == syscall.SIGCHLD || !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// Endings returns a channel of the signals that ask a process to end or to do
// something of its own, as Command.Signals wants them: HUP, INT, QUIT, TERM, USR1
// and USR2, without those that were ignored when the process started. Call stop
// when they are not wanted any more.
func Endings() (signals <-chan os.Signal, stop func()) {
	c := listen(16, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2)
	return c, func() { signal.Stop(c) }
}

// Number is the number of the signal.
func Number(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return int(s)
	}
	return 0
}

// Name is the name of the signal, such as SIGTERM.
func Name(sig os.Signal) string {
	if name := unix.SignalName(syscall.Signal(Number(sig))); name != "" {
		return name
	}
	return sig.String()
}

// A run is one command being supervised. One goroutine does everything but telling,
// so that what it knows of the group is never out of date by more than one event.
type run struct {
	lease  Lease
	cmd    Command
	tty    *terminal
	teller *teller
	pgid   int

	children  chan os.Signal // SIGCHLD
	jobs      chan os.Signal // SIGTSTP, SIGWINCH
	continued chan os.Signal // SIGCONT

	ended  bool // the command itself
	status syscall.WaitStatus
	lost   error
	killAt time.Time
	killed bool
	signal os.Signal // the last forwarded that asks to end
}

func (r *run) loop() Result {
	timer := time.NewTimer(0)
	defer timer.Stop()
	lost := r.lease.Context().Done()
	for {
		r.reap()
		if r.gone() {
			return r.result()
		}
		timer.Reset(r.check(time.Now()))
		select {
		case <-r.children:
		case <-timer.C:
		case <-lost:
			lost = nil // once is enough
		case sig := <-r.cmd.Signals:
			r.forward(sig)
			if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
				r.signal = sig
			}
		case sig := <-r.jobs:
			r.forward(sig)
		case sig := <-r.continued:
			r.forward(sig)
		}
	}
}

// left is the time until t by the clock that leaves less: the monotonic clock
// stands still while the machine is suspended, the wall clock can be set.
func left(t, now time.Time) time.Duration {
	return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
}

// check does what the state of the lease asks for, and says when to look again.
func (r *run) check(now time.Time) time.Duration {
	ctx, deadline := r.lease.Context(), r.lease.Deadline()
	remaining := left(deadline, now)
	lead := min(r.cmd.Grace/8, killLead)
	switch {
	case r.lost == nil && ctx.Err() != nil:
		late := min(r.cmd.Grace, lateGrace)
		r.terminate(context.Cause(ctx), now.Add(min(late, remaining-lead)), now)
	case r.lost == nil && remaining <= r.cmd.Grace:
		r.terminate(ErrExpiring, now.Add(remaining-lead), now)
	case r.lost != nil && ctx.Err() != nil:
		if at := now.Add(lateGrace); at.Before(r.killAt) { // the service ended it meanwhile
			r.killAt = at
		}
	}
	if r.lost == nil {
		return min(remaining-r.cmd.Grace, r.pause())
	}
	if wait := left(r.killAt, now); wait > 0 {
		return min(wait, r.pause())
	}
	r.kill()
	return killRepeat
}

// pause is the longest time not to look at the group or the clock.
func (r *run) pause() time.Duration {
	if r.ended {
		return min(groupPoll, r.cmd.Grace/2)
	}
	return r.cmd.Grace / 2
}

// terminate begins to end the group. A group that is stopped has to be continued
// to see the signal; one that has no time left to see it is only killed.
func (r *run) terminate(why error, killAt, now time.Time) {
	r.lost, r.killAt = why, killAt
	if left(killAt, now) <= 0 {
		return
	}
	r.send(syscall.SIGTERM)
	r.send(syscall.SIGCONT)
	r.note(fmt.Sprintf("sending SIGTERM to the command: %v", why))
}

func (r *run) kill() {
	r.send(syscall.SIGKILL)
	if !r.killed {
		r.note("sending SIGKILL to the command")
	}
	r.killed = true
}

func (r *run) note(what string) { r.teller.say(r.cmd.Note, what) }

// send signals the group. It can fail only because the group is gone, which
// the loop finds out by itself, or because the command runs as another user,
// which is for the user to know.
func (r *run) send(sig syscall.Signal) {
	if err := syscall.Kill(-r.pgid, sig); errors.Is(err, syscall.EPERM) {
		r.note(fmt.Sprintf("not permitted to send %s to the command", Name(sig)))
	}
}

func (r *run) forward(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	switch {
	case !ok:
	case s == syscall.SIGWINCH:
		r.send(s)
	default:
		r.send(s)
		r.teller.say(r.cmd.Trace, fmt.Sprintf("forwarding %s to the command", Name(s)))
	}
}

// reap collects every child that has ended, the command among them, and sees
// whether the command was stopped.
func (r *run) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return
		case pid != r.pgid: // an orphan that this process inherited
		case status.Stopped():
			r.stopped(status.StopSignal())
		default:
			r.ended, r.status = true, status
			if !r.gone() {
				r.note("the command has ended, waiting for the processes that it left running")
			}
		}
	}
}

// gone reports whether the group has no process left. The group's number can't
// be given to another as long as it has one.
func (r *run) gone() bool {
	return r.ended && errors.Is(syscall.Kill(-r.pgid, 0), syscall.ESRCH)
}

func (r *run) result() Result {
	code := r.status.ExitStatus()
	if r.status.Signaled() {
		code = 128 + int(r.status.Signal())
	}
	return Result{Code: code, Lost: r.lost, Signal: r.signal}
}
