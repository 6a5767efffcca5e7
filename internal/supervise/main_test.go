//go:build unix

package supervise_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/internal/supervise"
)

// asRunner makes the test binary run a command under a lease that lasts, as a
// process of its own that tests can kill and give a terminal.
const asRunner = "SUPERVISE_TEST_RUN"

func TestMain(m *testing.M) {
	if script := os.Getenv(asRunner); script != "" {
		os.Exit(runner(script))
	}
	goleak.VerifyTestMain(m)
}

// runner runs the script under a lease of so many seconds as LEASE says.
func runner(script string) int {
	l := newLease(time.Hour)
	if seconds, err := strconv.ParseFloat(os.Getenv("LEASE"), 64); err == nil {
		l = newLease(time.Duration(seconds * float64(time.Second)))
	}
	c := shell(script, 100*time.Millisecond)
	signals, stop := supervise.Endings()
	defer stop()
	c.Signals = signals
	c.Stdin, c.Stdout = os.Stdin, os.Stdout
	c.Note = func(what string) { fmt.Fprintln(os.Stderr, "note:", what) }
	result, err := supervise.Run(l, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if result.Lost != nil {
		return 76
	}
	return result.Code
}

// lease is a lease as tests want it.
type lease struct {
	ctx  context.Context
	lose context.CancelCauseFunc

	mu       sync.Mutex
	deadline time.Time
}

func newLease(d time.Duration) *lease {
	l := &lease{deadline: time.Now().Add(d)}
	l.ctx, l.lose = context.WithCancelCause(context.Background())
	return l
}

func (l *lease) Context() context.Context { return l.ctx }

func (l *lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *lease) renew(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = time.Now().Add(d)
}

// shell is a command that runs a script of the shell.
func shell(script string, grace time.Duration) supervise.Command {
	return supervise.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(),
		Stderr: os.Stderr, Grace: grace,
	}
}

// waitFor polls until the condition is true.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, 5*time.Millisecond, what)
}

// read returns a file's text without the space around it, "" if there is none.
func read(file string) string {
	data, _ := os.ReadFile(file) // what is not there yet is waited for
	return strings.TrimSpace(string(data))
}
