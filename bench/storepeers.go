package main

import (
	"context"
	"database/sql"
	"os/exec"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// What a user would take otherwise.
const (
	advisoryLock  = "pg_advisory_lock, which keeps a connection"
	getLock       = "GET_LOCK, which keeps a connection"
	redislockName = "redislock"
	redsyncName   = "redsync"
)

// retryEvery is how often those look again who wait for a lock of redislock or redsync.
const retryEvery = 5 * time.Millisecond

// onConnection is a peer that locks and unlocks by a statement on a connection of its own.
func onConnection(ctx context.Context, c *crew, driver, dsn, lock, unlock string, args ...any) (turn, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, db.Close)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, conn.Close)
	return func(ctx context.Context, granted func()) error {
		var result sql.NullString
		if err := conn.QueryRowContext(ctx, lock, args...).Scan(&result); err != nil {
			return err
		}
		granted()
		return conn.QueryRowContext(ctx, unlock, args...).Scan(&result)
	}, nil
}

func pgAdvisoryLock(ctx context.Context, c *crew, at site, addrs []string) (turn, error) {
	return onConnection(ctx, c, "pgx", postgresURL(addrs, ""),
		"SELECT pg_advisory_lock(hashtext($1))::text", "SELECT pg_advisory_unlock(hashtext($1))::text", at.name)
}

func mariaGetLock(ctx context.Context, c *crew, at site, addrs []string) (turn, error) {
	return onConnection(ctx, c, "mysql", "root@tcp("+addrs[0]+")/?interpolateParams=true", "SELECT GET_LOCK(?, 30)", "SELECT RELEASE_LOCK(?)", at.name)
}

func dialGoRedis(c *crew, addr string) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	c.closers = append(c.closers, client.Close)
	return client
}

func redislockPeer(_ context.Context, c *crew, at site, addrs []string) (turn, error) {
	locks := redislock.New(dialGoRedis(c, addrs[0]))
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryEvery)}
	return func(ctx context.Context, granted func()) error {
		lock, err := locks.Obtain(ctx, "redislock:"+at.name, sessionTTL, options)
		if err != nil {
			return err
		}
		granted()
		return lock.Release(ctx)
	}, nil
}

func redsyncPeer(_ context.Context, c *crew, at site, addrs []string) (turn, error) {
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		pools = append(pools, redsyncgoredis.NewPool(dialGoRedis(c, addr)))
	}
	mutex := redsync.New(pools...).NewMutex("redsync:"+at.name, redsync.WithExpiry(sessionTTL),
		redsync.WithTries(int(patience/retryEvery)), redsync.WithRetryDelay(retryEvery))
	return func(ctx context.Context, granted func()) error {
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		granted()
		_, err := mutex.UnlockContext(ctx)
		return err
	}, nil
}

// program is what a program says of its version.
func program(name, path string, args ...string) report.Fact {
	out, err := exec.Command(path, args...).Output()
	first, _, _ := strings.Cut(string(out), "\n")
	if err != nil || first == "" {
		first = unknown
	}
	return report.Fact{Name: name, Value: strings.TrimSpace(first)}
}
