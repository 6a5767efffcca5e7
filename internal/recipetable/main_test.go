package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election/electiontest"
	"github.com/lockctl/lockctl/job/jobtest"
	"github.com/lockctl/lockctl/ratelimit/ratelimittest"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

const sample = `{"Action":"run","Package":"x/etcd","Test":"TestConformance/shared/FIFO"}
{"Action":"pass","Package":"x/etcd","Test":"TestConformance/shared/FIFO"}
{"Action":"pass","Package":"x/etcd","Test":"TestConformance/own/CostOfQueue"}
{"Action":"pass","Package":"x/zk","Test":"TestElection/shared/Resign"}
{"Action":"pass","Package":"x/zk","Test":"TestElection/Cost"}
{"Action":"pass","Package":"x/zk","Test":"TestElection/shared"}
{"Action":"pass","Package":"x/zk","Test":"TestTLS"}
{"Action":"output","Package":"x/zk","Output":"PASS\n"}
`

func TestTable(t *testing.T) {
	c, err := read(strings.NewReader(sample))
	require.NoError(t, err)
	require.Equal(t, "| recipe | etcd | ZooKeeper | memory |\n|---|---|---|---|\n"+
		"| `Mutex` | ✓ 1 tests | – | – |\n| election | – | ✓ 2 tests | – |\n| `Queue` | ✓ 1 tests | – | – |\n", c.table())
	_, err = read(strings.NewReader(`{"Action":"fail","Package":"x/etcd","Test":"TestTLS"}`))
	require.ErrorContains(t, err, "TestTLS has failed")
	_, err = read(strings.NewReader("text"))
	require.Error(t, err)
}

func TestReplace(t *testing.T) {
	page, err := replace("a\n"+begin+"old\n"+end+"b\n", "new\n")
	require.NoError(t, err)
	require.Equal(t, "a\n"+begin+"new\n"+end+"b\n", page)
	_, err = replace("a\n"+begin, "new\n")
	require.Error(t, err)
	require.Error(t, run(nil, nil))
	require.Error(t, run([]string{filepath.Join(t.TempDir(), "none")}, nil))
}

// TestReadme holds the README's table against what the suites have now.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	all := counts{}
	count := func(suite string, names []string) {
		for _, name := range names {
			recipe := recipeOf(suite + "/" + name)
			if all[recipe] == nil {
				all[recipe] = map[string]int{}
			}
			for _, engine := range engines {
				if engine.title != "memory" || recipe != guard { // where those are skipped
					all[recipe][engine.title]++
				}
			}
		}
	}
	count("TestConformance", recipetest.Names())
	count("TestElection", electiontest.Names())
	count("TestJob", jobtest.Names())
	count("TestRateLimit", ratelimittest.Names())
	require.True(t, strings.Contains(string(page), begin+all.table()+end), "the table is not current: run make table")
}
