// Command znode writes a znode in ZooKeeper under a lock in the same ZooKeeper. The
// write of a former holder is refused.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/examples/fencing/internal/demo"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/zk"
)

func main() { demo.Main("znode", run) }

func run(ctx context.Context, p *demo.Program) error {
	servers := p.String("servers", demo.Env("ZOOKEEPER_SERVERS", "127.0.0.1:2181"), "ZooKeeper's `addresses`, separated by commas")
	ttl := p.Duration("ttl", 10*time.Second, "how long the lock outlives its holder")
	stored := p.Bool("stored", false, "compare with a token stored in the znode, not with the lock's own node")
	path := p.String("path", "/report-daily", "the znode's `path`")
	p.Parse()
	conn, _, err := gozk.Connect(strings.Split(*servers, ","), *ttl, gozk.WithLogger(quiet{}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client, err := zk.Dial(ctx, "zk://"+*servers, &zk.Options{TTL: *ttl})
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := client.Mutex(p.Lock, nil)
	if err != nil {
		return err
	}
	return mutex.Do(ctx, func(ctx context.Context, hold *recipes.Hold) error {
		version, err := versionOf(ctx, conn, *path)
		if err != nil {
			return err
		}
		late, err := p.Pause(hold)
		if err != nil {
			return err
		}
		err = again(late, func() error {
			if *stored {
				return Write(conn, hold.Token(), *path, p.Value)
			}
			return WriteHeld(conn, hold, *path, p.Value, version)
		})
		if err != nil {
			return err
		}
		fmt.Printf("znode %s is now %q\n", *path, p.Value)
		return nil
	})
}

// versionOf is the version of a znode's data. It makes the znode if there is none.
func versionOf(ctx context.Context, conn *gozk.Conn, path string) (version int32, err error) {
	err = again(ctx, func() error {
		_, err := conn.Create(path, nil, gozk.FlagPersistent, gozk.WorldACL(gozk.PermAll))
		if err != nil && !errors.Is(err, gozk.ErrNodeExists) {
			return err
		}
		if _, err := conn.Sync(path); err != nil { // what earlier holders wrote has to be seen
			return err
		}
		_, stat, err := conn.Exists(path)
		if err == nil {
			version = stat.Version
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("make znode %s: %w", path, err)
	}
	return version, nil
}

// again repeats a request whose answer was lost with the connection, as it often is
// after a pause; the library connects anew by itself. The request may have been done
// the first time, so gozk.ErrBadVersion can then be of its own making.
func again(ctx context.Context, request func() error) error {
	for {
		err := request()
		if !lost(err) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// lost reports whether the error is the connection's, and not an answer.
func lost(err error) bool {
	var broken net.Error
	return errors.As(err, &broken) || errors.Is(err, gozk.ErrConnectionClosed) ||
		errors.Is(err, gozk.ErrSessionExpired) || errors.Is(err, gozk.ErrNoServer)
}

// quiet leaves out the library's log: errors are returned.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
