package zkserver

import "syscall"

// procAttr has the kernel end the server should the test be killed.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
