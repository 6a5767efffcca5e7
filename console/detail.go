package console

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/recipes"
)

const maxMetadata = 200 // characters of a member's metadata in a table

// detailModel is an object on its own page.
type detailModel struct {
	objectView
	Name    text
	Backend backendView
	Stale   bool
	Holds   holds
	Queue   []entryView // of those who take part
	Hidden  int         // others beyond those
	Items   []itemView  // of a queue
	Unseen  int         // others beyond those
	Keys    []text      // of a Once
	Unnamed int         // others beyond those
}

// entryView is one who takes part.
type entryView struct {
	Position int
	Key      string
	Holder   bool
	Role     string // as a word
	Shared   bool
	Owner    ownerView
	Since    time.Time // of the hold for the holder, of the waiting for others
	Session  text
	Token    string
	Part     text // the key of a Once
	Number   int  // of permits, or the priority of a candidate
	Meta     text // what it shows
}

// itemView is an item of a queue.
type itemView struct {
	ID       text
	Key      string
	State    string
	Priority int
	Attempts int
	By       ownerView
	At       time.Time
	Due      time.Time
	Worker   *ownerView
	Dead     text
}

func newDetailModel(c *card, now time.Time) detailModel {
	o := c.object
	m := detailModel{
		objectView: newObjectView(c, now), Name: newText(o.Name), Backend: c.backend, Stale: c.stale, Holds: c.holds,
	}
	entries := o.Entries
	first := 0
	if o.Kind == recipes.KindQueue { // workers are shown beside their items
		first = o.Holding
		entries = o.Waiters()
	}
	m.Hidden = max(0, len(entries)-maxQueue)
	candidates := election.Candidates(o)
	for i, e := range entries[:min(maxQueue, len(entries))] {
		v := newEntryView(o, first+i, e)
		switch o.Kind {
		case recipes.KindElection:
			v.Number = candidates[i].Priority
			if v.Role = "candidate"; candidates[i].Leads {
				v.Role = "leader"
			}
		case recipes.KindSemaphore:
			v.Number = e.Permits
		}
		m.Queue = append(m.Queue, v)
	}
	items := m.items()
	m.Unseen = max(0, len(items)-maxQueue)
	for _, item := range items[:min(maxQueue, len(items))] {
		m.Items = append(m.Items, newItemView(item, now))
	}
	keys := m.keys()
	m.Unnamed = max(0, len(keys)-maxQueue)
	for _, key := range keys[m.Unnamed:] { // the latest
		m.Keys = append(m.Keys, newText(key))
	}
	return m
}

func newEntryView(o recipes.Object, i int, e recipes.Entry) entryView {
	v := entryView{
		Position: i + 1, Key: url.QueryEscape(e.ID), Holder: i < o.Holding, Role: roleWord(o.Role(i)), Shared: e.Shared,
		Owner: ownerOf(e), Since: e.Since, Session: newText(e.Session), Token: token(e), Part: newText(e.Part),
	}
	switch {
	case o.Kind == recipes.KindQueue:
		v.Position = i - o.Holding + 1
	case isLock(o.Kind) && i == 0:
		v.Since = o.HeldSince
	}
	if o.Kind == recipes.KindGroup {
		v.Meta = newText(clip(compact(e.Published), maxMetadata))
	}
	return v
}

// roleWord is a role for people.
func roleWord(role recipes.Role) string {
	if role == recipes.RoleWaiter {
		return "waiting"
	}
	return string(role)
}

// compact is JSON in one line, a text without its quotes.
func compact(data json.RawMessage) string {
	var s string
	if json.Unmarshal(data, &s) == nil {
		return s
	}
	return string(data)
}

func newItemView(item *recipes.ItemInfo, now time.Time) itemView {
	v := itemView{
		ID: newText(item.ID), Key: url.QueryEscape(item.ID), State: string(item.State(now)), Priority: item.Priority,
		Attempts: item.Attempts, By: ownerText(item.By), At: item.At, Due: item.Due, Dead: newText(item.Dead),
	}
	if item.Worker != nil {
		worker := ownerText(*item.Worker)
		v.Worker = &worker
	}
	return v
}

func (m detailModel) class() string { return staleClass(m.Stale) }

// waiting is how many wait, listed or not.
func (m detailModel) waiting() string { return strconv.Itoa(len(m.Waiters())) }

// recordTitle heads what is known of finished holds.
func (m detailModel) recordTitle() string {
	if m.Kind == recipes.KindElection {
		return "Finished terms"
	}
	return "Finished holds"
}

// members is how many members a partition has.
func (m detailModel) members() (n int) {
	for i := range m.Entries {
		if m.Role(i) == recipes.RoleMember {
			n++
		}
	}
	return n
}

// part is what the parts of entries are, "" for nothing.
func (m detailModel) part() string {
	if m.Kind == recipes.KindOnce {
		return "Key"
	}
	return ""
}

// numbered is what the numbers of entries are, "" for nothing.
func (m detailModel) numbered() string {
	switch m.Kind {
	case recipes.KindElection:
		return "Priority"
	case recipes.KindSemaphore:
		return "Permits"
	}
	return ""
}
