package recipes

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// hosts are candidates of weight 1.
func hosts(n int) []candidate {
	candidates := make([]candidate, n)
	for i := range candidates {
		candidates[i] = newCandidate("jobs", fmt.Sprintf("host-%d", i), 1)
	}
	return candidates
}

// shardCounts is how many shards each candidate has.
func shardCounts(owners []int, candidates int) []int {
	counts := make([]int, candidates)
	for _, owner := range owners {
		counts[owner]++
	}
	return counts
}

// TestAssignVectors has results that were computed by another program. They must
// never change: members of all versions divide the shards among them.
func TestAssignVectors(t *testing.T) {
	abc := []candidate{newCandidate("jobs", "a", 1), newCandidate("jobs", "b", 2), newCandidate("jobs", "c", 1)}
	require.Equal(t, []int{1, 2, 0, 1, 0, 0, 0, 2, 0, 2, 1, 1, 1, 1, 1, 2}, assign(16, abc))
	var five []candidate
	for i := range 5 {
		five = append(five, newCandidate("ingest/ü", fmt.Sprintf("host-%d", i), 1))
	}
	require.Equal(t, []int{3, 0, 4, 0, 2, 0, 3, 4, 3, 3, 4, 4, 3, 4, 2, 2, 4, 1, 0, 3, 2, 1, 1, 0}, assign(24, five))
	require.Equal(t, uint64(0xff9693aa796d352c), newCandidate("jobs", "a", 1).best(0))
	require.Equal(t, uint64(0xe657de92427d0af3), newCandidate("jobs", "a", 3).best(7))
	for key, want := range map[string][3]int{"": {0, 20, 3092}, "a": {0, 10, 3530}, "order-17": {0, 16, 3536}, "ü": {0, 36, 1828}} {
		require.Equal(t, want, [3]int{shardOf(key, 1), shardOf(key, 64), shardOf(key, 4096)}, "%q", key)
	}
	require.Equal(t, []int{-1, -1}, assign(2, nil))
}

// TestAssignBalance has each share within four standard deviations of what chance
// gives, for the names of this test.
func TestAssignBalance(t *testing.T) {
	for _, shards := range []int{64, 1024, 4096} {
		for _, members := range []int{2, 3, 10, 50} {
			candidates := hosts(members)
			candidates[0].weight = 3
			total := float64(members + 2)
			for i, n := range shardCounts(assign(shards, candidates), members) {
				part := float64(candidates[i].weight) / total
				bound := 4 * math.Sqrt(float64(shards)*part*(1-part))
				require.InDelta(t, float64(shards)*part, n, bound, "member %d of %d, %d shards", i, members, shards)
			}
		}
	}
}

// TestAssignMovesLittle adds a member, removes one, and changes a weight.
func TestAssignMovesLittle(t *testing.T) {
	const shards, members = 512, 9
	candidates := hosts(members + 1)
	before := assign(shards, candidates[:members])
	for shard, owner := range assign(shards, candidates) {
		if owner != before[shard] {
			require.Equal(t, members, owner, "shard %d moved to another than who joined", shard)
		}
	}
	for gone := range members {
		left := slices.Delete(slices.Clone(candidates[:members]), gone, gone+1)
		for shard, owner := range assign(shards, left) {
			if owner >= gone {
				owner++
			}
			require.True(t, owner == before[shard] || before[shard] == gone, "shard %d moved and was not of who left", shard)
		}
	}
	heavier := slices.Clone(candidates[:members])
	heavier[4].weight = 2
	for shard, owner := range assign(shards, heavier) {
		require.True(t, owner == before[shard] || owner == 4, "shard %d moved to another than who became heavier", shard)
	}
}

// TestAssignIsOfNames has the same owners in whatever order the members are, and
// others in another partition.
func TestAssignIsOfNames(t *testing.T) {
	candidates := hosts(7)
	owners := assign(256, candidates)
	slices.Reverse(candidates)
	for shard, owner := range assign(256, candidates) {
		require.Equal(t, owners[shard], 6-owner)
	}
	twins := []candidate{candidates[2], candidates[2]}
	require.Equal(t, []int{256, 0}, shardCounts(assign(256, twins), 2), "of equal draws the first counts")
	elsewhere := make([]candidate, 7)
	for i := range elsewhere {
		elsewhere[i] = newCandidate("other", fmt.Sprintf("host-%d", 6-i), 1)
	}
	require.NotEqual(t, assign(256, candidates), assign(256, elsewhere))
}

func TestShardsOfKeys(t *testing.T) {
	const shards, keys = 64, 64000
	counts := make([]int, shards)
	for i := range keys {
		counts[shardOf(fmt.Sprintf("customer/%d", i), shards)]++
	}
	for shard, n := range counts {
		require.InDelta(t, keys/shards, n, 4*math.Sqrt(keys/shards), "shard %d", shard)
	}
}
