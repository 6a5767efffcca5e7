//go:build !linux || !amd64

package wallclock

import "time"

// A Clock is this process's wall clock.
type Clock struct{}

// Take makes the wall clock one that can be set. It returns ErrUnsupported.
func Take() (*Clock, error) { return nil, ErrUnsupported }

// Shift sets the clock off by d from the machine's.
func (*Clock) Shift(time.Duration) {}

// Supported reports false.
func Supported() bool { return false }
