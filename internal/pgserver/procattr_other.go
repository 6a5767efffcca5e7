//go:build !linux

package pgserver

import "syscall"

func procAttr(user *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: user}
}
