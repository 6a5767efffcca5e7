package pgserver

import "syscall"

// procAttr runs the server as the given user, nil for that of the test, and has the
// kernel end it should the test be killed.
func procAttr(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGKILL}
}
