package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

// limiterJSON is a limiter: what limit set, show and ls write.
type limiterJSON struct {
	namedJSON
	Rate      string              `json:"rate"`
	Burst     int64               `json:"burst,omitempty"`
	Slack     int64               `json:"slack"`
	Policy    string              `json:"policy"`
	Mode      string              `json:"mode"`
	Period    string              `json:"period"`
	Level     int64               `json:"level"`
	Out       int64               `json:"out"`
	Processes []limitsProcessJSON `json:"processes"`
	Admitted  int64               `json:"admitted"`
	Denied    int64               `json:"denied"`
	Degraded  bool                `json:"degraded"`
	Version   string              `json:"version"`
	At        time.Time           `json:"at,omitzero"`
}

// limitsProcessJSON is a process that takes tokens. The text was written by that process.
type limitsProcessJSON struct {
	ID       string `json:"id"`
	Who      string `json:"who"`
	Out      int64  `json:"out"`
	Demand   int64  `json:"demand"`
	Degraded bool   `json:"degraded"`
}

func newLimiterJSON(named namedJSON, s ratelimit.State) limiterJSON {
	out := limiterJSON{
		namedJSON: named, Rate: s.Config.Rate.String(), Burst: s.Config.Burst, Slack: s.Config.Slack,
		Policy: string(s.Config.Policy), Mode: string(s.Config.Mode), Period: s.Config.Period.String(),
		Level: s.Level, Out: s.Out(), Processes: []limitsProcessJSON{}, Admitted: s.Admitted, Denied: s.Denied,
		Degraded: s.Degraded(), Version: tokenText(s.Version), At: statejson.Time(s.At),
	}
	for _, p := range s.Processes {
		out.Processes = append(out.Processes, limitsProcessJSON(p))
	}
	return out
}

// decisionJSON is what limit take writes.
type decisionJSON struct {
	namedJSON
	OK         bool    `json:"ok"`
	Tokens     int64   `json:"tokens"`
	Limit      int64   `json:"limit"`
	Remaining  int64   `json:"remaining"`
	ResetAfter float64 `json:"reset_after"`           // seconds
	RetryAfter float64 `json:"retry_after,omitempty"` // seconds; absent if ok, and if no waiting helps
}

func newDecisionJSON(named namedJSON, n int64, d ratelimit.Decision) decisionJSON {
	out := decisionJSON{
		namedJSON: named, OK: d.OK, Tokens: n, Limit: d.Limit, Remaining: d.Remaining, ResetAfter: d.ResetAfter.Seconds(),
	}
	if d.RetryAfter != ratelimit.Never {
		out.RetryAfter = d.RetryAfter.Seconds()
	}
	return out
}

// limiterRows are what a limiter is, as rows of a name and a value.
func limiterRows(s ratelimit.State) [][2]string {
	c := s.Config
	allows := c.Rate.String() + fmt.Sprintf(", burst %d", c.Burst)
	if c.Policy == ratelimit.Window {
		allows = c.Rate.String() + " in any window"
	}
	if c.Slack > 0 {
		allows += fmt.Sprintf(", slack %d", c.Slack)
	}
	mode := string(c.Mode)
	if c.Mode == ratelimit.Leased {
		mode += " for " + c.Period.String()
	}
	rows := [][2]string{
		{"allows", allows}, {"mode", mode}, {"there", fmt.Sprint(s.Level)},
		{"out", fmt.Sprintf("%d at %s", s.Out(), processCount(len(s.Processes)))},
		{"admitted", fmt.Sprint(s.Admitted)}, {"denied", fmt.Sprint(s.Denied)},
	}
	if s.Degraded() {
		rows = append(rows, [2]string{"degraded", "a process has made decisions without the service"})
	}
	return rows
}

func processCount(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// writeLimiter shows what is known of a limiter.
func writeLimiter(w io.Writer, name string, s ratelimit.State) error {
	for _, row := range append([][2]string{{"limiter", name}}, limiterRows(s)...) {
		if _, err := fmt.Fprintf(w, "%-8s  %s\n", row[0], termtext.Escape(row[1])); err != nil {
			return err
		}
	}
	if len(s.Processes) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return processesTable(s).Write(w)
}

// processesTable shows who has tokens.
func processesTable(s ratelimit.State) termtext.Table {
	table := termtext.Table{Header: []string{"PROCESS", "OUT", "DEMAND/S", ""}, Right: []bool{false, true, true, false}}
	for _, p := range s.Processes {
		note := ""
		if p.Degraded {
			note = "degraded"
		}
		table.Rows = append(table.Rows, []string{cell(p.Who), fmt.Sprint(p.Out), fmt.Sprint(p.Demand), note})
	}
	return table
}

// writeLimiters lists limiters. One whose record can't be read is told of.
func (a *app) writeLimiters(b backend, client *recipes.Client, objects []recipes.Object) error {
	table := termtext.Table{
		Header: []string{"NAME", "RATE", "BURST", "MODE", "THERE", "OUT", "PROCESSES", "ADMITTED", "DENIED"},
		Right:  []bool{false, true, true, false, true, true, true, true, true},
	}
	for _, o := range objects {
		s, err := ratelimit.StateOf(o)
		switch {
		case err != nil:
			a.say("%v", err)
			continue
		case a.json():
			if err := a.writeJSON(newLimiterJSON(newNamed(b, client, o.Name), s)); err != nil {
				return err
			}
			continue
		}
		burst := fmt.Sprint(s.Config.Burst)
		if s.Config.Policy == ratelimit.Window {
			burst = "window"
		}
		table.Rows = append(table.Rows, []string{
			termtext.Escape(o.Name), s.Config.Rate.String(), burst, string(s.Config.Mode), fmt.Sprint(s.Level), fmt.Sprint(s.Out()),
			fmt.Sprint(len(s.Processes)), fmt.Sprint(s.Admitted), fmt.Sprint(s.Denied),
		})
	}
	if len(table.Rows) == 0 {
		return nil
	}
	return table.Write(a.Stdout)
}
