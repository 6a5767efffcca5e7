package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockctl/lockctl/recipes"
)

// partitionView is a partition on its own page.
type partitionView struct {
	Members []shareView
	Hidden  int // members beyond those
	Total   int // shards, by what the members say
	Owned   int
	Moving  []moveView // shards that somebody waits for
	Unseen  int        // others beyond those
}

// shareView is a member with its shards.
type shareView struct {
	entryView
	Member  text
	Weight  int
	Leaving bool
	Count   int
	Shards  string // their numbers, as ranges
}

// moveView is a shard that goes from one member to another.
type moveView struct {
	Shard    text
	Key      string
	From, To text
}

// partition is the partition that the entries tell of.
func (m detailModel) partition() partitionView {
	v := partitionView{}
	shards := map[string][]int{} // by member
	owners := map[string]recipes.Entry{}
	member := func(e recipes.Entry) recipes.PartitionMember {
		n, _ := recipes.PartitionMemberOf(e)
		return n
	}
	key := func(e recipes.Entry) string { return e.Session + "/" + member(e).Name }
	for i, e := range m.Entries {
		if m.Role(i) == recipes.RoleOwner {
			number, _ := strconv.Atoi(e.Part) // what is none counts as one more
			shards[key(e)] = append(shards[key(e)], number)
			owners[e.Part] = e
			v.Owned++
		}
	}
	for i, e := range m.Entries {
		n := member(e)
		switch m.Role(i) {
		case recipes.RoleMember:
			if v.Total == 0 {
				v.Total = n.Shards // of the first, with whom the others agree
			}
			v.Members = append(v.Members, shareView{
				entryView: newEntryView(m.Object, i, e), Member: newText(n.Name), Weight: n.Weight, Leaving: n.Leaving,
				Count: len(shards[key(e)]), Shards: ranges(shards[key(e)]),
			})
		case recipes.RoleWaiter:
			v.Moving = append(v.Moving, moveView{
				Shard: newText(e.Part), Key: "shard-" + newText(e.Part).Whole,
				From: newText(member(owners[e.Part]).Name), To: newText(n.Name),
			})
		}
	}
	v.Total = max(v.Total, v.Owned)
	v.Hidden = max(0, len(v.Members)-maxQueue)
	v.Members = v.Members[:min(maxQueue, len(v.Members))]
	v.Unseen = max(0, len(v.Moving)-maxQueue)
	v.Moving = v.Moving[:min(maxQueue, len(v.Moving))]
	return v
}

// ranges are numbers as people write them: "0–3, 7".
func ranges(numbers []int) string {
	slices.Sort(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(numbers[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
