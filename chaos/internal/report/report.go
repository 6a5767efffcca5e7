//go:build linux

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/check"
	"github.com/lockctl/lockctl/chaos/internal/history"
)

// A Page is what is reported.
type Page struct {
	Engine    string
	Command   string // that runs it again
	Seed      uint64
	Duration  time.Duration
	Facts     []Fact
	Events    []history.Event // in order of time
	Result    check.Result
	Registers []Fact
	Left      []string // kinds of faults that could not be had
}

// A Fact is a line of a table.
type Fact struct{ Name, Value string }

//go:embed page.html.tmpl
var text string

// Write writes the page.
func (p Page) Write(w io.Writer) error {
	t, err := template.New("page").Parse(text)
	if err != nil {
		return err
	}
	v := newView(p.Events)
	return t.Execute(w, struct {
		Page
		Passed                   bool
		Counts                   []Fact
		Faults                   []Fact
		Timeline, Holders, Waits template.HTML
		First                    []check.Violation
		Notes                    []Fact
		Total                    int
		Around                   []Fact
	}{
		Page: p, Passed: len(p.Result.Violations) == 0,
		Counts: p.counts(), Faults: sortedCounts(p.Result.Counts.Faults),
		Timeline: v.faults(), Holders: v.holders(), Waits: v.waits(),
		First: p.Result.Violations[:min(len(p.Result.Violations), 50)],
		Notes: v.notes(), Total: total(p.Result.Counts.Faults), Around: p.around(),
	})
}

func total(counts map[string]int) (n int) {
	for _, each := range counts {
		n += each
	}
	return n
}

func sortedCounts(counts map[string]int) []Fact {
	var facts []Fact
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		facts = append(facts, Fact{name, fmt.Sprint(counts[name])})
	}
	return facts
}

func (p Page) counts() []Fact {
	c := p.Result.Counts
	facts := []Fact{
		{"rounds begun", fmt.Sprint(c.Operations)},
		{"grants", fmt.Sprint(total(c.Grants))},
	}
	for _, f := range sortedCounts(c.Grants) {
		facts = append(facts, Fact{"grants, " + f.Name, f.Value})
	}
	return append(facts,
		Fact{"rounds that gave up or were refused", fmt.Sprint(total(c.Failures))},
		Fact{"rounds of processes that were killed", fmt.Sprint(c.Killed)},
		Fact{"holds that were lost, and learned so", fmt.Sprint(c.Lost)},
		Fact{"holds and places in line that operators took away", fmt.Sprint(c.Broken)},
		Fact{"holds that another followed while their process did not run", fmt.Sprint(c.Unaware)},
		Fact{"accesses under a stale token, refused by the fence", fmt.Sprint(c.Refused)},
		Fact{"releases that were not confirmed, or came after a loss", fmt.Sprint(c.Late)},
		Fact{"items put into queues", fmt.Sprint(c.Items)},
		Fact{"operations through the models", fmt.Sprint(c.Checked)},
		Fact{"times that a worker did not get the processor", fmt.Sprint(c.Stalls)},
		Fact{"the longest of them, pauses included", c.LongStall.Round(time.Millisecond).String()},
		Fact{"recoveries after faults", fmt.Sprint(len(c.Waits))},
		Fact{"the longest wait until all were served again", c.LongWait.Round(time.Millisecond).String()},
	)
}

// around is what was recorded just before and after the first violation.
func (p Page) around() []Fact {
	const before, after, most = 500 * time.Millisecond, 200 * time.Millisecond, 400
	if len(p.Result.Violations) == 0 || p.Result.Violations[0].At == 0 {
		return nil
	}
	at := p.Result.Violations[0].At
	var facts []Fact
	for _, e := range p.Events {
		if e.T > at-before && e.T < at+after && len(facts) < most {
			facts = append(facts, Fact{(e.T - at).String(), describe(e)})
		}
	}
	return facts
}

func describe(e history.Event) string {
	text := fmt.Sprintf("%s %s %s %s", e.Proc, e.What, e.Kind, e.Name)
	if e.Op != 0 {
		text += fmt.Sprintf(" op %d", e.Op)
	}
	if e.Token != 0 {
		text += fmt.Sprintf(" token %d", e.Token)
	}
	if e.ID != "" {
		text += " " + e.ID
	}
	if e.Err != "" {
		text += ": " + e.Err
	}
	return text
}
