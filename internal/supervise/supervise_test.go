//go:build unix

package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/supervise"
)

// Run owns all children of the process, so these tests do not run in parallel.

func TestResult(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0":            0,
		"exit 7":            7,
		"kill -TERM $$":     128 + 15,
		"kill -KILL $$":     128 + 9,
		"exit 3 & exit 4":   4,
		"(exit 5); exit $?": 5,
	} {
		result, err := supervise.Run(newLease(time.Hour), shell(script, time.Second))
		require.NoError(t, err)
		require.Equal(t, supervise.Result{Code: want}, result, script)
	}
}

func TestCannotStart(t *testing.T) {
	c := shell("", time.Second)
	c.Path = filepath.Join(t.TempDir(), "missing")
	_, err := supervise.Run(newLease(time.Hour), c)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWaitsForTheGroup(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	result, err := supervise.Run(newLease(time.Hour), shell("(sleep 0.4; echo x >late) & exit 3", time.Second))
	require.NoError(t, err)
	require.Equal(t, 3, result.Code)
	require.FileExists(t, "late")
}

func TestHealthyLeaseRunsOn(t *testing.T) {
	l := newLease(2 * time.Second)
	stop := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				l.renew(2 * time.Second)
			}
		}
	})
	result, err := supervise.Run(l, shell("sleep 2.5; exit 9", 500*time.Millisecond))
	close(stop)
	renewing.Wait()
	require.NoError(t, err)
	require.Equal(t, supervise.Result{Code: 9}, result)
}

func TestTermBeforeTheDeadline(t *testing.T) {
	t.Chdir(t.TempDir())
	l := newLease(3 * time.Second)
	result, err := supervise.Run(l, shell("trap 'echo bye >said; exit 0' TERM; while :; do sleep 0.02; done", 1500*time.Millisecond))
	left := time.Until(l.Deadline())
	require.NoError(t, err)
	require.ErrorIs(t, result.Lost, supervise.ErrExpiring)
	require.Equal(t, 0, result.Code)
	require.Equal(t, "bye", read("said"))
	require.Positive(t, left)
	require.Less(t, left, 1500*time.Millisecond)
}

func TestKillBeforeTheDeadline(t *testing.T) {
	t.Chdir(t.TempDir())
	l := newLease(3 * time.Second)
	stubborn := "trap '' TERM; (trap '' TERM; echo $$ >grandchild; while :; do sleep 0.01; done) & while :; do sleep 0.02; done"
	result, err := supervise.Run(l, shell(stubborn, 2*time.Second))
	left := time.Until(l.Deadline())
	require.NoError(t, err)
	require.ErrorIs(t, result.Lost, supervise.ErrExpiring)
	require.Equal(t, 128+9, result.Code)
	require.Positive(t, left, "the group outlived the deadline")
	pgid, err := strconv.Atoi(read("grandchild"))
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Kill(-pgid, 0), syscall.ESRCH)
	t.Logf("the group was gone %v before the deadline", left)
}

// TestNobodyReadsWhatIsTold has the command fill the pipe that telling goes to as well.
func TestNobodyReadsWhatIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	giveUp := time.AfterFunc(20*time.Second, func() { _ = r.Close() }) // the test fails then
	l := newLease(3 * time.Second)
	c := shell("trap '' TERM; yes >&2 & while :; do echo x >>beats; sleep 0.02; done", 1500*time.Millisecond)
	c.Stderr = w
	told, ended := make(chan struct{}), make(chan struct{})
	c.Note = func(what string) {
		fmt.Fprintln(w, what)
		select {
		case <-ended:
		default:
			close(told)
		}
	}
	result, err := supervise.Run(l, c)
	require.NoError(t, err)
	require.ErrorIs(t, result.Lost, supervise.ErrExpiring)
	select {
	case <-told:
		t.Error("telling did not block")
	default:
	}
	close(ended)
	require.True(t, giveUp.Stop(), "it waits for what it tells")
	require.NoError(t, r.Close()) // ends the telling
	beats, err := os.Stat("beats")
	require.NoError(t, err)
	require.True(t, beats.ModTime().Before(l.Deadline()), "the command outlived the lease")
}

func TestLostAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	l := newLease(time.Hour)
	why := errors.New("the service says so")
	var losing sync.WaitGroup
	losing.Go(func() {
		waitFor(t, "the command runs", func() bool { return read("ready") != "" })
		l.lose(why)
	})
	start := time.Now()
	result, err := supervise.Run(l, shell("trap '' TERM; echo x >ready; while :; do sleep 0.02; done", 300*time.Millisecond))
	losing.Wait()
	require.NoError(t, err)
	require.ErrorIs(t, result.Lost, why)
	require.Equal(t, 128+9, result.Code)
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestLostWhileStopped(t *testing.T) {
	t.Chdir(t.TempDir())
	l := newLease(2 * time.Second)
	result, err := supervise.Run(l, shell("trap 'echo x >said; exit 0' TERM; kill -STOP $$; exit 1", time.Second))
	require.NoError(t, err)
	require.ErrorIs(t, result.Lost, supervise.ErrExpiring)
	require.Equal(t, "x", read("said"), "a stopped command is continued to see its TERM")
}

func TestForwardsToTheGroup(t *testing.T) {
	t.Chdir(t.TempDir())
	signals := make(chan os.Signal, 1)
	c := shell("trap 'echo outer >outer' USR1; (trap 'echo inner >inner; exit' USR1; echo x >ready;"+
		" while :; do sleep 0.02; done) & wait; wait; exit 6", time.Second)
	c.Signals = signals
	var sending sync.WaitGroup
	sending.Go(func() {
		waitFor(t, "the command runs", func() bool { return read("ready") != "" })
		signals <- syscall.SIGUSR1
	})
	result, err := supervise.Run(newLease(time.Hour), c)
	sending.Wait()
	require.NoError(t, err)
	require.Equal(t, supervise.Result{Code: 6}, result)
	require.Equal(t, "inner", read("inner"))
	require.Equal(t, "outer", read("outer"))
}

func TestTellsThatItWasAskedToEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	signals := make(chan os.Signal, 1)
	c := shell("trap 'exit 0' HUP; echo x >ready; while :; do sleep 0.02; done", time.Second)
	c.Signals = signals
	var sending sync.WaitGroup
	sending.Go(func() {
		waitFor(t, "the command runs", func() bool { return read("ready") != "" })
		signals <- syscall.SIGHUP
	})
	result, err := supervise.Run(newLease(time.Hour), c)
	sending.Wait()
	require.NoError(t, err)
	require.Equal(t, supervise.Result{Signal: syscall.SIGHUP}, result)
}

func TestEnvironmentAndOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	out, err := os.Create("out")
	require.NoError(t, err)
	defer out.Close()
	c := shell("echo $GREETING $0", time.Second)
	c.Stdout, c.Env = out, []string{"GREETING=hello"}
	_, err = supervise.Run(newLease(time.Hour), c)
	require.NoError(t, err)
	require.Equal(t, "hello sh", read("out"))
}

func TestNames(t *testing.T) {
	require.Equal(t, "SIGTERM", supervise.Name(syscall.SIGTERM))
	require.Equal(t, 15, supervise.Number(syscall.SIGTERM))
}
