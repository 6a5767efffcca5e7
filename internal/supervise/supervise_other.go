//go:build unix && !linux

package supervise

import "syscall"

// attributes start the command in a group of its own. Nothing here ends it when
// this process is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adoptOrphans does nothing: there is no way to inherit orphans.
func adoptOrphans() (undo func()) { return func() {} }
