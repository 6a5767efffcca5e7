package zk

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
)

// cycles is how often each side locks.
const cycles = 20

// exclude runs a mutex of ours against a peer on the same path. Inside the lock
// both make a file that must not exist, and remove it: whoever finds it there is
// not alone. peer runs its cycles and returns when done.
func exclude(t *testing.T, s *zkserver.Server, peer func(path, file string) error) {
	t.Helper()
	root := rootFor(t)
	path, file := root+"/shared", filepath.Join(t.TempDir(), "inside")
	admin := connect(t, s.Addrs(), 20*time.Second)
	for _, p := range []string{root, path} {
		_, err := admin.Create(p, nil, gozk.FlagPersistent, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	c := dial(t, urlFor(s, root+"/ours"), nil)
	m, err := c.Mutex("shared", &recipes.MutexOptions{Path: path})
	require.NoError(t, err)

	var g errgroup.Group
	g.Go(func() error { return peer(path, file) })
	g.Go(func() error {
		for range cycles {
			err := m.Do(within(t), func(context.Context, *recipes.Hold) error { return alone(file) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, g.Wait())
	children, _, err := admin.Children(path)
	require.NoError(t, err)
	require.Empty(t, children)
}

func alone(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(file))
}

func testGoLock(t *testing.T, s *zkserver.Server) {
	conn := connect(t, s.Addrs(), 20*time.Second)
	exclude(t, s, func(path, file string) error {
		l := gozk.NewLock(conn, path, gozk.WorldACL(gozk.PermAll))
		for range cycles {
			if err := l.Lock(); err != nil {
				return err
			}
			if err := errors.Join(alone(file), l.Unlock()); err != nil {
				return err
			}
		}
		return nil
	})
}

func testKazoo(t *testing.T, s *zkserver.Server) {
	python := "/usr/bin/python3" // where Debian's kazoo is
	if exec.Command(python, "-c", "import kazoo").Run() != nil {
		missing(t, "no kazoo for "+python)
	}
	exclude(t, s, run(t, python, "testdata/kazoo_lock.py", s.Addrs()[0]))
}

func testCurator(t *testing.T, s *zkserver.Server) {
	if _, err := exec.LookPath("javac"); err != nil {
		missing(t, "no Java compiler")
	}
	path := zkserver.ClassPath(t, "curator-client", "curator-framework", "curator-recipes", "guava", "jackson-core", "jackson-databind", "jackson-annotations")
	exclude(t, s, run(t, "java", "-cp", path, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "testdata/CuratorLock.java", s.Addrs()[0]))
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// run runs a program with the path, the file and the number of cycles as its last
// arguments.
func run(t *testing.T, name string, args ...string) func(path, file string) error {
	return func(path, file string) error {
		cmd := exec.CommandContext(within(t), name, append(args, path, file, itoa(cycles))...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
		return nil
	}
}
