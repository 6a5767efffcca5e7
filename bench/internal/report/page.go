package report

import (
	"fmt"
	"io"
	"strings"
)

// A Fact is a line about the machine, the versions or the settings.
type Fact struct{ Name, Value string }

// A Group is the scenarios on one service.
type Group struct {
	Title     string
	Chart     string // the file of its chart, beside the page
	Scenarios []*Scenario
	Absent    string // why nothing was measured
}

// A Page is the whole report.
type Page struct {
	Command string // that made it
	Facts   []Fact
	Groups  []Group
}

const pageIntro = `# Performance

Made by ` + "`%s`" + ` on the machine and with the versions below: don't edit it by hand. The figures depend on the machine, above
all on its disk; the ratios far less. Rate limits have [a page of their own](performance-rates.md).

**Method.** Every contender works on the same servers, in the same run, on a lock of its own. The servers are processes of their own
on the same machine and flush each write to disk. Each client has its own connection and session. Contenders take turns round by
round, in an order that rotates, after a round that does not count. A client locks and unlocks again and again without a pause; what is
timed is the span from one grant to the next. *Time* is the median over the rounds of a round's mean, *rounds* the least and the
greatest mean, *p50* and *p99* are of all spans of all rounds, and *× ours* is the median over the rounds of how many times as long as
lockctl a contender takes. Counts are the servers' own, from a round of their own, by completed operation; *client CPU* is the time
that the contender's process was running, on all cores.

**Many of something.** These are measured on one server, and lockctl is compared with itself where there are few. *waiters*: each waits with a
session of its own, all in one process, on etcd over eight connections and on ZooKeeper over one each; a hand-off is timed from the
call that releases to the next grant, and who has released goes to the end of the line. *ms to enter* is the median from the call to the event
that tells of the entry, *events per release* the most that a server sent after one, to anybody, *KiB per waiter* live heap and stacks of the process. *held*: *bytes per lock* are live
heap and stacks, with the lock's name and Mutex, *heap in use* has the gaps between as well; *renewals* are the requests in 12 s that keep the
session alive, on ZooKeeper with the client library's pings and the benchmark's own question. *watched*: ` + "`lockctl console`" + ` runs as a process of its own; a change is timed from the call that makes it
until the last of four viewers has the frame that shows it.
`

const systemsIntro = `What lockctl takes on each system, in this run: medians, but for the mean times of hand-offs. A hand-off is from one grant to the next, of two clients that
take turns. Requests are counted by a proxy, commits and reads by the service.

`

// Markdown writes the page.
func (p Page) Markdown(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, pageIntro, p.Command)
	b.WriteString("\n")
	facts := Table{Header: []string{"", ""}, Left: []int{1}}
	for _, f := range p.Facts {
		facts.Rows = append(facts.Rows, []string{f.Name, f.Value})
	}
	if err := facts.Markdown(b); err != nil {
		return err
	}
	b.WriteString("\n## Goals\n\n")
	if err := Goals(p.scenarios()).Markdown(b); err != nil {
		return err
	}
	if reasons := Missed(p.scenarios()); len(reasons) > 0 {
		b.WriteString("\nWhy they are missed:\n\n")
		for _, r := range reasons {
			fmt.Fprintf(b, "- %s: %s.\n", r[0], r[1])
		}
	}
	if systems := Systems(p.Groups); len(systems.Rows) > 1 {
		b.WriteString("\n## Systems compared\n\n" + systemsIntro)
		if err := systems.Markdown(b); err != nil {
			return err
		}
	}
	for _, g := range p.Groups {
		fmt.Fprintf(b, "\n## %s\n", g.Title)
		if g.Absent != "" {
			fmt.Fprintf(b, "\nNot measured: %s.\n", g.Absent)
			continue
		}
		fmt.Fprintf(b, "\n![Time per operation on %s; the figures are in the tables](%s)\n", g.Title, g.Chart)
		for _, s := range g.Scenarios {
			fmt.Fprintf(b, "\n### %s: %s\n\n", s.Name, s.Title)
			if err := s.Table().Markdown(b); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Text writes the page for a terminal.
func (p Page) Text(w io.Writer) error {
	for _, f := range p.Facts {
		if _, err := fmt.Fprintf(w, "%s: %s\n", f.Name, f.Value); err != nil {
			return err
		}
	}
	for _, g := range p.Groups {
		if g.Absent != "" {
			if _, err := fmt.Fprintf(w, "\n%s: not measured: %s\n", g.Title, g.Absent); err != nil {
				return err
			}
		}
		for _, s := range g.Scenarios {
			if _, err := fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.Title); err != nil {
				return err
			}
			if err := s.Table().Text(w); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintln(w, "\nGoals"); err != nil {
		return err
	}
	return Goals(p.scenarios()).Text(w)
}

func (p Page) scenarios() []*Scenario {
	var all []*Scenario
	for _, g := range p.Groups {
		all = append(all, g.Scenarios...)
	}
	return all
}
