// Package supervise runs a command for as long as a lock is held.
//
// The command gets a process group of its own. What happens to it happens to the
// whole group: signals are forwarded to it, a loss of the lock ends it, and the
// command counts as ended when the last process of the group has.
//
// # Guarantees
//
//   - When renewals of the lock fail, the group gets SIGTERM a grace period before
//     the deadline of the hold, and SIGKILL in time to be gone before it.
//   - When the service itself ends the hold, the group gets SIGTERM at once and
//     SIGKILL after a second at most.
//   - A group that was stopped, or this process with it, is not continued after the
//     lock was lost, except to be ended.
//   - On Linux the command itself is killed when this process dies, however it dies.
//
// # Non-guarantees
//
//   - A process that leaves the group (setsid, or a job of an interactive shell) is
//     neither signalled nor waited for.
//   - When this process is killed, the command's own children are not killed with it.
//   - While this process is stopped by SIGSTOP, the command runs on unwatched.
//
// # Terminal
//
// The command starts in a background process group of the terminal, so that
// programs which share a pipeline with this process keep the foreground. When the
// command needs the terminal (it is stopped by SIGTTIN or SIGTTOU), it is made the
// foreground group and continued. When it is suspended from the keyboard, this
// process suspends itself too; both go on when the shell continues it. While
// suspended it does not renew the lock.
package supervise
