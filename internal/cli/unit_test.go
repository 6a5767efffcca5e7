package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{&exit{code: 7}, 7},
		{fmt.Errorf("wrapped: %w", usageError("bad")), exitUsage},
		{&recipes.InvalidError{Field: "name", Problem: "is empty"}, exitUsage},
		{&recipes.HeldError{Name: "x"}, exitNotAcquired},
		{&recipes.LostError{Name: "x"}, exitNotAcquired}, // the place in line
		{fmt.Errorf("x: %w", recipes.ErrUnavailable), exitUnavailable},
		{context.DeadlineExceeded, exitUnavailable},
		{fmt.Errorf("x: %w", recipes.ErrDenied), exitDenied},
		{&interrupted{syscall.SIGTERM}, 143},
		{errors.New("else"), exitInternal},
	} {
		require.Equal(t, c.want, exitCode(c.err), "%v", c.err)
	}
}

// run runs lockctl within this process.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	files := make([]*os.File, 2)
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		require.NoError(t, err)
		defer f.Close()
		files[i] = f
	}
	code = Main(t.Context(), Process{Args: args, Env: env, Stdin: os.Stdin, Stdout: files[0], Stderr: files[1]})
	texts := make([]string, 2)
	for i, f := range files {
		data, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		texts[i] = string(data)
	}
	return code, texts[0], texts[1]
}

func TestMainFunction(t *testing.T) {
	t.Parallel()
	code, out, errs := run(t, nil, "version")
	require.Zero(t, code)
	require.Contains(t, out, "lockctl ")
	require.Empty(t, errs)
	code, out, errs = run(t, []string{"LOCKCTL_BACKEND=what\x1b[2J://x"}, "ls")
	require.Equal(t, exitUsage, code)
	require.Empty(t, out)
	require.Equal(t, "lockctl: backend URL must begin with dynamodb:, etcd:, mysql:, postgres:, redis:, rediss:, redlock:, redlocks:, sqlite: or zk:\n", errs)
}

func TestErrorIsOneLineAndHarmless(t *testing.T) {
	t.Parallel()
	_, _, errs := run(t, nil, "nope\nx\x1b[2J\u202e")
	require.Equal(t, 1, strings.Count(errs, "\n"))
	require.NotContains(t, errs, "\x1b")
	require.NotContains(t, errs, "\u202e")
}

func TestBackendNames(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"etcd://h:1,i:2/root?user=u&password-file=f": "etcd://h:1,i:2/root",
		"etcd://u:secret@h/root":                     "etcd://h/root",
	} {
		require.Equal(t, want, backend{url: url}.name())
	}
	require.Equal(t, []string{"etcd a:1", "etcd a:1 (2)", "zk b:2"}, consoleNames([]backend{
		{url: "etcd://a:1,c:3"}, {url: "etcd://a:1/other"}, {url: "zk://b:2/root?ttl=4s"},
	}))
	require.Equal(t, []string{"sqlite a.db", "sqlite b.db", "sqlite " + strings.Repeat("ä", 21)}, consoleNames([]backend{
		{url: "sqlite:/var/a.db"}, {url: "sqlite:b.db?ttl=4s"}, {url: "sqlite:/var/" + strings.Repeat("ä", 30)},
	}))
}

func TestReachableAddress(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{":0": "localhost", "0.0.0.0:0": "localhost", "127.0.0.1:0": "127.0.0.1"} {
		listener, err := net.Listen("tcp", listen)
		require.NoError(t, err)
		host, port, err := net.SplitHostPort(reachable(listener.Addr()))
		require.NoError(t, err)
		require.Equal(t, want, host)
		require.Equal(t, port, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
		require.NoError(t, listener.Close())
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s",
		90 * time.Minute: "1h30m", 50 * time.Hour: "2d02h",
	} {
		require.Equal(t, want, age(now.Add(-d), now))
	}
	require.Equal(t, "unknown", age(time.Time{}, now))
}

// lockOf is a lock with a holder and so many waiters.
func lockOf(name string, waiters int, since time.Time) recipes.Object {
	lock := recipes.Object{Kind: recipes.KindMutex, Name: name, HeldSince: since, Holding: 1}
	for i := range waiters + 1 {
		lock.Entries = append(lock.Entries, recipes.Entry{
			ID: fmt.Sprint(i), Kind: "mutex", Token: uint64(i + 1), Owner: recipes.Owner{Program: "p", Host: "h", PID: i},
		})
	}
	return lock
}

func newTestScreen(t *testing.T) *screen {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = null.Close() })
	return newScreen(&app{Process: Process{Stdout: null}}, backend{url: "etcd://h"})
}

func TestScreenFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := newTestScreen(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Contains(t, s.lines(now, 80, 24)[0], "connecting")
	for i := range 40 {
		require.NoError(t, s.change(recipes.Change{Kind: recipes.ObjectChanged, Object: lockOf(fmt.Sprintf("n%02d", i), i, now)}))
	}
	require.NoError(t, s.change(recipes.Change{Kind: recipes.WatchSynced}))
	for _, height := range []int{4, 10, 24, 100} {
		lines := s.lines(now, 30, height)
		require.LessOrEqual(t, len(lines), height)
		for _, line := range lines {
			require.LessOrEqual(t, termtext.Cells(line), 30)
		}
	}
	lines := s.lines(now, 80, 10)
	require.Equal(t, "etcd://h  12:00:00 UTC  40 objects  live", lines[0])
	require.Equal(t, "… and 34 more: watch a longer prefix", lines[len(lines)-1])

	require.NoError(t, s.change(recipes.Change{Kind: recipes.WatchLost, Err: errors.New("gone\x1b")}))
	require.Contains(t, s.lines(now, 80, 10)[0], `UNREACHABLE, trying again: gone\x1b`)
	require.NoError(t, s.change(recipes.Change{Kind: recipes.ObjectChanged, Object: recipes.Object{Kind: recipes.KindMutex, Name: "n00"}}))
	require.Contains(t, s.lines(now, 80, 10)[0], "39 objects")
}

