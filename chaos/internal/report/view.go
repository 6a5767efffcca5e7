//go:build linux

package report

import (
	"fmt"
	"html"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// The pictures' measures, in pixels.
const (
	width      = 1000
	labelWidth = 150
	plotWidth  = width - labelWidth - 10
	rowHeight  = 16
	axisHeight = 22
	waitHeight = 240
	columns    = plotWidth / 2 // of what is put together
)

// A view is a history over time.
type view struct {
	events      []history.Event
	from, until time.Duration
}

func newView(events []history.Event) *view {
	v := &view{events: events}
	if len(events) > 0 {
		v.from, v.until = events[0].T, events[len(events)-1].T
	}
	return v
}

func (v *view) x(t time.Duration) float64 {
	return labelWidth + plotWidth*float64(t-v.from)/float64(max(1, v.until-v.from))
}

func (v *view) column(t time.Duration) int {
	return min(columns-1, int(columns*float64(t-v.from)/float64(max(1, v.until-v.from))))
}

// picture is an SVG with an axis of time below.
func (v *view) picture(title string, height int, body string) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">%s`, width, height+axisHeight, html.EscapeString(title), body)
	step := niceStep(v.until - v.from)
	for t := time.Duration(0); t <= v.until-v.from; t += step {
		x := v.x(v.from + t)
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f 0V%d"/><text x="%.1f" y="%d" text-anchor="middle">%v</text>`, x, height, x, height+15, t)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) // of numbers and escaped text
}

func niceStep(d time.Duration) time.Duration {
	for _, step := range []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	} {
		if d/step <= 12 {
			return step
		}
	}
	return time.Hour
}

func label(b *strings.Builder, row int, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, row*rowHeight+12, html.EscapeString(text))
}

// faults has a row for each kind of fault, and a bar for each time it was there.
func (v *view) faults() template.HTML {
	type bar struct {
		from, to time.Duration
		detail   string
	}
	bars := map[string][]bar{}
	for _, e := range v.events {
		switch all := bars[e.Name]; e.What {
		case history.Begin:
			bars[e.Name] = append(all, bar{e.T, v.until, e.ID})
		case history.End:
			if len(all) > 0 {
				all[len(all)-1].to = e.T
			}
		}
	}
	var b strings.Builder
	names := slices.Sorted(maps.Keys(bars))
	for row, name := range names {
		label(&b, row, name)
		for _, x := range bars[name] {
			fmt.Fprintf(&b, `<rect class="fault" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s %s, %v after the beginning, for %v</title></rect>`,
				v.x(x.from), row*rowHeight+2, max(1.5, v.x(x.to)-v.x(x.from)), rowHeight-4, html.EscapeString(name), html.EscapeString(x.detail),
				(x.from - v.from).Round(time.Millisecond), (x.to - x.from).Round(time.Millisecond))
		}
	}
	return v.picture("faults over time", len(names)*rowHeight, b.String())
}

// shared are the kinds of which several are held at a time, or none.
var shared = []string{history.Reader, history.Semaphore, history.Queue, history.Group, history.Round}

