//go:build linux

package cluster

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTidy restarts a member of ZooKeeper again and again, which makes a snapshot each time.
func TestTidy(t *testing.T) {
	t.Parallel()
	ctx, c := startZooKeeper(t)
	version, err := c.Version(ctx)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(version, "ZooKeeper 3."), version)
	snapshots := func() int {
		files, err := filepath.Glob(filepath.Join(c.members[0].dir, "version-2", "snapshot.*"))
		require.NoError(t, err)
		return len(files)
	}
	for snapshots() <= 3 {
		leader, err := c.Leader(ctx)
		require.NoError(t, err)
		require.NoError(t, c.Stop(leader, syscall.SIGKILL)) // a new epoch, and so new names
		require.NoError(t, c.AwaitHealth(ctx))
	}
	before := snapshots()
	require.NoError(t, c.Tidy(ctx))
	require.Equal(t, before, snapshots(), "there is space enough")
	require.NoError(t, c.engine.tidy(ctx, 0, 0))
	require.Equal(t, 3, snapshots())
	require.NoError(t, c.Stop(0, syscall.SIGKILL))
	require.NoError(t, c.AwaitHealth(ctx))
}