func TestPlainJSON(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a":"\u009b\u202e\udb40\udc41日"}`+"\n", string(plainJSON([]byte("{\"a\":\"\u009b\u202e\U000e0041日\"}\n"))))
}

func TestEnvironmentOfTheCommand(t *testing.T) {
	t.Parallel()
	client, err := memory.Open(memory.NewServer(), nil)
	require.NoError(t, err)
	defer client.Close()
	mutex, err := client.Mutex("x", nil)
	require.NoError(t, err)
	hold, err := mutex.Lock(t.Context())
	require.NoError(t, err)
	one := grip{hold, []namedHold{hold}}
	outer := []string{"A=1", "LOCKCTL_TERM=of an outer lead", "LOCKCTL_TOKEN=of an outer hold", "LOCKCTL_NAMED=kept", "LOCKCTL_BACKEND=kept"}
	env := commandEnv(outer, turn{service: client, client: client}, tenure{Lease: one, env: one.env()})
	token := tokenText(hold.Token())
	require.Equal(t, []string{
		"A=1", "LOCKCTL_NAMED=kept", "LOCKCTL_BACKEND=kept",
		"LOCKCTL_NAMES=x", "LOCKCTL_TOKENS=" + token, "LOCKCTL_NAME=x", "LOCKCTL_TOKEN=" + token,
		"LOCKCTL_OWNER=" + client.Owner().String(),
	}, env[:8])
	require.Len(t, env, 9)
	several := grip{hold, []namedHold{hold, hold}}
	require.Equal(t, []string{"LOCKCTL_NAMES=x\nx", "LOCKCTL_TOKENS=" + token + "\n" + token}, several.env())

	g := grace(hold, time.Now())
	ttl := time.Until(hold.Deadline()) * 8 / 7
	require.InDelta(t, float64(ttl/4), float64(g), float64(ttl/50))
}

func TestJobTexts(t *testing.T) {
	t.Parallel()
	tick := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	attempt := job.Attempt{
		Tick: tick, Attempt: 2, By: recipes.Owner{Program: "p\x1b[2J", Host: "h"}, Started: tick, Ended: tick.Add(1500 * time.Millisecond),
		Outcome: job.Failed, Error: "no\ndisk",
	}
	var b strings.Builder
	require.NoError(t, writeJobState(&b, "n\x1b", job.State{Schedule: "@every 1h0m0s", Current: &attempt, Last: &attempt, Next: tick.Add(time.Hour)}))
	require.Equal(t, `job        n\x1b
schedule   @every 1h0m0s
completed  none
last       tick 2026-03-01T03:00:00Z, attempt 2, by p\x1b[2J@h: failed after 1.5s: no\ndisk
running    nothing; tick 2026-03-01T03:00:00Z is left after attempt 2, by p\x1b[2J@h
next       2026-03-01T04:00:00Z
run by     nobody
`, b.String())
	at := backend{url: "etcd://h:1?user=u"}
	for want, e := range map[string]job.Event{
		"etcd://h:1 can't be reached, trying again: gone":        {Kind: job.Unreachable, Err: errors.New("gone")},
		`job "x": 1 tick skipped, the last 2026-03-01T03:00:00Z`: {Kind: job.Skipped, Skipped: 1, Tick: tick},
		`job "x": tick 2026-03-01T03:00:00Z was abandoned by h; it is run again`: {
			Kind: job.Ended, Again: true, Attempt: job.Attempt{Tick: tick, By: recipes.Owner{Program: "h"}, Outcome: job.Abandoned},
		},
	} {
		text, important := tellJob(at, "x", e)
		require.Equal(t, want, text)
		require.True(t, important)
		require.NotEmpty(t, newJobJSON(at, "etcd", "x", e).Event)
	}
}

func TestHoldArguments(t *testing.T) {
	t.Parallel()
	never := func(string) bool { return false }
	o := holdOptions{}
	require.NoError(t, o.set([]string{"x", "cmd", "-v"}, 1, never))
	require.Equal(t, []string{"cmd", "-v"}, o.command)
	require.NoError(t, o.set([]string{"x"}, -1, never))
	require.Empty(t, o.command)
	require.Error(t, o.set([]string{"x", "cmd"}, -1, never))
	require.NoError(t, o.set([]string{"y", "x", "cmd"}, 2, never))
	require.Equal(t, []string{"x", "y"}, o.names)
	require.Equal(t, []string{"cmd"}, o.command)
	require.Error(t, o.set([]string{"x", "y", "x", "cmd"}, 3, never))
	require.Error(t, o.set([]string{"x", "y"}, 2, never))
	require.Error(t, o.set([]string{"x", "y"}, -1, never))
	require.Error(t, o.set([]string{"cmd"}, 0, never))
	require.Error(t, o.set([]string{"x"}, 1, never))
}
