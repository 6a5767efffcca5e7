package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/lockctl/lockctl/bench/internal/report"
	"github.com/lockctl/lockctl/dynamodb"
	"github.com/lockctl/lockctl/internal/dynaserver"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/mariaserver"
	"github.com/lockctl/lockctl/internal/pgserver"
	"github.com/lockctl/lockctl/internal/redisserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/redis"
	"github.com/lockctl/lockctl/sqldb/mysql"
	"github.com/lockctl/lockctl/sqldb/postgres"
	"github.com/lockctl/lockctl/sqldb/sqlite"
)

// redlockNodes are the servers of a Redlock.
const redlockNodes = 5

// storeGroups are the stores of leases.
func storeGroups() []group {
	return []group{
		storeGroup("postgres", "PostgreSQL", startPostgres, leases(postgresURL, dialPostgres), contender{advisoryLock, report.Peer, onStore(pgAdvisoryLock)}),
		storeGroup("mariadb", "MariaDB", startMaria, leases(mariaURL, dialMySQL), contender{getLock, report.Peer, onStore(mariaGetLock)}),
		storeGroup("sqlite", "SQLite", startSQLite, leases(sqliteURL, dialSQLite)),
		storeGroup("redis", "Redis", startRedisStore, leases(redisURL, dialRedis),
			contender{redislockName, report.Peer, onStore(redislockPeer)}, contender{redsyncName, report.Peer, onStore(redsyncPeer)}),
		storeGroup("redlock", fmt.Sprintf("Redlock, %d servers", redlockNodes), startRedlock, dialRedlock,
			contender{redsyncName, report.Peer, onStore(redsyncPeer)}),
		storeGroup("dynamodb", "DynamoDB, by dynalite", startDynalite, leases(dynamoURL, dialDynamo)),
	}
}

func storeGroup(name, title string, start func(h *host) *storeService, dial storeDial, peers ...contender) group {
	contenders := append([]contender{{ours, report.Ours, onStore(dial)}}, peers...)
	return group{
		name, title, 1,
		func(_ context.Context, w *workspace, _ int) (service, error) { return startStore(w, name, start) },
		[]scenario{
			{"cycle", "one client locks and unlocks", "cycle", 1, contenders, nil},
			{"handoff-2", "two clients take turns", "hand-off", 2, contenders, nil},
		},
	}
}

// A storeService is the servers of a store of leases. They flush what they confirm as they
// do by default.
type storeService struct {
	host *host
	at   []string // addresses
	file string   // of a store that has none
	fact report.Fact
}

func startStore(w *workspace, name string, start func(h *host) *storeService) (service, error) {
	h := &host{workspace: w, name: name}
	var s *storeService
	if err := h.try(func() { s = start(h) }); err != nil {
		return nil, errors.Join(err, h.close())
	}
	s.host = h
	return s, nil
}

func (s *storeService) addrs() []string                                { return s.at }
func (s *storeService) close() error                                   { return s.host.close() }
func (s *storeService) counts(context.Context) ([]report.Count, error) { return nil, nil }
func (s *storeService) sum(context.Context, ...string) (float64, error) {
	return 0, errors.New("no metrics")
}
func (s *storeService) versions(context.Context) ([]report.Fact, error) {
	return []report.Fact{s.fact}, nil
}

func startPostgres(h *host) *storeService {
	server := pgserver.StartDurable(h)
	server.Database(h)
	return &storeService{at: []string{server.Addr()}, fact: program("PostgreSQL", server.Program(), "--version")}
}

func startMaria(h *host) *storeService {
	server := mariaserver.StartDurable(h)
	server.Database(h)
	return &storeService{at: []string{server.Addr()}, fact: program("MariaDB", "mariadbd", "--version")}
}

func startSQLite(h *host) *storeService {
	return &storeService{
		file: filepath.Join(h.TempDir(), "locks.db"),
		fact: report.Fact{Name: "SQLite", Value: "modernc.org/sqlite " + moduleVersion("modernc.org/sqlite")},
	}
}

// everySecond is when Redis flushes by default, if it keeps a file of commands.
func everySecond(h *host) string { return redisserver.Start(h, "--appendfsync", "everysec").Addr() }

func startRedisStore(h *host) *storeService {
	return &storeService{at: []string{everySecond(h)}, fact: program("Redis", "redis-server", "--version")}
}

func startRedlock(h *host) *storeService {
	s := &storeService{fact: report.Fact{Name: "redsync", Value: moduleVersion("github.com/go-redsync/redsync/v4")}}
	for range redlockNodes {
		s.at = append(s.at, everySecond(h))
	}
	return s
}

func startDynalite(h *host) *storeService {
	return &storeService{at: []string{dynaserver.Start(h).Addr()}, fact: report.Fact{Name: "dynalite", Value: "on LevelDB, in Node.js; not DynamoDB itself"}}
}

// A storeDial has one more client in a crew, at these addresses.
type storeDial func(ctx context.Context, c *crew, at site, addrs []string) (turn, error)

