package supervise_test

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/ptytest"
)

// start runs the test binary as a runner of the script, in a session of its own.
// The terminal becomes its controlling terminal and standard input, if there is one.
func start(t *testing.T, script string, terminal *os.File) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asRunner+"="+script)
	cmd.Stderr = &bytes.Buffer{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if terminal != nil {
		cmd.Stdin, cmd.Stdout = terminal, terminal
		cmd.SysProcAttr.Setctty = true
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // at the end of a test, if need be
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the runner said: %s", cmd.Stderr)
		}
	})
	return cmd
}

// state is the state of a process in /proc, "" if there is none.
func state(pid string) string {
	_, rest, _ := strings.Cut(read("/proc/"+pid+"/stat"), ") ")
	s, _, _ := strings.Cut(rest, " ")
	return s
}

func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	_ = cmd.Wait() // the exit code is looked at
	return cmd.ProcessState.ExitCode()
}

func TestKilledRunnerTakesTheCommandAlong(t *testing.T) {
	t.Chdir(t.TempDir())
	cmd := start(t, "echo $$ >pid; exec sleep 1000", nil)
	waitFor(t, "the command runs", func() bool { return read("pid") != "" })
	pid := read("pid")
	require.NoError(t, cmd.Process.Kill())
	waitFor(t, "the command is dead", func() bool { s := state(pid); return s == "" || s == "Z" })
}

func TestForwardedSignalEndsWaiting(t *testing.T) {
	t.Chdir(t.TempDir())
	cmd := start(t, "echo x >ready; sleep 1000", nil)
	waitFor(t, "the command runs", func() bool { return read("ready") != "" })
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.Equal(t, 128+1, exitCode(t, cmd))
}

func TestIgnoredSignalStaysIgnored(t *testing.T) {
	t.Chdir(t.TempDir())
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := exec.Command("/bin/sh", "-c", // as nohup does
		"trap '' HUP; "+asRunner+"='kill -HUP $$; exit 5' exec "+self).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, string(out))
	require.Equal(t, 5, exit.ExitCode(), string(out))
}

func TestStopAndContinueWithoutTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	cmd := start(t, "echo $$ >pid; exec sleep 1000", nil)
	waitFor(t, "the command runs", func() bool { return read("pid") != "" })
	pid := read("pid")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTSTP))
	waitFor(t, "the command is stopped", func() bool { return state(pid) == "T" })
	require.NotEqual(t, "T", state(strconv.Itoa(cmd.Process.Pid)), "the runner has a lock to renew")
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	waitFor(t, "the command runs again", func() bool { return state(pid) == "S" })
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, exitCode(t, cmd))
}

func TestInteractiveCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	pty := ptytest.Open(t)
	cmd := start(t, "trap 'exit 9' INT; echo $$ >pid; read line; echo $line >heard; while :; do sleep 0.02; done", pty.Terminal)
	waitFor(t, "the command runs", func() bool { return read("pid") != "" })
	pty.Type(t, "hello\n")
	waitFor(t, "the command reads the terminal", func() bool { return read("heard") == "hello" })
	require.Equal(t, read("pid"), strconv.Itoa(pty.Foreground(t)))
	pty.Type(t, "\x03") // Ctrl-C is now the command's alone
	require.Equal(t, 9, exitCode(t, cmd))
}

func TestCommandLeavesTheForegroundAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	pty := ptytest.Open(t)
	cmd := start(t, "trap 'exit 8' INT; echo x >ready; while :; do sleep 0.02; done", pty.Terminal)
	waitFor(t, "the command runs", func() bool { return read("ready") != "" })
	require.Equal(t, cmd.Process.Pid, pty.Foreground(t))
	pty.Type(t, "\x03") // reaches the runner, which forwards it
	require.Equal(t, 8, exitCode(t, cmd))
}

// suspended starts a runner below a shell with job control, which can continue
// it, and suspends it from the keyboard while its command has the terminal.
func suspended(t *testing.T, env string) (pty ptytest.PTY, cmd *exec.Cmd) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	pty = ptytest.Open(t)
	script := "set -m; " + env + " " + asRunner +
		"='echo $$ >pid; read line; echo $line >heard; read line; exit 4' " + self +
		"; echo $? >stopped; until test -e go; do sleep 0.02; done; fg; echo $? >ended"
	cmd = exec.Command("bash", "-c", script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pty.Terminal, pty.Terminal, pty.Terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // at the end of a test, if need be
		_ = cmd.Wait()
	})
	pty.Type(t, "one\n")
	waitFor(t, "the command reads the terminal", func() bool { return read("heard") == "one" })
	pid := read("pid")
	pty.Type(t, "\x1a") // Ctrl-Z
	waitFor(t, "the shell has its prompt back", func() bool { return read("stopped") != "" })
	require.Equal(t, "T", state(pid))
	return pty, cmd
}

func TestSuspendAndResume(t *testing.T) {
	t.Chdir(t.TempDir())
	pty, cmd := suspended(t, "LEASE=3600")
	require.NoError(t, os.WriteFile("go", nil, 0o600))
	pty.Type(t, "two\n")
	require.Zero(t, exitCode(t, cmd))
	require.Equal(t, "4", read("ended"))
}

func TestLostWhileSuspended(t *testing.T) {
	t.Chdir(t.TempDir())
	began := time.Now()
	_, cmd := suspended(t, "LEASE=5")
	waitFor(t, "the lease is over", func() bool { return time.Since(began) > 5500*time.Millisecond })
	require.NoError(t, os.WriteFile("go", nil, 0o600))
	require.Zero(t, exitCode(t, cmd))
	require.Equal(t, "76", read("ended"), "the command is not continued after the lock was lost")
}
