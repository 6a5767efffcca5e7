package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

// maxCell is how many characters of what others wrote are in a cell of a table.
const maxCell = 60

// writeObject shows one object with all that takes part in it, in a layout that suits
// its kind.
func writeObject(w io.Writer, o recipes.Object, now time.Time) error {
	if _, err := fmt.Fprintln(w, title(o, now)); err != nil {
		return err
	}
	var tables []termtext.Table
	switch s := o.State.(type) {
	case recipes.QueueState:
		tables = []termtext.Table{itemsTable(s, now), entriesTable(o, o.Waiters())}
	case recipes.OnceState:
		tables = []termtext.Table{entriesTable(o, o.Entries), keysTable(s)}
	case recipes.LimiterState:
		if limiter, err := ratelimit.StateOf(o); err == nil {
			tables = []termtext.Table{processesTable(limiter)}
		}
	default:
		tables = []termtext.Table{entriesTable(o, o.Entries)}
	}
	for _, table := range tables {
		if len(table.Rows) == 0 {
			continue
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := table.Write(w); err != nil {
			return err
		}
	}
	if s, ok := o.State.(recipes.RegisterState); ok && s.Value != nil {
		_, err := fmt.Fprintf(w, "\n%s\n", termtext.Escape(string(s.Value)))
		return err
	}
	return nil
}

// title says in a line or two how the object is.
func title(o recipes.Object, now time.Time) string {
	name := termtext.Escape(o.Name)
	if isLock(o) {
		return lockTitle(name, o, now)
	}
	if o.Gone() {
		return fmt.Sprintf("%s: there is no %s of that name", name, o.Kind)
	}
	text := fmt.Sprintf("%s, a %s: ", name, o.Kind)
	switch s := o.State.(type) {
	case recipes.RegisterState:
		return text + fmt.Sprintf("version %d, written %s", s.Version, written(s.Written))
	case recipes.LatchState:
		return text + summary(o, now) + ", last counted " + written(s.Written)
	case recipes.BarrierState:
		return text + "set " + written(s.Written)
	}
	if n := len(o.Waiters()); n > 0 {
		return text + summary(o, now) + ", " + strconv.Itoa(n) + " waiting"
	}
	return text + summary(o, now)
}

func lockTitle(name string, o recipes.Object, now time.Time) string {
	text := name + " is free"
	if len(o.Entries) > 0 {
		text = fmt.Sprintf("%s is held, %s", name, count(len(o.Waiters()), "waiter"))
	}
	if _, ok := o.State.(recipes.SemaphoreState); ok {
		return text + "\n" + summary(o, now)
	}
	switch o.Kind {
	case recipes.KindElection:
	case recipes.KindJob:
		if s, err := job.StateOf(o); err == nil && s.Schedule != "" {
			text += "\nschedule " + termtext.Escape(s.Schedule)
		}
		return text + "\n" + summary(o, now)
	default:
		return text
	}
	if leader, ok := election.LeaderOf(o); ok {
		return text + fmt.Sprintf("\nterm %d since %s, value \"%s\"", leader.Term, moment(leader.Since), termtext.Escape(leader.Value))
	}
	return text + "\nno leader"
}

// written is who has written something, and when.
func written(w recipes.Written) string {
	return fmt.Sprintf("by %s at %s", termtext.Escape(w.By.String()), moment(w.At))
}

// A column of a table of entries.
type entryColumn struct {
	head  string
	right bool
	cell  func(i int, e recipes.Entry) string
}

// entriesTable shows entries of an object.
func entriesTable(o recipes.Object, entries []recipes.Entry) termtext.Table {
	columns := entryColumns(o)
	table := termtext.Table{}
	for _, c := range columns {
		table.Header, table.Right = append(table.Header, c.head), append(table.Right, c.right)
	}
	first := len(o.Entries) - len(entries) // of those of the object, which end with them
	for i, e := range entries {
		var row []string
		for _, c := range columns {
			row = append(row, c.cell(first+i, e))
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// entryColumns are what is worth showing of the entries of an object.
func entryColumns(o recipes.Object) []entryColumn {
	columns := []entryColumn{{"", false, func(i int, e recipes.Entry) string { return place(o, i, e) }}}
	switch o.Kind {
	case recipes.KindElection:
		candidates := election.Candidates(o)
		columns = append(columns, entryColumn{"PRIORITY", true, func(i int, _ recipes.Entry) string {
			return strconv.Itoa(candidates[i].Priority)
		}})
	case recipes.KindSemaphore:
		columns = append(columns, entryColumn{"PERMITS", true, func(_ int, e recipes.Entry) string { return strconv.Itoa(e.Permits) }})
	case recipes.KindOnce:
		columns = append(columns, entryColumn{"KEY", false, func(_ int, e recipes.Entry) string { return cell(e.Part) }})
	case recipes.KindPartition:
		columns = append(columns, entryColumn{"SHARD", true, func(_ int, e recipes.Entry) string { return cell(e.Part) }})
	}
	columns = append(columns,
		entryColumn{"OWNER", false, func(_ int, e recipes.Entry) string { return who(e) }},
		entryColumn{"USER", false, func(_ int, e recipes.Entry) string { return termtext.Escape(e.Owner.User) }},
		entryColumn{"SINCE", false, func(_ int, e recipes.Entry) string { return moment(e.Since) }},
	)
	if isLock(o) {
		columns = append(columns, entryColumn{"TOKEN", true, func(_ int, e recipes.Entry) string { return tokenText(e.Token) }})
	}
	columns = append(columns, entryColumn{"SESSION", false, func(_ int, e recipes.Entry) string { return termtext.Escape(e.Session) }})
	if o.Kind == recipes.KindGroup {
		columns = append(columns, entryColumn{"METADATA", false, func(_ int, e recipes.Entry) string { return cell(string(e.Published)) }})
	}
	return columns
}

// place says what an entry does: "holds", or "waits 2" for the second that waits.
func place(o recipes.Object, i int, e recipes.Entry) string {
	if i >= o.Holding {
		if o.Kind == recipes.KindOnce || o.Kind == recipes.KindPartition {
			return "waits"
		}
		return fmt.Sprintf("waits %d", i-o.Holding+1)
	}
	switch o.Role(i) {
	case recipes.RoleMember:
		return "member"
	case recipes.RoleOwner:
		return "owns"
	case recipes.RoleInside:
		return "inside"
	case recipes.RoleWorker:
		return "runs"
	}
	if e.Shared {
		return "shares"
	}
	return "holds"
}

// itemsTable shows the items of a queue.
func itemsTable(s recipes.QueueState, now time.Time) termtext.Table {
	table := termtext.Table{
		Header: []string{"ITEM", "STATE", "PRIORITY", "ATTEMPTS", "PUT", "BY", ""},
		Right:  []bool{false, false, true, true, false, false, false},
	}
	for _, item := range s.Items {
		state, note := item.State(now), ""
		switch state {
		case recipes.ItemTaken:
			note = "taken by " + termtext.Escape(item.Worker.String())
		case recipes.ItemDelayed:
			note = "due " + moment(item.Due)
		case recipes.ItemDead:
			note = cell(item.Dead)
		}
		table.Rows = append(table.Rows, []string{
			termtext.Escape(item.ID), string(state), strconv.Itoa(item.Priority), strconv.Itoa(item.Attempts),
			moment(item.At), termtext.Escape(item.By.String()), note,
		})
	}
	return table
}

// keysTable shows the keys whose results are recorded.
func keysTable(s recipes.OnceState) termtext.Table {
	table := termtext.Table{Header: []string{"RECORDED KEY"}, Right: []bool{false}}
	for _, key := range s.Keys {
		table.Rows = append(table.Rows, []string{cell(key)})
	}
	return table
}

func cell(text string) string { return termtext.Clip(termtext.Escape(text), maxCell) }
