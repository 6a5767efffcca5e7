package etcd_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/recipes/recipetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	// The members of a cluster take a moment longer to hang up on each other than
	// goleak waits.
	deadline := time.Now().Add(patience)
	for err := goleak.Find(); err != nil && code == 0; err = goleak.Find() {
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func TestConformance(t *testing.T) {
	limits := recipetest.Limits{CycleCommits: 2, CycleReads: 0, WakeReads: 1, TurnReads: 1, ViewWatches: 1}
	recipetest.Run(t, limits, startHarness)
}

// TestConformanceCluster runs the suite on three members. A wake-up can take a
// second read: the first may be served by a member that lags.
func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	limits := recipetest.Limits{CycleCommits: 2, CycleReads: 0, WakeReads: 2, TurnReads: 1, ViewWatches: 1}
	recipetest.Run(t, limits, startClusterHarness)
}
