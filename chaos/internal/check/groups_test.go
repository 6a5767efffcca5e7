//go:build linux

package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/chaos/internal/check"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	tryAll(t, map[string]trial{
		"a group": {nil, `
			1 a.1 1 called group g
			2 a.1 1 granted group g
			3 b.1 1 called group g
			4 a.1 2 called view g
			5 a.1 2 granted view g ids=a.1/1,b.1/1
			6 b.1 1 granted group g
			7 a.1 3 called view g
			8 a.1 1 release group g
			9 a.1 3 granted view g ids=b.1/1
			10 a.1 1 released group g
			11 b.1 2 called view g
			12 b.1 2 granted view g ids=b.1/1`},
		"a group that does not show a member": {[]string{"group"}, `
			1 a.1 1 called group g
			2 a.1 1 granted group g
			4 b.1 2 called view g
			5 b.1 2 granted view g
			8 a.1 1 release group g`},
		"a group that does not show a member who did not run": {nil, `
			1 a.1 1 called group g
			2 a.1 1 granted group g
			4 b.1 2 called view g
			5 b.1 2 granted view g
			7 a.1 0 paused since=3
			8 a.1 1 ended group g`},
		"a group that shows who has left": {[]string{"group"}, `
			1 a.1 1 called group g
			2 a.1 1 granted group g
			3 a.1 1 release group g
			4 a.1 1 released group g
			5 b.1 2 called view g
			6 b.1 2 granted view g ids=a.1/1`},
		"a group that shows a member that may have left": {nil, `
			1 a.1 1 called group g
			2 a.1 1 granted group g
			3 a.1 1 release group g
			4 a.1 1 released group g err=unavailable
			5 b.1 2 called view g
			6 b.1 2 granted view g ids=a.1/1`},
		"a group that shows a member twice": {[]string{"group"}, `
			1 a.1 1 called group g
			5 b.1 2 called view g
			6 b.1 2 granted view g ids=a.1/1,a.1/1`},
		"a group that shows nobody": {[]string{"group"}, `
			1 b.1 2 called view g
			2 b.1 2 granted view g ids=a.1/1
			3 a.1 1 called group g`},
		"rounds of a double barrier": {nil, `
			1 a.1 1 called round r
			2 b.1 1 called round r
			3 a.1 1 granted round r n=1
			4 b.1 1 granted round r n=1
			5 c.1 1 called round r
			6 a.1 2 called round r
			7 a.1 1 release round r
			8 b.1 1 release round r
			9 c.1 1 granted round r n=1
			10 a.1 1 released round r
			11 a.1 2 granted round r n=1
			12 b.1 1 released round r`},
		"a round with one member too many": {[]string{"exclusion", "round", "model"}, `
			1 a.1 1 called round r
			2 b.1 1 called round r
			3 a.1 1 granted round r n=1
			4 b.1 1 granted round r n=1
			5 c.1 1 called round r
			6 c.1 1 granted round r n=1
			7 a.1 1 release round r
			8 b.1 1 release round r
			9 b.1 1 released round r
			10 a.1 1 released round r
			11 c.1 1 release round r
			12 c.1 1 released round r`},
		"a round with one member": {[]string{"round"}, `
			1 a.1 1 called round r
			3 a.1 1 granted round r n=1`},
		"a round with one member who gave up": {nil, `
			1 b.1 1 called round r
			2 b.1 1 failed round r err=unavailable
			3 a.1 1 called round r
			4 a.1 1 granted round r n=1`},
		"a round that ends before all have left": {[]string{"round"}, `
			1 a.1 1 called round r
			2 b.1 1 called round r
			3 a.1 1 granted round r n=1
			4 b.1 1 granted round r n=1
			7 a.1 1 release round r
			8 a.1 1 released round r
			9 b.1 1 release round r
			10 b.1 1 released round r`},
		"a round that ends before one has left who did not run": {nil, `
			1 a.1 1 called round r
			2 b.1 1 called round r
			3 a.1 1 granted round r n=1
			4 b.1 1 granted round r n=1
			7 a.1 1 release round r
			8 a.1 1 released round r
			9 b.1 0 paused since=5
			9 b.1 1 release round r
			10 b.1 1 released round r`},
	})
}

// TestStaleReads has who looks at a group, and who asks for a lock, see the past: that is for
// a ZooKeeper whose members are cut off.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	const fault = `
		1 n 0 begin fault isolate-leader
		9 n 0 end fault isolate-leader`
	for name, past := range map[string]string{
		"group": `
			2 a.1 1 called group g
			3 a.1 1 granted group g
			4 b.1 2 called view g
			5 b.1 2 granted view g
			8 a.1 1 release group g`,
		"asked": `
			2 a.1 1 called seized m
			3 a.1 1 granted seized m token=4096
			4 c.1 1 called operator m
			5 c.1 1 asking operator m
			6 c.1 1 granted operator m
			7 a.1 1 release seized m`,
	} {
		stale := check.Options{Limit: 1, TTL: time.Second, StaleReads: true}
		require.Empty(t, check.Run(scene(t, past+fault), stale).Violations)
		for _, o := range []check.Options{stale, {Limit: 1, TTL: time.Second}} {
			found := check.Run(scene(t, past), o).Violations
			require.Len(t, found, 1)
			require.Equal(t, name, found[0].Check)
		}
		require.Len(t, check.Run(scene(t, past+fault), check.Options{Limit: 1, TTL: time.Second}).Violations, 1)
	}
}