func postgresURL(addrs []string, _ string) string {
	return "postgres://postgres@" + addrs[0] + "/test1?sslmode=disable"
}
func mariaURL(addrs []string, _ string) string { return "mysql://root@" + addrs[0] + "/test1" }
func redisURL(addrs []string, _ string) string { return "redis://" + addrs[0] }
func sqliteURL(_ []string, file string) string { return "sqlite:" + file }
func dynamoURL(addrs []string, _ string) string {
	return "dynamodb://us-east-1/locks?endpoint=http://" + addrs[0]
}
func redlockURL(addrs []string, _ string) string { return "redlock://" + strings.Join(addrs, ",") }

type leaseDial func(ctx context.Context, url string) (*recipes.LeaseClient, error)

func dialPostgres(ctx context.Context, url string) (*recipes.LeaseClient, error) {
	return postgres.Dial(ctx, url, nil)
}

func dialMySQL(ctx context.Context, url string) (*recipes.LeaseClient, error) {
	return mysql.Dial(ctx, url, nil)
}

func dialSQLite(ctx context.Context, url string) (*recipes.LeaseClient, error) {
	return sqlite.Dial(ctx, url, nil)
}

func dialRedis(ctx context.Context, url string) (*recipes.LeaseClient, error) {
	return redis.Dial(ctx, url, nil)
}

// dialDynamo has credentials, which dynalite does not check, but the SDK asks for.
func dialDynamo(ctx context.Context, url string) (*recipes.LeaseClient, error) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if os.Getenv(name) == "" {
			if err := os.Setenv(name, "bench"); err != nil {
				return nil, err
			}
		}
	}
	return dynamodb.Dial(ctx, url, nil)
}

// leases is a client of ours of a store with fencing tokens.
func leases(url func(addrs []string, file string) string, dial leaseDial) storeDial {
	return func(ctx context.Context, c *crew, at site, addrs []string) (turn, error) {
		client, err := dial(ctx, url(addrs, at.service.(*storeService).file))
		if err != nil {
			return nil, err
		}
		mutex, err := client.Mutex(at.name, nil)
		return enlisted(c, client.Close, mutex, err)
	}
}

func dialRedlock(ctx context.Context, c *crew, at site, addrs []string) (turn, error) {
	client, err := redis.DialRedlock(ctx, redlockURL(addrs, ""), nil)
	if err != nil {
		return nil, err
	}
	mutex, err := client.Mutex(at.name, nil)
	return enlisted(c, client.Close, mutex, err)
}

// enlisted is the turn of a client that the crew closes.
func enlisted[H recipes.Held](c *crew, closing func() error, mutex recipes.Locker[H], err error) (turn, error) {
	c.closers = append(c.closers, closing)
	if err != nil {
		return nil, err
	}
	return turnsOf(mutex), nil
}

// onStore makes a contender's open. Of one client it also finds how many requests a cycle
// is made of.
func onStore(dial storeDial) func(context.Context, site) (runner, error) {
	return func(ctx context.Context, at site) (runner, error) {
		r, err := newCrew(ctx, at, func(ctx context.Context, c *crew, at site) (turn, error) {
			return dial(ctx, c, at, at.service.addrs())
		})
		if err != nil || at.clients > 1 || len(at.service.addrs()) == 0 {
			return r, err
		}
		c := r.(*crew)
		if c.trips, err = countTrips(ctx, at, dial); err != nil {
			return nil, errors.Join(err, c.close())
		}
		return c, nil
	}
}

// countTrips counts the requests of a few cycles, of a client of its own whose connections
// go by a proxy: how often the client speaks after the server has.
func countTrips(ctx context.Context, at site, dial storeDial) (_ []report.Count, err error) {
	const cycles = 8
	var mu sync.Mutex
	var requests int
	type line struct{ link, conn int }
	spoke := map[line]faultlink.Direction{} // who has, last
	var addrs []string
	for i, target := range at.service.addrs() {
		link, err := faultlink.New(target)
		if err != nil {
			return nil, err
		}
		defer link.Close()
		link.Observe(func(conn int, dir faultlink.Direction, _ []byte) {
			mu.Lock()
			defer mu.Unlock()
			if dir == faultlink.Requests && spoke[line{i, conn}] != dir {
				requests++
			}
			spoke[line{i, conn}] = dir
		})
		addrs = append(addrs, link.Addr())
	}
	soFar := func() int {
		mu.Lock()
		defer mu.Unlock()
		return requests
	}
	c := &crew{}
	defer func() { err = errors.Join(err, c.close()) }()
	at.name += "-counted"
	turn, err := dial(ctx, c, at, addrs)
	if err != nil {
		return nil, err
	}
	if err := turn(ctx, func() {}); err != nil { // opens connections, prepares statements
		return nil, err
	}
	var locks, unlocks int
	for range cycles {
		begun := soFar()
		granted := begun
		if err := turn(ctx, func() { granted = soFar() }); err != nil {
			return nil, err
		}
		locks, unlocks = locks+granted-begun, unlocks+soFar()-granted
	}
	each := func(n int) float64 { return math.Round(float64(n)/cycles*10) / 10 }
	return []report.Count{{What: report.RequestsToLock, Each: each(locks)}, {What: report.RequestsToUnlock, Each: each(unlocks)}}, nil
}
