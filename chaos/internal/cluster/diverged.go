//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// Nobody is the member that Diverged returns if there is none.
const Nobody = -1

// Diverged finds a member whose copy of the data differs from that of the others for
// good, and says in what. ZooKeeper has bugs by which a member loses transactions that the
// others have; see docs/found-bugs.md. All members must be there.
func (c *Cluster) Diverged(ctx context.Context, root string) (member int, what string, err error) {
	z, ok := c.engine.(*zkEngine)
	if !ok {
		return Nobody, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return z.diverged(ctx, root)
}

// Renew takes a member's data, so that it gets that of the others.
func (c *Cluster) Renew(ctx context.Context, i int) error {
	if err := c.Stop(i, syscall.SIGKILL); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(c.members[i].dir, "version-2")); err != nil {
		return err
	}
	return c.AwaitHealth(ctx)
}

// A reader is a connection to one member of ZooKeeper.
type reader struct {
	conn   *gozk.Conn
	events <-chan gozk.Event
}

func (r reader) close() {
	r.conn.Close()
	for range r.events { // until the library has ended
		continue
	}
}

// readEach runs f for each member, at the same time, after that has caught up with its leader.
func readEach(readers []reader, f func(i int, conn *gozk.Conn) error) error {
	errs := make([]error, len(readers))
	var all sync.WaitGroup
	for i, r := range readers {
		all.Go(func() {
			if _, errs[i] = r.conn.Sync("/"); errs[i] == nil {
				errs[i] = f(i, r.conn)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// copies are the zxids at which each member's copy of a node was made, 0 for none.
type copies [Size]int64

func (c copies) agree() bool { return c[0] == c[1] && c[1] == c[2] }

// odd is the member that the others don't agree with.
func (c copies) odd() int {
	for i := range c {
		if c[(i+1)%Size] == c[(i+2)%Size] {
			return i
		}
	}
	return 0
}

// Nodes come and go meanwhile. One that a member has, or has not, before and after another
// was seen to differ while it had caught up, is not of those.
const (
	looks     = 3
	lookPause = 300 * time.Millisecond
)

func (z *zkEngine) diverged(ctx context.Context, root string) (int, string, error) {
	var readers []reader
	for _, m := range z.members {
		conn, events, err := gozk.Connect([]string{m.client}, startTimeout, gozk.WithLogger(silent{}))
		if err != nil {
			return Nobody, "", err
		}
		r := reader{conn, events}
		defer r.close()
		defer context.AfterFunc(ctx, conn.Close)()
		readers = append(readers, r)
	}
	suspects, err := differences(readers, root)
	for range looks - 1 {
		if err != nil || len(suspects) == 0 {
			return Nobody, "", err
		}
		time.Sleep(lookPause)
		err = confirm(readers, suspects)
	}
	for path, c := range suspects {
		return c.odd(), fmt.Sprintf("of %s the members have what was made by %x (and of %d more)", path, c, len(suspects)-1), err
	}
	return Nobody, "", err
}

// differences are the nodes that not all members have.
func differences(readers []reader, root string) (map[string]copies, error) {
	var mu sync.Mutex
	nodes := map[string]copies{}
	err := readEach(readers, func(i int, conn *gozk.Conn) error {
		return walk(conn, root, func(path string, stat *gozk.Stat) {
			mu.Lock()
			defer mu.Unlock()
			c := nodes[path]
			c[i] = stat.Czxid
			nodes[path] = c
		})
	})
	for path, c := range nodes {
		if c.agree() {
			delete(nodes, path)
		}
	}
	return nodes, err
}

// walk visits all nodes from the path on.
func walk(conn *gozk.Conn, path string, visit func(string, *gozk.Stat)) error {
	children, stat, err := conn.Children(path)
	if errors.Is(err, gozk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	visit(path, stat)
	for _, name := range children {
		if err := walk(conn, path+"/"+name, visit); err != nil {
			return err
		}
	}
	return nil
}

// confirm leaves those suspects about which nothing has changed.
func confirm(readers []reader, suspects map[string]copies) error {
	var mu sync.Mutex
	now := map[string]copies{}
	err := readEach(readers, func(i int, conn *gozk.Conn) error {
		for path := range suspects {
			exists, stat, err := conn.Exists(path)
			if err != nil {
				return err
			}
			mu.Lock()
			c := now[path]
			if exists {
				c[i] = stat.Czxid
			}
			now[path] = c
			mu.Unlock()
		}
		return nil
	})
	for path, c := range suspects {
		if now[path] != c {
			delete(suspects, path)
		}
	}
	return err
}
