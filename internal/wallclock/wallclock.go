// Package wallclock sets this process's wall clock forward or back, for tests, and
// nobody else's.
//
// A Go program asks the kernel's vDSO for the time, past the C library, so libfaketime
// does not reach it; and a time namespace has no wall clock of its own. So the process
// changes its own copy of the vDSO: the function for the time goes to a few
// instructions behind its end, which ask the kernel and add to the wall clock. All
// other clocks are as they were.
package wallclock

import "errors"

// ErrUnsupported says that this machine has no vDSO of the kind that Take knows.
var ErrUnsupported = errors.New("the wall clock of a process can't be set here")
