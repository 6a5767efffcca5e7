// Package redisserver runs real Redis servers for tests, each on a free port of the
// loopback interface with data in a temporary directory, from what Debian's package
// redis-server installs: single ones, a master with a replica and Sentinels, and clusters.
//
// A machine without Redis skips the test, unless the environment's CI says that nothing
// may be skipped.
package redisserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockctl/lockctl/internal/freeport"
	"github.com/lockctl/lockctl/internal/testserver"
)

// A Server is one Redis server.
type Server struct {
	process *testserver.Server
	addr    string
	dir     string
}

// Start runs a server, with more arguments than it has anyway, and returns when it
// serves. What it has confirmed it keeps over a restart. It ends with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, append([]string{"--appendonly", "yes", "--appendfsync", "no"}, args...)...)
}

// StartEmpty runs a server that forgets everything when it is restarted.
func StartEmpty(t testing.TB) *Server {
	t.Helper()
	return start(t, "--save", "")
}

func start(t testing.TB, args ...string) *Server {
	t.Helper()
	program := testserver.Find(t, "redis-server")
	addr, port := address(t)
	s := &Server{addr: addr, dir: t.TempDir()}
	s.process = testserver.Start(t, testserver.Spec{
		Name: "Redis",
		Stop: syscall.SIGTERM,
		Command: func() *exec.Cmd {
			return exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", ""}, args...)...)
		},
		Ready: func() error { return s.do("ping") },
	})
	return s
}

func address(t testing.TB) (addr, port string) {
	t.Helper()
	n, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	port = strconv.Itoa(n)
	return "127.0.0.1:" + port, port
}

// Addr is the address for clients, host:port.
func (s *Server) Addr() string { return s.addr }

// Restart stops the server and starts it again.
func (s *Server) Restart(t testing.TB) { s.process.Restart(t) }

// Process is the server's process.
func (s *Server) Process() *os.Process { return s.process.Process() }

// Client makes a client of the server. It is closed with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() }) // it may have been closed
	return c
}

// do has the server carry out a command.
func (s *Server) do(args ...any) error {
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = c.Close() }() // it was not used by others
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Do(ctx, args...).Err()
}

// A Failover is a master with a replica, and Sentinels that have the replica take over.
type Failover struct {
	Master, Replica *Server
	Sentinels       []string // their addresses
	Name            string   // of the master, for Sentinels
}

// StartFailover runs a master with a replica and three Sentinels. They end with the test.
func StartFailover(t testing.TB) *Failover {
	t.Helper()
	master := Start(t)
	_, port, _ := cut(master.addr)
	f := &Failover{Master: master, Name: "locks", Replica: Start(t, "--replicaof", "127.0.0.1", port)}
	until(t, "the replica to have everything", func() bool {
		return f.Replica.info("master_link_status") == "up"
	})
	for range 3 {
		addr, own := address(t)
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		config := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %s 2\n"+
			"sentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 5000\n", own, filepath.Dir(file), f.Name, port, f.Name, f.Name)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &Server{addr: addr}
		program := testserver.Find(t, "redis-server")
		s.process = testserver.Start(t, testserver.Spec{
			Name:    "Sentinel",
			Stop:    syscall.SIGTERM,
			Command: func() *exec.Cmd { return exec.Command(program, file, "--sentinel") },
			Ready:   func() error { return s.do("ping") },
		})
		f.Sentinels = append(f.Sentinels, addr)
	}
	for _, addr := range f.Sentinels {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() }) // nothing is left to tell
		until(t, "the Sentinels to know each other", func() bool {
			info, err := c.Master(context.Background(), f.Name).Result()
			return err == nil && info["num-other-sentinels"] == "2" && info["num-slaves"] == "1"
		})
	}
	return f
}

// Protect gives the master and its replica a password, and the Sentinels another. The
// user of both is "default".
func (f *Failover) Protect(t testing.TB, servers, sentinels string) {
	t.Helper()
	must := func(s *Server, args ...any) {
		t.Helper()
		if err := s.do(args...); err != nil {
			t.Fatalf("%v: %v", args[:2], err)
		}
	}
	for _, s := range []*Server{f.Replica, f.Master} {
		must(s, "config", "set", "masterauth", servers, "requirepass", servers)
	}
	for _, addr := range f.Sentinels {
		s := &Server{addr: addr}
		must(s, "sentinel", "set", f.Name, "auth-pass", servers)
		must(s, "sentinel", "config", "set", "sentinel-pass", sentinels) // for each other
		must(s, "acl", "setuser", "default", "resetpass", ">"+sentinels) // what requirepass is
	}
}

// StartCluster runs a cluster of three masters and returns when it serves. They end with
// the test.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	servers := make([]*Server, 3)
	for i := range servers {
		addr, port := address(t)
		_, bus := address(t)
		s := &Server{addr: addr, dir: t.TempDir()}
		program := testserver.Find(t, "redis-server")
		s.process = testserver.Start(t, testserver.Spec{
			Name: "Redis",
			Stop: syscall.SIGTERM,
			Command: func() *exec.Cmd {
				return exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "yes",
					"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000")
			},
			Ready: func() error { return s.do("ping") },
		})
		servers[i] = s
		if err := s.do("cluster", "addslotsrange", i*16384/3, (i+1)*16384/3-1); err != nil {
			t.Fatalf("assign slots: %v", err)
		}
		if err := s.do("cluster", "set-config-epoch", i+1); err != nil {
			t.Fatalf("set the epoch: %v", err)
		}
		if i > 0 {
			host, first, _ := cut(servers[0].addr)
			if err := servers[i].do("cluster", "meet", host, first, servers[0].bus(t)); err != nil {
				t.Fatalf("join the cluster: %v", err)
			}
		}
	}
	for _, s := range servers {
		until(t, "the cluster to serve", func() bool {
			return s.info("cluster_state") == "ok" && s.info("cluster_known_nodes") == "3"
		})
	}
	return servers
}
