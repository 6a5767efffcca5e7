// Package mariaserver runs real MariaDB servers for tests, from Debian's package
// mariadb-server: each on a free port of the loopback interface, with data in a
// temporary directory. It lets everybody in and, unless asked to, does not flush to disk;
// everything else is as it comes.
//
// A machine without MariaDB skips the test, unless the environment's CI says that
// nothing may be skipped.
package mariaserver

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/lockctl/lockctl/internal/freeport"
	"github.com/lockctl/lockctl/internal/testserver"
)

// debian is the user that Debian has made for the server, which does not run as root.
const debian = "mysql"

// A Server is one MariaDB server.
type Server struct {
	process   *testserver.Server
	port      int
	databases atomic.Int64 // made so far
}

// unflushed is for tests, which lose nothing that matters.
var unflushed = []string{"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"}

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
	server := testserver.Find(t, "mariadbd", "/usr/sbin/mariadbd")
	install := testserver.Find(t, "mariadb-install-db")
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{port: port}
	dir := makeDir(t)
	data := filepath.Join(dir, "data")
	var as []string
	if os.Getuid() == 0 {
		as = []string{"--user=" + debian}
	}
	out, err := exec.Command(install, append(as, "--no-defaults", "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db")...).CombinedOutput()
	if err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	s.process = testserver.Start(t, testserver.Spec{
		Name: "MariaDB",
		Stop: syscall.SIGTERM,
		Command: func() *exec.Cmd {
			return exec.Command(server, slices.Concat([]string{"--no-defaults"}, as, []string{"--datadir=" + data,
				"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(port), "--socket=" + filepath.Join(dir, "s"),
				"--pid-file=" + filepath.Join(dir, "pid"), "--skip-log-bin",
				"--innodb-buffer-pool-size=16M", "--default-time-zone=+05:30"}, args)...)
		},
		Ready: func() error { return s.exec("DO 1") },
	})
	return s
}

// makeDir makes a directory that the server's user may use.
func makeDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "maria") // not the test's own, which only its user may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if os.Getuid() == 0 {
		u, err := user.Lookup(debian)
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid) // it is a number on Unix
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Addr is the address for clients, host:port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Restart stops the server and starts it again with the same data.
func (s *Server) Restart(t testing.TB) { s.process.Restart(t) }

func (s *Server) exec(statement string) error {
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statement)
	return err
}

// Database makes a new, empty database and returns its name. The user "root" may use
// it, without a password.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("create database: %v", err)
	}
	return name
}
