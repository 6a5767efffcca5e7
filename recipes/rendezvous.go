package recipes

import (
	"crypto/sha256"
	"encoding/binary"
)

// Rendezvous hashing, also known as highest random weight: each member draws a
// number for each shard, and the largest draw gets it. So who joins takes shards
// from the others and moves none among them, and the shards of who leaves are all
// that moves. A member of weight w draws w times.
//
// Every process of a partition, of whatever version, must come to the same result:
// the arithmetic is on integers alone, and must never change.

// A candidate is a member that shards can be assigned to.
type candidate struct {
	seed   uint64
	weight int
}

// newCandidate makes the candidate of a member of a partition. Neither name can
// contain the separator, so no two pairs run together. The partition's name is in
// it so that a member has other shards of another partition.
func newCandidate(partition, member string, weight int) candidate {
	sum := sha256.Sum256([]byte(partition + shardSeparator + member))
	return candidate{seed: binary.BigEndian.Uint64(sum[:8]), weight: weight}
}

// best is the largest of the member's draws for a shard.
func (c candidate) best(shard int) uint64 {
	var best uint64
	for draw := range c.weight {
		best = max(best, scatter(c.seed^scatter(uint64(shard)<<32|uint64(draw))))
	}
	return best
}

// scatter is the finalizer of SplitMix64: one to one, and each bit of the input
// changes about half of the result.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// assign returns for each shard the index of the candidate that it belongs to, -1
// if there is none. Of two equal draws the first candidate's counts.
func assign(shards int, candidates []candidate) []int {
	owners := make([]int, shards)
	for shard := range owners {
		owner, best := -1, uint64(0)
		for i, c := range candidates {
			if draw := c.best(shard); owner < 0 || draw > best {
				owner, best = i, draw
			}
		}
		owners[shard] = owner
	}
	return owners
}

// shardOf is the shard of a key: the first eight bytes of its SHA-256, read as a
// big-endian number, modulo the number of shards.
func shardOf(key string, shards int) int {
	sum := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(shards))
}
