//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// diskSize is the size of the disk that can be filled.
const diskSize = "192m"

// tidyFrom is from how many bytes on a member is to remove what it does not need.
const tidyFrom = 64 << 20

const ballastName = "ballast"

// mountDisk makes the directory a small disk of its own. It needs root.
func mountDisk(dir string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize)
}

// FillDisk leaves no space on the disk of the member Disk.
func (c *Cluster) FillDisk() error {
	if c.Disk < 0 {
		return ErrNotHere
	}
	file, err := os.Create(filepath.Join(c.members[c.Disk].dir, ballastName))
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; size >= 1<<12; {
		_, err := file.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return fmt.Errorf("fill the disk: %w", err)
		}
	}
	return nil
}

// ClearDisk is the opposite of FillDisk. A member that has ended meanwhile is not
// started.
func (c *Cluster) ClearDisk() error {
	return os.Remove(filepath.Join(c.members[c.Disk].dir, ballastName))
}
