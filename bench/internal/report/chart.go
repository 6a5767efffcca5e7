package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The chart's measures, in pixels.
const (
	chartWidth  = 760
	labelWidth  = 230
	barWidth    = 330 // of the longest
	barHeight   = 16
	rowHeight   = 24
	groupHeight = 34 // of a scenario's heading, with the space above
	margin      = 16
)

// chartStyle follows the reader's light or dark setting; the background is the
// page's own.
const chartStyle = `
text{font:13px system-ui,sans-serif;fill:#1f2328}
.head{font-weight:600}
.note{fill:#59636e}
.value{font-variant-numeric:tabular-nums}
.ours{fill:#0969da}
.peer{fill:#8c959f}
.floor{fill:none;stroke:#8c959f;stroke-dasharray:3 2}
.range{stroke:#1f2328;stroke-width:1.5}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc}.note{fill:#9198a1}.ours{fill:#4493f8}.peer{fill:#656c76}.floor{stroke:#656c76}.range{stroke:#f0f6fc}
}`

// Chart writes an SVG with a group of bars for each scenario, as long as the time
// of an operation; within a group all have one scale, which begins at 0. A line
// spans the rounds. Contenders that were not measured are left out.
func Chart(w io.Writer, title string, scenarios []*Scenario) error {
	var b strings.Builder
	y := margin
	for _, s := range scenarios {
		y = s.bars(&b, y)
	}
	height := y + margin
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title><style>%s
</style>
%s</svg>
`, chartWidth, height, chartWidth, height, html.EscapeString(title), chartStyle, b.String())
	return err
}

// bars draws a scenario's group from y downwards and returns where it ends.
func (s *Scenario) bars(b *strings.Builder, y int) int {
	var longest float64
	for _, r := range s.Results {
		_, slowest := r.Range()
		longest = max(longest, float64(slowest))
	}
	if longest == 0 {
		return y
	}
	fmt.Fprintf(b, `<text class="head" x="%d" y="%d">%s<tspan class="note" font-weight="400" dx="8">time per %s</tspan></text>`+"\n",
		margin, y+groupHeight-16, html.EscapeString(s.Title), html.EscapeString(s.Operation))
	y += groupHeight - 6
	ours := s.Ours()
	for _, r := range s.Results {
		if len(r.Samples) == 0 {
			continue
		}
		value := Duration(r.Time())
		if ours != nil && r != ours {
			value += "  (" + Ratio(r.Against(ours)) + ")"
		}
		r.bar(b, y, barWidth/longest, value)
		y += rowHeight
	}
	return y
}

func (r *Result) bar(b *strings.Builder, y int, scale float64, value string) {
	class := map[Role]string{Ours: "ours", Peer: "peer", Floor: "floor"}[r.Role]
	low, high := r.Range()
	left, middle := float64(margin+labelWidth), float64(y)+barHeight/2
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, margin+labelWidth-8, y+barHeight-3, html.EscapeString(r.Name))
	fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>`,
		class, left, y, max(1, float64(r.Time())*scale), barHeight)
	fmt.Fprintf(b, `<path class="range" d="M%.1f %.1fH%.1f"/>`, left+float64(low)*scale, middle, left+float64(high)*scale)
	fmt.Fprintf(b, `<text class="value" x="%.1f" y="%d">%s</text>`+"\n",
		left+float64(high)*scale+8, y+barHeight-3, html.EscapeString(value))
}
