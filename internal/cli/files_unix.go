//go:build unix

package cli

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errFileLocked is what lockFile returns when another process has the file.
var errFileLocked = errors.New("locked by another process")

// replaceProcess goes on as another program. It returns only if that fails.
func replaceProcess(path string, args, env []string) error { return unix.Exec(path, args, env) }

const errAddressInUse = syscall.EADDRINUSE

// lockFile locks a file, making it if need be, until release or the end of the
// process. It returns errFileLocked at once if another process has it.
func lockFile(name string) (release func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errFileLocked
		}
		return nil, err
	}
	return func() { _ = file.Close() }, nil // closing unlocks
}
