package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain is the program itself when it is called to run a member of etcd.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serveEtcdCommand {
		exitOn(serveEtcd(os.Args[2], os.Stdin, os.Stdout))
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == rateWorkerCommand {
		exitOn(rateWorker(os.Args[2], os.Stdin, os.Stdout))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestParse(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"-nodes", "1,3", "-run", "etcd/", "-o", "page.md"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, s.nodes)
	require.Equal(t, 5, s.rounds)
	require.Equal(t, 2*time.Second, s.duration)
	require.True(t, s.scenarios.MatchString("etcd/cycle"))
	require.False(t, s.scenarios.MatchString("zookeeper/cycle"))
	require.True(t, s.contenders.MatchString("anyone"))
	require.Equal(t, "go run ./bench -nodes 1,3 -run etcd/ -o page.md", s.command)

	s, err = parse([]string{"-quick"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 2, s.rounds)
	require.Equal(t, 200*time.Millisecond, s.duration)
}

func TestParseBadInput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-rounds", "0"},
		{"-duration", "1ms"},
		{"-nodes", "2"},
		{"-nodes", "1,"},
		{"-run", "("},
		{"-contenders", "("},
		{"more"},
		{"-unknown"},
	} {
		_, err := parse(args, io.Discard)
		require.Error(t, err, "%v", args)
	}
}

// bench runs the program and returns what it printed.
func runBench(t *testing.T, args ...string) string {
	t.Helper()
	s, err := parse(append([]string{"-dir", t.TempDir()}, args...), io.Discard)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var out, progress bytes.Buffer
	err = run(ctx, s, &out, &progress)
	require.NoError(t, err, "%s", &progress)
	left, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left behind")
	return out.String()
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := runBench(t, "-rounds", "1", "-duration", "100ms", "-run", "^etcd/(cycle|handoff-2)$",
		"-o", filepath.Join(dir, "performance.md"))
	require.Empty(t, out)
	page, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	require.NoError(t, err)
	require.Regexp(t, `\| lockctl \| .* \| 1.00 × \| 2 \| 0 \| 0 \| 0 \| \d`, string(page))
	require.Regexp(t, `\| raw put \+ delete \| .* × \| 2 \| 0 \| 0 \| 0 \| \d`, string(page))
	require.Regexp(t, `\| one commit \+ one watch event \| .* × \| 1 \| 0 \| 0 \| 1 \| \d`, string(page))
	require.Contains(t, string(page), "| etcd/cycle | commits ≤ 2, reads ≤ 0 | commits 2, reads 0 | met |")
	require.NotContains(t, string(page), "failed")
	require.FileExists(t, filepath.Join(dir, "performance-etcd.svg"))
}

func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	out := runBench(t, "-rounds", "1", "-duration", "100ms", "-nodes", "3", "-run", "^etcd3/cycle$", "-contenders", "lockctl")
	require.Regexp(t, `commits 2, reads 0 +met`, out)
	require.NotContains(t, out, "failed")
}

// TestZooKeeper has the peers in other languages too, as far as they are installed.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	out := runBench(t, "-rounds", "1", "-duration", "1s", "-run", "^zookeeper/cycle$") // two cycles of a JVM that has just begun
	if os.Getenv("CI") == "" && !bytes.Contains([]byte(out), []byte("lockctl")) {
		t.Skip(out)
	}
	require.Contains(t, out, "commits 2, reads 1")
	require.NotContains(t, out, "failed")
}

// TestStores has every store of leases, with its peers.
func TestStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runBench(t, "-rounds", "1", "-duration", "50ms", "-run", "^(postgres|mariadb|sqlite|redis|redlock|dynamodb)/", "-o", filepath.Join(dir, "performance.md"))
	page, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	require.NoError(t, err)
	if os.Getenv("CI") == "" && bytes.Contains(page, []byte("not installed")) {
		t.Skip("some servers are not installed")
	}
	require.NotContains(t, string(page), "ot measured")
	for system, requests := range map[string]string{
		"PostgreSQL": "1 + 1 requests", "MariaDB": "2 + 1 requests", "SQLite": "", "Redis": "1 + 1 requests", "DynamoDB, by dynalite": "1 + 1 requests",
	} {
		require.Regexp(t, `(?m)^\| `+system+`( \| [0-9.]+ (ns|µs|ms|s)){5} \| `+regexp.QuoteMeta(requests)+` \|$`, string(page))
	}
	require.Contains(t, string(page), "| Redlock, 5 servers |")
}

func TestNoScenario(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"-dir", t.TempDir(), "-run", "nothing"}, io.Discard)
	require.NoError(t, err)
	err = run(context.Background(), s, io.Discard, io.Discard)
	require.ErrorContains(t, err, "there are etcd/cycle, etcd/handoff-2")
}
