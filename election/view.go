package election

import (
	"encoding/json"
	"fmt"

	"github.com/lockctl/lockctl/recipes"
)

// A Candidate is one in the line of an election, as seen from outside. What is in it
// was written by another process.
type Candidate struct {
	Entry    recipes.Entry
	Priority int
	// Leads says that it has been elected, see LeaderOf.
	Leads bool
}

// Candidates returns those in the line of an election, in order, as recipes.Client
// shows it. The first leads, unless it was not elected yet.
func Candidates(o recipes.Object) []Candidate {
	candidates := make([]Candidate, 0, len(o.Entries))
	for i, e := range o.Entries {
		c := readCandidacy(e)
		candidates = append(candidates, Candidate{Entry: e, Priority: c.Priority, Leads: i == 0 && c.Lead != nil})
	}
	return candidates
}

// LeaderOf returns who leads an election, as recipes.Client shows it: the first in
// line, if it says that it leads.
func LeaderOf(o recipes.Object) (leader Leader, ok bool) {
	if len(o.Entries) == 0 {
		return Leader{}, false
	}
	first := o.Entries[0]
	lead := readCandidacy(first).Lead
	if lead == nil {
		return Leader{}, false
	}
	return Leader{
		Term: lead.Term, Value: lead.Value, Owner: first.Owner, Session: first.Session, Since: lead.Since,
	}, true
}

// Summary says in one line who leads an election, for people. It has texts of other
// processes as they wrote them.
func Summary(o recipes.Object) string {
	leader, ok := LeaderOf(o)
	switch {
	case !ok:
		return "no leader"
	case leader.Value == "":
		return "led by " + leader.Owner.String()
	}
	return fmt.Sprintf("led by %s, %q", leader.Owner, leader.Value)
}

func readCandidacy(entry recipes.Entry) candidacy {
	var c candidacy
	if entry.Kind != recipes.KindElection || json.Unmarshal(entry.Published, &c) != nil {
		return candidacy{}
	}
	return c
}
