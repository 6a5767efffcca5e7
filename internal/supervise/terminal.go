//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// suspendWait is how long a process that suspends itself waits for the signal that
// continues it, in time that it runs.
const suspendWait = 200 * time.Millisecond

// A terminal is the controlling terminal, which the process's group and the
// command's group use in turns. A nil terminal means that there is none.
type terminal struct {
	file  *os.File
	given bool // to the command's group
}

func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil // no controlling terminal
	}
	return &terminal{file: file}
}

// foreground reports whether this process's group has the terminal.
func (t *terminal) foreground() bool {
	pgid, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	return err == nil && pgid == unix.Getpgrp()
}

// jobControl reports whether a shell above can suspend and continue this process's
// group. It can't where there is no shell, as under "ssh -t" or in a container: then
// the group is the one that the session began with.
func jobControl() bool {
	sid, err := unix.Getsid(0)
	return err == nil && sid != unix.Getpgrp()
}

// give makes a group the foreground group. This process may be in the background
// when it takes the terminal back, where the attempt would stop it; from now on it
// ignores that signal. The command has been started and does not inherit that.
func (t *terminal) give(pgid int) {
	signal.Ignore(syscall.SIGTTOU)
	if err := unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, pgid); err == nil {
		t.given = pgid != unix.Getpgrp()
	}
}

// takeBack undoes give, unless the terminal has gone to a third group since.
func (t *terminal) takeBack(from int) {
	now, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err == nil && t.given && (now == from || syscall.Kill(-now, 0) != nil) {
		t.give(unix.Getpgrp())
	}
}

// release takes the terminal back for good.
func (t *terminal) release(from int) {
	if t == nil {
		return
	}
	t.takeBack(from)
	_ = t.file.Close() // nothing was written
}

// stopped decides what to do about a command that was stopped.
func (r *run) stopped(by syscall.Signal) {
	wantsTerminal := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case r.lost != nil:
		r.send(syscall.SIGCONT) // it has a SIGTERM to see
	case r.tty == nil || by == syscall.SIGSTOP:
		// Somebody stopped it on purpose and will continue it; the lock stays held.
	case wantsTerminal && r.tty.foreground(), !jobControl():
		r.tty.give(r.pgid)
		r.send(syscall.SIGCONT)
	default:
		r.suspend(wantsTerminal)
	}
}

// suspend stops this process's own group, as the shell expects of a job, and goes
// on where the command was when the job is continued. By then the lock may be
// lost; the command then is not continued but ended.
func (r *run) suspend(wantsTerminal bool) {
	wantsTerminal = wantsTerminal || r.tty.given
	r.tty.takeBack(r.pgid)
	r.cmd.Note("suspended; the lock is not renewed until this is continued")

	select {
	case <-r.continued: // an old one
	default:
	}
	// SIGTSTP would be the polite signal, but the Go runtime has a handler for it
	// from the first time it was listened for until the end.
	_ = syscall.Kill(0, syscall.SIGSTOP) // to a group of which this is a member
	select {
	case <-r.continued:
	case <-time.After(suspendWait):
	}

	if r.check(time.Now()); r.lost != nil {
		return
	}
	if wantsTerminal && r.tty.foreground() {
		r.tty.give(r.pgid)
	}
	r.send(syscall.SIGCONT)
}
