//go:build linux

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/zkserver"
)

// TestDiverged has a member lose all its data and not know it: that is found, and mended,
// while nodes come and go.
func TestDiverged(t *testing.T) {
	t.Parallel()
	ctx, c := startZooKeeper(t)
	z := c.engine.(*zkEngine)
	leader, err := c.Leader(ctx)
	require.NoError(t, err)
	conn, events, err := gozk.Connect([]string{z.members[leader].client}, 20*time.Second, gozk.WithLogger(silent{}))
	require.NoError(t, err)
	defer reader{conn, events}.close()
	require.NoError(t, create(conn, "/lost"))
	require.NoError(t, create(conn, "/lost/too"))

	victim := (leader + 1) % Size
	require.NoError(t, c.Stop(victim, syscall.SIGKILL))
	answer, err := word(ctx, z.members[leader].client, "srvr")
	require.NoError(t, err)
	_, zxid, _ := strings.Cut(answer, "Zxid: 0x")
	zxid, _, _ = strings.Cut(zxid, "\n")
	data := filepath.Join(c.members[victim].dir, "version-2")
	logs, err := filepath.Glob(filepath.Join(data, "log.*"))
	require.NoError(t, err)
	for _, file := range logs {
		require.NoError(t, os.Remove(file))
	}
	require.NoError(t, os.Rename(filepath.Join(data, "snapshot.0"), filepath.Join(data, "snapshot."+zxid)))
	require.NoError(t, c.AwaitHealth(ctx))

	member, what, err := c.Diverged(ctx, "/lost")
	require.NoError(t, err)
	require.Equal(t, victim, member, what)
	require.NoError(t, c.Renew(ctx, victim))

	require.NoError(t, create(conn, "/busy"))
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil; n++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err = create(conn, "/busy/a"); err == nil {
				err = conn.Delete("/busy/a", -1)
			}
		}
		stopped <- err
	}()
	for _, root := range []string{"/lost", "/busy"} {
		member, what, err = c.Diverged(ctx, root)
		require.NoError(t, err)
		require.Equal(t, Nobody, member, what)
	}
	close(stop)
	require.NoError(t, <-stopped)
}

// startZooKeeper has a cluster for as long as the test lasts.
func startZooKeeper(t *testing.T) (context.Context, *Cluster) {
	t.Helper()
	zkserver.ClassPath(t)                   // skips, or fails in CI, without it
	dir, err := os.MkdirTemp("", "cluster") // a test's own directory has too long a name for sockets
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c, err := Start(ctx, Options{Engine: "zookeeper", Dir: dir, Clients: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return ctx, c
}

func create(conn *gozk.Conn, path string) error {
	_, err := conn.Create(path, nil, 0, gozk.WorldACL(gozk.PermAll))
	return err
}
