package main

import (
	"context"
	"errors"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/zk"
)

func dialZKClient(ctx context.Context, at site, ttl time.Duration) (*recipes.Client, error) {
	return zk.Dial(ctx, zkURL(at), &zk.Options{TTL: ttl})
}

func zkURL(at site) string { return "zk://" + strings.Join(at.service.addrs(), ",") }

func lockctlOnZK(ctx context.Context, c *crew, at site) (turn, error) {
	client, err := dialZKClient(ctx, at, sessionTTL)
	if err != nil {
		return nil, err
	}
	return takeTurns(c, client, at)
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// dialZK returns a connection that has its session.
func dialZK(ctx context.Context, c *crew, at site) (*gozk.Conn, error) {
	conn, events, err := gozk.Connect(at.service.addrs(), sessionTTL, gozk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, func() error { conn.Close(); return nil })
	for {
		select {
		case event := <-events:
			if event.State == gozk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func goZooKeeperLock(ctx context.Context, c *crew, at site) (turn, error) {
	conn, err := dialZK(ctx, c, at)
	if err != nil {
		return nil, err
	}
	lock := gozk.NewLock(conn, "/go/"+at.name, gozk.WorldACL(gozk.PermAll))
	return func(_ context.Context, granted func()) error {
		if err := lock.Lock(); err != nil {
			return err
		}
		granted()
		return lock.Unlock()
	}, nil
}

// createAndDelete is what no lock can do without.
func createAndDelete(ctx context.Context, c *crew, at site) (turn, error) {
	conn, err := dialZK(ctx, c, at)
	if err != nil {
		return nil, err
	}
	acl := gozk.WorldACL(gozk.PermAll)
	for _, parent := range []string{"/raw", "/raw/" + at.name} {
		if _, err := conn.Create(parent, nil, 0, acl); err != nil && !errors.Is(err, gozk.ErrNodeExists) {
			return nil, err
		}
	}
	return func(_ context.Context, granted func()) error {
		path, err := conn.Create("/raw/"+at.name+"/", nil, gozk.FlagEphemeral|gozk.FlagSequence, acl)
		if err != nil {
			return err
		}
		granted()
		return conn.Delete(path, -1)
	}, nil
}
