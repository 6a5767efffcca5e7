package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// A ratePage is the report on limits that processes share.
type ratePage struct {
	command       string
	facts         []report.Fact
	rows          []rateRow
	warm, measure time.Duration
}

const ratePageIntro = `# Performance of rate limits

Made by ` + "`%s`" + ` on the machine and with the versions below: don't edit it by hand.

**Method.** Processes of their own, on the machine that the servers run on too, share one limit. Each asks for %.1f times its part
of it, in steps of a millisecond, one decision after the other; for %v before that, which are not measured, for three times its part, so that the burst is
spent. Each is measured for %v. *Decisions* are those made in a second, *used* is what was admitted as a part of what the rate allows,
*overshoot* is the most that was admitted above burst + rate·w in any window w of whole milliseconds, also while it warms up (what was surely within the
window; in brackets, where it differs, with all decisions that may have been). *Jain* is Jain's index of fairness, 1 if all processes got the same. *Commits* are
the service's own count, in a second; *p50* and *p99* are of the time that a decision takes. Redis flushes once a second; etcd and ZooKeeper
flush each write.

`

func (p ratePage) write(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, ratePageIntro, p.command, offeredMeasure, p.warm, p.measure)
	facts := report.Table{Header: []string{"", ""}, Left: []int{1}}
	for _, f := range p.facts {
		facts.Rows = append(facts.Rows, []string{f.Name, f.Value})
	}
	if err := facts.Markdown(b); err != nil {
		return err
	}
	goals := report.Table{Header: []string{"limit", "goal", "measured", ""}, Left: []int{1, 2, 3}}
	for _, r := range p.rows {
		goals.Rows = append(goals.Rows, r.goals()...)
	}
	if len(goals.Rows) > 0 {
		b.WriteString("\n## Goals, with 8 processes on etcd\n\n")
		if err := goals.Markdown(b); err != nil {
			return err
		}
	}
	for i := range rateScenarios {
		s := &rateScenarios[i]
		table := report.Table{
			Header: []string{"", "processes", "decisions/s", "used", "overshoot", "Jain", "commits/s", "p50", "p99"},
		}
		for _, r := range p.rows {
			if r.scenario == s {
				table.Rows = append(table.Rows, r.cells())
			}
		}
		if len(table.Rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\nBurst %d, slack %d, period %v.\n\n", s.title, s.limit.Burst, s.limit.Slack, s.limit.Period)
		if err := table.Markdown(b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// used is what was admitted, as a part of what the rate allows.
func (r *rateRow) used() float64 {
	return float64(r.admitted) / (float64(r.scenario.limit.Rate) * r.seconds)
}

func (r *rateRow) cells() []string {
	cells := []string{r.contender, fmt.Sprint(r.processes)}
	if r.absent != "" {
		return append(cells, r.absent, "", "", "", "", "", "")
	}
	over := fmt.Sprintf("%.0f", r.over)
	if most := fmt.Sprintf("%.0f", r.atMost); most != over {
		over += " (" + most + ")"
	}
	commits := "–"
	if r.commits >= 0 {
		commits = fmt.Sprintf("%.1f", r.commits)
	}
	return append(cells, fmt.Sprintf("%.0f", float64(r.admitted+r.denied)/r.seconds), fmt.Sprintf("%.1f %%", 100*r.used()), over,
		fmt.Sprintf("%.3f", r.fair), commits, r.p50.String(), r.p99.String())
}

// goals are the rows of the table of goals.
func (r *rateRow) goals() [][]string {
	s := r.scenario
	if r.contender != rateLeased || r.processes != 8 {
		return nil
	}
	row := func(met bool, goal, measured string) []string {
		word := "missed"
		if met {
			word = "met"
		}
		return []string{s.name, goal, measured, word}
	}
	rows := [][]string{
		row(r.used() >= s.utilisation, fmt.Sprintf("at least %.0f %% of the rate used", 100*s.utilisation), fmt.Sprintf("%.1f %%", 100*r.used())),
		row(r.over <= float64(s.limit.Slack), fmt.Sprintf("overshoot ≤ %d in every window", s.limit.Slack), r.cells()[4]),
	}
	if s.p99 > 0 {
		most := 2 * float64(r.processes) / s.limit.Period.Seconds()
		rows = append(rows,
			row(r.commits < most, fmt.Sprintf("commits/s < 2·N/period = %.0f", most), fmt.Sprintf("%.1f", r.commits)),
			row(r.p99 < s.p99, fmt.Sprintf("p99 of a decision < %v", s.p99), r.p99.String()))
	}
	return rows
}

// versions are of what was measured.
func (b *rateBench) versions(ctx context.Context) []report.Fact {
	var facts []report.Fact
	for _, s := range []service{b.etcd, b.zk} {
		if s == nil {
			continue
		}
		if versions, err := s.versions(ctx); err == nil {
			facts = append(facts, versions[0])
		}
	}
	if b.redisURL != "" {
		facts = append(facts, report.Fact{Name: "redis_rate", Value: moduleVersion("github.com/go-redis/redis_rate/v10")})
	}
	return append(facts, report.Fact{Name: "x/time", Value: moduleVersion("golang.org/x/time")})
}
