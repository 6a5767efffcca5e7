package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A Table is rows of text under a header. Columns but the first hold figures, to
// the right, unless they are named in Left.
type Table struct {
	Header []string
	Rows   [][]string
	Left   []int // the columns of text
}

// Text writes the table with aligned columns.
func (t Table) Text(w io.Writer) error {
	width := make([]int, len(t.Header))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for i, cell := range row {
			if alone := i > 0 && strings.Join(row[i+1:], "") == ""; alone && i+1 < len(row) {
				break // what has the rest of the row to itself needs no column as wide
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(cell)))
			if t.left(i) {
				line.WriteString(cell + space + "  ")
			} else {
				line.WriteString(space + cell + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

var markdownText = strings.NewReplacer("|", `\|`, "<", "&lt;")

// Markdown writes the table in the form that pages of documentation have.
func (t Table) Markdown(w io.Writer) error {
	rule := make([]string, len(t.Header))
	for i := range rule {
		if rule[i] = "---:"; t.left(i) {
			rule[i] = "---"
		}
	}
	for _, row := range append([][]string{t.Header, rule}, t.Rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = markdownText.Replace(cell)
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
	}
	return nil
}

func (t Table) left(column int) bool {
	for _, l := range t.Left {
		if l == column {
			return true
		}
	}
	return column == 0
}

// Table is the scenario's results. Contenders that were not measured are named,
// with the reason.
func (s *Scenario) Table() Table {
	t := Table{Header: []string{"contender", "time per " + s.Operation, "rounds", "p50", "p99", "× ours"}}
	counted := s.counted()
	t.Header = append(t.Header, counted...)
	ours := s.Ours()
	for _, r := range s.Results {
		row := make([]string, len(t.Header))
		row[0] = r.Name
		if len(r.Samples) == 0 {
			row[1] = "not measured: " + r.Absent
			t.Rows = append(t.Rows, row)
			continue
		}
		shortest, longest := r.Range()
		copy(row[1:], []string{
			Duration(r.Time()), Duration(shortest) + " – " + Duration(longest),
			Duration(r.Quantile(0.5)), Duration(r.Quantile(0.99)),
		})
		if ours != nil {
			row[5] = Ratio(r.Against(ours))
		}
		for i, what := range counted {
			if each, ok := r.Count(what); ok {
				row[6+i] = number2(each)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// counted are the names of all that was counted, in order of appearance.
func (s *Scenario) counted() []string {
	var names []string
	seen := map[string]bool{}
	for _, r := range s.Results {
		for _, c := range r.Counts {
			if !seen[c.What] {
				seen[c.What] = true
				names = append(names, c.What)
			}
		}
	}
	return names
}

// Systems is a table of what ours takes on each system: one of the scenarios called cycle
// and handoff-2 of each group.
func Systems(groups []Group) Table {
	t := Table{Header: []string{"", "lock + unlock", "p99", "lock", "unlock", "hand-off", "cost of both"}, Left: []int{6}}
	for _, g := range groups {
		cycle, handOff := g.ours("cycle"), g.ours("handoff-2")
		if cycle == nil {
			continue
		}
		row := []string{g.Title, Duration(cycle.Quantile(0.5)), Duration(cycle.Quantile(0.99)), "", "", "", cycle.cost()}
		for i, what := range []string{MicrosToLock, MicrosToUnlock} {
			if micros, ok := cycle.Count(what); ok {
				row[3+i] = Duration(time.Duration(micros * float64(time.Microsecond)))
			}
		}
		if handOff != nil {
			row[5] = Duration(handOff.Time())
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// ours is the result of ours in a scenario of the group, nil if there is none.
func (g *Group) ours(scenario string) *Result {
	for _, s := range g.Scenarios {
		if strings.HasSuffix(s.Name, "/"+scenario) {
			return s.Ours()
		}
	}
	return nil
}

// cost is what was counted of a cycle.
func (r *Result) cost() string {
	lock, ok := r.Count(RequestsToLock)
	unlock, _ := r.Count(RequestsToUnlock)
	if ok {
		return fmt.Sprintf("%s + %s requests", number2(lock), number2(unlock))
	}
	var parts []string
	for _, what := range []string{"commits", "reads"} {
		if each, ok := r.Count(what); ok {
			parts = append(parts, number2(each)+" "+what)
		}
	}
	return strings.Join(parts, ", ")
}

// Goals is a table of the goals of the scenarios, with what became of them.
func Goals(scenarios []*Scenario) Table {
	t := Table{Header: []string{"scenario", "goal", "measured", ""}, Left: []int{1, 2, 3}}
	for _, s := range scenarios {
		for _, g := range s.Goals {
			outcome := g.Check(s)
			t.Rows = append(t.Rows, []string{s.Name, g.Text, outcome.Figure, outcome.String()})
		}
	}
	return t
}

// Missed are the reasons for which goals are missed, by scenario, each once.
func Missed(scenarios []*Scenario) [][2]string {
	var reasons [][2]string
	for _, s := range scenarios {
		for _, g := range s.Goals {
			reason := [2]string{s.Name, g.why}
			if o := g.Check(s); o.Figure != "" && !o.Met && g.why != "" && !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return reasons
}

// Duration formats a time with three digits that count.
func Duration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return digits(float64(d)/float64(time.Microsecond)) + " µs"
	case d < time.Second:
		return digits(float64(d)/float64(time.Millisecond)) + " ms"
	default:
		return digits(d.Seconds()) + " s"
	}
}

// Ratio formats how many times as much something is.
func Ratio(r float64) string { return digits(r) + " ×" }

// digits formats a number with three digits that count, but none is left out in
// front of the point.
func digits(x float64) string {
	switch {
	case x < 9.995:
		return fmt.Sprintf("%.2f", x)
	case x < 99.95:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.0f", x)
	}
}

// number2 formats a number with two decimals, or none if it is whole.
func number2(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.2f", x), ".00")
}
