//go:build !linux

package zkserver

import "syscall"

func procAttr() *syscall.SysProcAttr { return nil }
