package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes start the command in a group of its own, and have the kernel kill it
// when this process dies without having had a chance to.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes processes whose parents have ended children of this
// process, instead of init's, so that their end is seen at once and their
// zombies go away even where init doesn't reap. It returns what undoes it.
func adoptOrphans() (undo func()) {
	set := func(on uintptr) { // an old kernel may refuse: then the group is polled
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0)
	}
	set(1)
	return func() { set(0) }
}