// holders has a row for each lock and worker; the more of the time the worker held it,
// the darker. Below are the times for which workers did not run.
func (v *view) holders() template.HTML {
	type row struct{ lock, worker string }
	shares := map[row][]time.Duration{}
	down := map[string][]history.Event{}
	type key struct {
		proc string
		op   int64
	}
	open := map[key]history.Event{}
	for _, e := range v.events {
		worker, _, _ := strings.Cut(e.Proc, ".")
		k := key{e.Proc, e.Op}
		switch e.What {
		case history.Granted:
			open[k] = e
		case history.Release, history.Ended:
			g, ok := open[k]
			if !ok || slices.Contains(shared, g.Kind) {
				continue
			}
			delete(open, k)
			name := g.Name
			if g.Kind == history.Shard { // all of a partition in one row
				name, _, _ = strings.Cut(name, "/")
			}
			at := row{g.Kind + " " + name, worker}
			if shares[at] == nil {
				shares[at] = make([]time.Duration, columns)
			}
			v.spread(shares[at], g.T, e.T)
		case history.Paused, history.Stalled:
			down[worker] = append(down[worker], e)
		}
	}
	rows := slices.SortedFunc(maps.Keys(shares), func(a, b row) int { return strings.Compare(a.lock+a.worker, b.lock+b.worker) })
	var b strings.Builder
	perColumn := float64(v.until-v.from) / columns
	for n, at := range rows {
		label(&b, n, at.lock+" "+at.worker)
		for c, held := range shares[at] {
			if held > 0 {
				fmt.Fprintf(&b, `<rect class="held" x="%.1f" y="%d" width="2.2" height="%d" fill-opacity="%.2f"/>`,
					labelWidth+float64(c)*plotWidth/columns, n*rowHeight+2, rowHeight-4, min(1, 0.15+float64(held)/perColumn))
			}
		}
	}
	workers := slices.Sorted(maps.Keys(down))
	for n, worker := range workers {
		label(&b, len(rows)+n, worker+" not running")
		for _, e := range down[worker] {
			fmt.Fprintf(&b, `<rect class="down" x="%.1f" y="%d" width="%.1f" height="%d"/>`,
				v.x(e.Since), (len(rows)+n)*rowHeight+2, max(1, v.x(e.T)-v.x(e.Since)), rowHeight-4)
		}
	}
	return v.picture("holders over time", (len(rows)+len(workers))*rowHeight, b.String())
}

// spread adds the time between the two to the columns that it is in.
func (v *view) spread(shares []time.Duration, from, to time.Duration) {
	perColumn := (v.until - v.from) / columns
	for c := v.column(from); c <= v.column(to); c++ {
		begin := v.from + time.Duration(c)*perColumn
		shares[c] += max(0, min(to, begin+perColumn)-max(from, begin))
	}
}

// lines are the kinds that are waited for in a line.
var lines = []string{history.Mutex, history.Writer, history.Reader, history.Semaphore, history.Election, history.Seized}

// waits has the time from the request to the grant, of what is waited for in a line, on a
// scale of powers of ten: the median and the longest of each column.
func (v *view) waits() template.HTML {
	type key struct {
		proc string
		op   int64
	}
	called := map[key]time.Duration{}
	waits := make([][]time.Duration, columns)
	for _, e := range v.events {
		switch k := (key{e.Proc, e.Op}); e.What {
		case history.Called:
			called[k] = e.T
		case history.Granted:
			if slices.Contains(lines, e.Kind) {
				c := v.column(e.T)
				waits[c] = append(waits[c], e.T-called[k])
			}
		}
	}
	var b strings.Builder
	y := func(d time.Duration) float64 { // from 0.1 ms to 100 s
		return waitHeight - waitHeight*logOf(d)/6
	}
	for d := 100 * time.Microsecond; d <= 100*time.Second; d *= 10 {
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%v</text>`,
			labelWidth, y(d), width-10, labelWidth-8, y(d)+4, d)
	}
	for c, all := range waits {
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		x := labelWidth + (float64(c)+0.5)*plotWidth/columns
		longest, median := all[len(all)-1], all[len(all)/2]
		fmt.Fprintf(&b, `<path class="range" d="M%.1f %.1fV%.1f"/><circle class="median" cx="%.1f" cy="%.1f" r="1.6"/>`,
			x, y(longest), y(median), x, y(median))
	}
	return v.picture("time from request to grant", waitHeight, b.String())
}

// logOf is how many powers of ten the time is above 0.1 ms: 0 to 6.
func logOf(d time.Duration) float64 {
	return min(6, max(0, math.Log10(float64(d)/float64(100*time.Microsecond))))
}

// notes are what the run remarked.
func (v *view) notes() []Fact {
	var facts []Fact
	for _, e := range v.events {
		if e.What == history.Note {
			facts = append(facts, Fact{(e.T - v.from).Round(time.Millisecond).String(), e.Name})
		}
	}
	return facts
}
