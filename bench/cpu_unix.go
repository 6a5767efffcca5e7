//go:build unix

package main

import (
	"syscall"
	"time"
)

func ownCPU() (time.Duration, bool) {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return 0, false
		}
		total += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return total, true
}
