// Package dynaserver runs dynalite for tests, an implementation of DynamoDB's protocol that
// keeps its data in a directory: each on a free port of the loopback interface. It is a
// package of npm, which tools/setup.sh installs.
//
// A machine without it skips the test, unless the environment's CI says that nothing may be
// skipped.
package dynaserver

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lockctl/lockctl/internal/freeport"
	"github.com/lockctl/lockctl/internal/testserver"
)

// guard keeps the server alive: a request that is cut off in its middle would end it.
const guard = "process.on('uncaughtException', (err) => console.error('ignored:', err))\n"

// A Server is one server.
type Server struct {
	process *testserver.Server
	addr    string
}

// Start runs a server and returns when it serves. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	programs := []string{"dynalite"}
	if cache, err := os.UserCacheDir(); err == nil { // where setup.sh puts it
		programs = append(programs, filepath.Join(cache, "lockctl", "npm", "node_modules", ".bin", "dynalite"))
	}
	program := testserver.Find(t, programs...)
	addr, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	node, data, preload := testserver.Find(t, "node"), t.TempDir(), filepath.Join(t.TempDir(), "guard.js")
	if err := os.WriteFile(preload, []byte(guard), 0o600); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return &Server{addr: addr, process: testserver.Start(t, testserver.Spec{
		Name: "dynalite",
		Stop: syscall.SIGTERM,
		Command: func() *exec.Cmd {
			return exec.Command(node, "--require", preload, program, "--host", "127.0.0.1", "--port", port, "--path", data, "--createTableMs", "0", "--deleteTableMs", "0")
		},
		Ready: func() error {
			reply, err := client.Get("http://" + addr)
			if err != nil {
				return err
			}
			return reply.Body.Close()
		},
	})}
}

// Addr is the address for clients, host:port.
func (s *Server) Addr() string { return s.addr }

// Restart stops the server and starts it again with the same data.
func (s *Server) Restart(t testing.TB) { s.process.Restart(t) }
