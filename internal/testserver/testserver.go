// Package testserver runs the process of a real server for a test: it is waited for
// until it serves, can be stopped and started again, and ends with the test. What it
// says is shown if the test fails.
package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 60 * time.Second // on a busy machine
	stopTimeout  = 20 * time.Second
)

// A Spec says how to run a server.
type Spec struct {
	// Name is for messages.
	Name string
	// Command makes the process, each time that the server is started.
	Command func() *exec.Cmd
	// Ready returns nil when the server serves.
	Ready func() error
	// Stop is the signal that ends it at once, with what it has confirmed in its files.
	Stop syscall.Signal
}

// A Server is a running process.
type Server struct {
	spec Spec
	log  string

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd was waited for
}

// Start runs a server and returns when it serves. It ends with the test.
func Start(t testing.TB, spec Spec) *Server {
	t.Helper()
	s := &Server{spec: spec, log: filepath.Join(t.TempDir(), "log")}
	s.start(t)
	t.Cleanup(func() {
		s.stop(t)
		if t.Failed() {
			t.Logf("%s said:\n%s", spec.Name, s.said())
		}
	})
	return s
}

// Restart ends the process and starts the server again.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.stop(t)
	s.start(t)
}

// Process is the server's process.
func (s *Server) Process() *os.Process { return s.cmd.Process }

func (s *Server) said() []byte {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own
	cmd, exited := s.spec.Command(), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", s.spec.Name, err)
	}
	s.cmd, s.exited = cmd, exited
	go func() {
		_ = cmd.Wait() // ends by a signal
		close(exited)
	}()
	deadline := time.Now().Add(startTimeout)
	for {
		err := s.spec.Ready()
		if err == nil {
			return
		}
		select {
		case <-exited:
			t.Fatalf("%s ended by itself:\n%s", s.spec.Name, s.said())
		case <-time.After(20 * time.Millisecond): // between looks
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not serve after %v: %v\n%s", s.spec.Name, startTimeout, err, s.said())
		}
	}
}

// stop ends the process and waits for it.
func (s *Server) stop(t testing.TB) {
	_ = s.cmd.Process.Signal(s.spec.Stop) // fails if it has ended by itself
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		t.Errorf("%s did not end within %v", s.spec.Name, stopTimeout)
		_ = s.cmd.Process.Kill() // the same
		<-s.exited
	}
}

// Find returns the first of the programs that is installed, as a name in PATH or a
// path. It skips the test, or fails it in CI, if none is.
func Find(t testing.TB, programs ...string) string {
	t.Helper()
	var problems error
	for _, p := range programs {
		path, err := exec.LookPath(p)
		if err == nil {
			return path
		}
		problems = errors.Join(problems, err)
	}
	missing(t, problems)
	return ""
}

func missing(t testing.TB, err error) {
	t.Helper()
	text := fmt.Sprintf("not installed: %v", err)
	if os.Getenv("CI") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}
