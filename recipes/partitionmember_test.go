package recipes

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes/driver"
)

// lineUp makes members of a partition, in the order of joining, of words such as
// "a:8": a name and the number of shards. "-" before the name is one that is leaving,
// and "me" the member that looks.
func lineUp(t *testing.T, line string) []Member {
	t.Helper()
	var members []Member
	for _, word := range strings.Fields(line) {
		id, shards, _ := strings.Cut(word, ":")
		n := memberNote{Member: strings.TrimPrefix(id, "-"), Weight: 1, Leaving: id[0] == '-'}
		require.NoError(t, json.Unmarshal([]byte(shards), &n.Shards))
		meta, err := json.Marshal(n)
		require.NoError(t, err)
		members = append(members, Member{ID: id, Meta: meta})
	}
	return append(members, Member{ID: "foreign", Meta: json.RawMessage(`"x"`)})
}

// TestPartitionAgreement has a member of 8 shards see one line after the other.
func TestPartitionAgreement(t *testing.T) {
	const (
		waits   = "waits"   // owns nothing, for now
		agrees  = "agrees"  // asks for shards
		refused = "refused" // with ErrConflict
		missing = "missing" // asks the service what became of it
	)
	type sight struct{ line, want string }
	for name, sights := range map[string][]sight{
		"alone":                  {{"", waits}, {"me:8", agrees}, {"", missing}, {"me:8", agrees}},
		"not shown yet":          {{"a:16", waits}, {"a:8", waits}, {"a:8 me:8", agrees}},
		"behind others":          {{"a:8 b:8 me:8", agrees}},
		"behind another number":  {{"a:16 me:8", refused}},
		"behind one that leaves": {{"-a:16 me:8", refused}},
		"ahead of another":       {{"me:8 a:16", agrees}, {"me:8 a:16 b:16", agrees}},
		// b is about to be refused, unless a goes before it looks.
		"behind one between":      {{"a:8 b:16 me:8", waits}, {"a:8 me:8", agrees}},
		"behind one that stays":   {{"a:8 b:16 me:8", waits}, {"b:16 me:8", refused}},
		"agreed before it is new": {{"a:8 me:8 b:16", agrees}, {"me:8 b:16", agrees}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &partitionMember{
				partition: &Partition{name: "p", shards: 8}, note: memberNote{Shards: 8},
				membership: &Membership{&Hold{stint: stint{spot: &spot{entry: driver.Entry{ID: "me"}}}}},
				owners:     make([]string, 8), mine: make([]bool, 8),
			}
			for _, s := range sights {
				err := m.see(lineUp(t, s.line))
				if s.want == refused {
					require.ErrorIs(t, err, ErrConflict, s.line)
					continue
				}
				require.NoError(t, err, s.line)
				require.Equal(t, s.want == missing, m.missing, s.line)
				require.Equal(t, s.want != waits, m.agreed, s.line)
			}
		})
	}
}

// TestPartitionOfOneName has two members of one name and other weights: the first has
// the shards, unless it is leaving.
func TestPartitionOfOneName(t *testing.T) {
	m := &partitionMember{partition: &Partition{name: "p", shards: 64}, owners: make([]string, 64), mine: make([]bool, 64)}
	owned := func(present []memberNote) int {
		m.allot(present, 1)
		n := 0
		for _, mine := range m.mine {
			if mine {
				n++
			}
		}
		return n
	}
	first, second := memberNote{Member: "a", Weight: 1}, memberNote{Member: "a", Weight: 9}
	require.Zero(t, owned([]memberNote{first, second}))
	require.True(t, m.others)
	first.Leaving = true
	require.Equal(t, 64, owned([]memberNote{first, second}))
	require.False(t, m.others)
	second.Leaving = true
	owned([]memberNote{first, second}) // they all leave
}
