package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockctl/lockctl/internal/freeport"
	"github.com/lockctl/lockctl/internal/testserver"
)

const (
	execTimeout = 60 * time.Second // on a busy machine

	admin = "postgres" // the user, and the database, that each server begins with
)

// A Server is one PostgreSQL server.
type Server struct {
	programs string
	user     *syscall.Credential
	dir      string
	port     int

	process   *testserver.Server
	databases atomic.Int64 // made so far
}

// unflushed is for tests, which lose nothing that matters.
var unflushed = []string{"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"}

// Start runs a server and returns when it serves. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, unflushed)
}

// StartDurable is Start for a server that flushes to disk, as it does by default.
func StartDurable(t testing.TB) *Server {
	t.Helper()
	return start(t, nil)
}

func start(t testing.TB, args []string) *Server {
	t.Helper()
	s := &Server{programs: programs(t)}
	var err error
	if s.user, err = unprivileged(); err != nil {
		t.Fatal(err)
	}
	if s.port, err = freeport.Port(); err != nil {
		t.Fatal(err)
	}
	s.makeDir(t)
	if out, err := s.command("initdb", "-D", s.data(), "-U", admin, "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.process = testserver.Start(t, testserver.Spec{
		Name: "PostgreSQL",
		Stop: syscall.SIGINT,
		Command: func() *exec.Cmd {
			return s.command("postgres", append([]string{"-D", s.data(), "-p", strconv.Itoa(s.port),
				"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}, args...)...)
		},
		Ready: func() error { return s.exec(admin, "SELECT 1") },
	})
	return s
}

// Program is the server's program.
func (s *Server) Program() string { return filepath.Join(s.programs, "postgres") }

// Restart stops the server and starts it again with the same data.
func (s *Server) Restart(t testing.TB) { s.process.Restart(t) }

// makeDir makes a directory that belongs to the server's user. Those that a test
// makes are below one that only the test's own user may enter.
func (s *Server) makeDir(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgserver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if s.user != nil {
		if err := os.Chown(dir, int(s.user.Uid), int(s.user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	s.dir = dir
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command is one of PostgreSQL's programs, to be run as the server's user.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir = s.dir // the present one may be closed to the user
	cmd.SysProcAttr = procAttr(s.user)
	return cmd
}

// exec runs one statement in a database, on a connection of its own.
func (s *Server) exec(database, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), execTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	if closeErr := conn.Close(ctx); err == nil {
		err = closeErr
	}
	return err
}

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", admin, s.Addr(), database)
}

// Addr is the address for clients, host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Database makes a new, empty database and returns its URL, which contains Addr. It
// may be called at the same time for several tests.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	if err := s.exec(admin, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create database: %v", err)
	}
	return s.url(name)
}
