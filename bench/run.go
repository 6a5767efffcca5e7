package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// A bench is one run.
type bench struct {
	settings
	workspace *workspace
	progress  io.Writer
	matched   bool // by a scenario
}

func run(ctx context.Context, s settings, out, progress io.Writer) (err error) {
	w, err := newWorkspace(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	stop, err := profile(s.cpuProfile, s.memProfile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	b := &bench{settings: s, workspace: w, progress: progress}
	page := report.Page{Command: s.command}
	facts, err := machine(w.dir)
	if err != nil {
		return err
	}
	if busy := busyness(); busy != "" {
		b.say("the figures will be off: %s", busy)
	}
	for _, g := range groups(s.nodes) {
		group, versions, err := b.group(ctx, g)
		if err != nil {
			return err
		}
		if group != nil {
			page.Groups = append(page.Groups, *group)
		}
		facts = append(facts, versions...)
	}
	if !b.matched {
		return fmt.Errorf("no scenario matches -run %v; there are %s", s.scenarios, strings.Join(names(s.nodes), ", "))
	}
	page.Facts = append(facts, report.Fact{
		Name:  "rounds",
		Value: fmt.Sprintf("%d, in which each contender has %v", s.rounds, s.duration),
	})
	if s.output == "" {
		return page.Text(out)
	}
	return write(page, s.output)
}

// group measures the scenarios on one service. It returns nil if none is wanted.
func (b *bench) group(ctx context.Context, g group) (result *report.Group, versions []report.Fact, err error) {
	var wanted []scenario
	for _, s := range g.scenarios {
		if b.scenarios.MatchString(g.name + "/" + s.name) {
			wanted = append(wanted, s)
		}
	}
	if len(wanted) == 0 {
		return nil, nil, nil
	}
	b.matched = true
	result = &report.Group{Title: g.title, Chart: chartFile(b.output, g.name)}
	service, err := g.start(ctx, b.workspace, g.nodes)
	var lacking missing
	if errors.As(err, &lacking) {
		b.say("%s: not measured: %v", g.name, lacking)
		result.Absent = lacking.Error()
		return result, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", g.name, err)
	}
	defer func() { err = errors.Join(err, service.close()) }()
	for _, s := range wanted {
		measured, err := b.scenario(ctx, service, g.name, s)
		if err != nil {
			return nil, nil, fmt.Errorf("%s/%s: %w", g.name, s.name, err)
		}
		result.Scenarios = append(result.Scenarios, measured)
	}
	versions, err = service.versions(ctx)
	return result, versions, err
}

// An entrant is a contender in a scenario.
type entrant struct {
	contender
	at     site
	runner runner // nil if it is out
	result *report.Result
}

// drop takes the entrant out, because of an error. Ours must not fail.
func (e *entrant) drop(err error) error {
	if e.role == report.Ours {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	var lacking missing
	if e.result.Absent = "failed: " + err.Error(); errors.As(err, &lacking) {
		e.result.Absent = lacking.Error()
	}
	e.result.Samples, e.result.Counts = nil, nil
	if e.runner != nil {
		_ = e.runner.close() // the first error is the one to report
		e.runner = nil
	}
	return nil
}

// scenario measures all contenders: a round that does not count, the rounds, and
// a round in which the servers' work is counted.
func (b *bench) scenario(ctx context.Context, service service, group string, s scenario) (_ *report.Scenario, err error) {
	result := &report.Scenario{Name: group + "/" + s.name, Title: s.title, Operation: s.operation, Goals: s.goals}
	var entrants []*entrant
	defer func() {
		for _, e := range entrants {
			if e.runner != nil {
				err = errors.Join(err, e.runner.close())
			}
		}
	}()
	for _, c := range s.contenders {
		if !b.contenders.MatchString(c.name) {
			continue
		}
		e := &entrant{contender: c, result: &report.Result{Name: c.name, Role: c.role}}
		e.at = site{service: service, workspace: b.workspace, clients: s.clients, name: s.name + "-" + slug(c.name)}
		entrants = append(entrants, e)
		result.Results = append(result.Results, e.result)
		opened, err := c.open(ctx, e.at)
		if err == nil {
			e.runner = opened
		} else if err := e.drop(err); err != nil {
			return nil, err
		}
	}
	err = b.each(ctx, entrants, 0, func(e *entrant) error {
		_, err := e.runner.measure(ctx, b.duration)
		return err
	})
	for round := 0; round < b.rounds && err == nil; round++ {
		err = b.each(ctx, entrants, round, func(e *entrant) error { return b.sample(ctx, e) })
	}
	if err == nil {
		err = b.each(ctx, entrants, 0, func(e *entrant) error { return b.count(ctx, e) })
	}
	if err != nil {
		return nil, err
	}
	b.summarize(result)
	return result, nil
}

// each lets every entrant that is still in have its turn, beginning with another
// one each round.
func (b *bench) each(ctx context.Context, entrants []*entrant, round int, do func(e *entrant) error) error {
	for i := range entrants {
		e := entrants[(i+round)%len(entrants)]
		if e.runner == nil {
			continue
		}
		runtime.GC() // what others have left is not this one's to clean up
		err := do(e)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			continue
		}
		if err := e.drop(err); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sample(ctx context.Context, e *entrant) error {
	if s, ok := e.runner.(surveyor); ok {
		if err := s.survey(ctx, b.duration); err != nil {
			return err
		}
	}
	moments, err := e.runner.measure(ctx, b.duration)
	if err != nil {
		return err
	}
	var sample report.Sample
	if _, ok := e.runner.(spanner); ok {
		sample, err = report.NewSpans(moments)
	} else {
		sample, err = report.NewSample(moments, b.duration)
	}
	e.result.Samples = append(e.result.Samples, sample)
	return err
}

// count finds what one operation costs the servers, and the clients.
func (b *bench) count(ctx context.Context, e *entrant) error {
	before, err := settled(ctx, e.at.service)
	if err != nil {
		return err
	}
	stop := cpuOf(e.runner)
	moments, err := e.runner.measure(ctx, min(b.duration, time.Second))
	if err != nil {
		return err
	}
	cpu := stop(len(moments))
	after, err := settled(ctx, e.at.service)
	if err != nil {
		return err
	}
	for i := range after {
		each := (after[i].Each - before[i].Each) / float64(len(moments))
		e.result.Counts = append(e.result.Counts, report.Count{What: after[i].What, Each: each})
	}
	e.result.Counts = append(e.result.Counts, cpu...)
	if t, ok := e.runner.(teller); ok {
		e.result.Counts = append(e.result.Counts, t.figures()...)
	}
	return nil
}

// summarize tells of a scenario as soon as it is measured.
func (b *bench) summarize(s *report.Scenario) {
	var parts []string
	for _, r := range s.Results {
		what := r.Absent
		if len(r.Samples) > 0 {
			what = report.Duration(r.Time())
		}
		parts = append(parts, r.Name+" "+what)
	}
	b.say("%s: %s", s.Name, strings.Join(parts, ", "))
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, format+"\n", args...)
}

// slug is a name in lower case letters, digits and hyphens.
func slug(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
}

// chartFile is the name of a group's chart, beside the page.
func chartFile(page, group string) string {
	return strings.TrimSuffix(filepath.Base(page), filepath.Ext(page)) + "-" + group + ".svg"
}

// write makes the page's files.
func write(page report.Page, file string) error {
	err := create(file, page.Markdown)
	for _, g := range page.Groups {
		if err == nil && len(g.Scenarios) > 0 {
			err = create(filepath.Join(filepath.Dir(file), g.Chart), func(w io.Writer) error {
				return report.Chart(w, "Time per operation on "+g.Title, g.Scenarios)
			})
		}
	}
	return err
}

func create(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
