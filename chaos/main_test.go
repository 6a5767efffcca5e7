//go:build linux

package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/chaos/internal/check"
	"github.com/lockctl/lockctl/internal/zkserver"
)

func TestMain(m *testing.M) {
	if isChild(os.Args[1:], os.Stdin, os.Stderr) {
		return
	}
	goleak.VerifyTestMain(m)
}

// options are those of a short run, by processes of the test's own binary.
func options(t *testing.T, engine string) Options {
	t.Helper()
	if testing.Short() {
		t.Skip("a run with faults takes minutes")
	}
	if engine == "zookeeper" {
		zkserver.ClassPath(t) // skips, or fails in CI, without it
	}
	o, err := defaultOptions(engine)
	require.NoError(t, err)
	o.Seed = seed(t)
	o.Log = testLog{t}
	o.Dir, err = os.MkdirTemp("", "chaos") // a test's own directory has too long a name for sockets
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, os.RemoveAll(o.Dir))
		}
	})
	return o
}

// seed is a new one for each run, or the one that the environment gives.
func seed(t *testing.T) uint64 {
	t.Helper()
	s, err := parseSeed(os.Getenv("CHAOS_SEED"))
	require.NoError(t, err)
	t.Logf("seed %d; CHAOS_SEED=%d has the same faults again", s, s)
	return s
}

// testLog has what a run says in the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// runTimeout is far more than a short run takes.
const runTimeout = 15 * time.Minute

func runAll(t *testing.T, o Options) *Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	out, err := Run(ctx, o)
	require.NoError(t, err, "history and logs are in %s", o.Dir)
	printOutcome(o.Log, out)
	return out
}

// TestFaults has each kind of fault at least once. A run in which the service itself had lost
// data says nothing of its clients if something was found; there is another then.
func TestFaults(t *testing.T) {
	const runs = 3
	for _, engine := range []string{"etcd", "zookeeper"} {
		t.Run(engine, func(t *testing.T) {
			var o Options
			var out *Outcome
			for i := range runs {
				o = options(t, engine)
				o.Each = true
				o.Seed += uint64(i)
				if out = runAll(t, o); !out.Inconclusive() {
					break
				}
			}
			require.Empty(t, out.Result.Violations, "history and logs are in %s", o.Dir)
			for _, f := range faults() {
				if left := strings.Contains(strings.Join(out.Left, " "), f.name); !left {
					require.Positive(t, out.Result.Counts.Faults[f.name], f.name)
				}
			}
		})
	}
}

// TestMutants shows that a run finds what it is there to find, and only that. A mistake
// takes the right moment to show. Faults look for it, and may miss it in one short run.
func TestMutants(t *testing.T) {
	const runs = 3
	for _, trial := range trials() {
		t.Run(trial.mutation, func(t *testing.T) {
			for i := range runs {
				o := options(t, "etcd")
				o.Seed += uint64(i)
				out := runAll(t, trial.options(o))
				if len(trial.found) == 0 {
					require.Empty(t, out.Result.Violations)
					return
				}
				if slices.ContainsFunc(out.Result.Violations, func(v check.Violation) bool {
					return slices.Contains(trial.found, v.Check)
				}) {
					return
				}
			}
			t.Errorf("found by none of %v in %d runs", trial.found, runs)
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/page.html"
	require.NoError(t, writeReport(path, exampleOutcome()))
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, part := range []string{"1 violations", "make chaos ENGINE=etcd DURATION=1m0s SEED=7", "kill-leader", "was granted while", "mutex hot w1", "etcd 3.7.3"} {
		require.Contains(t, string(page), part)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-engine"}, {"-faults", "rain"}, {"-mutant", "rain"}, {"-engine", "rain"}, {"-margin", "-1s"}, {"-loops", "rain"}, {"extra"}} {
		var said strings.Builder
		dir := t.TempDir()
		require.Equal(t, 2, command(t.Context(), append([]string{"-dir", dir}, args...), &said), args)
		require.NotEmpty(t, said.String())
	}
}
