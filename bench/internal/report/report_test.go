package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// result makes a result whose rounds have the given means.
func result(name string, role report.Role, means ...time.Duration) *report.Result {
	r := &report.Result{Name: name, Role: role}
	for _, mean := range means {
		r.Samples = append(r.Samples, report.Sample{Mean: mean, Each: []time.Duration{mean}})
	}
	return r
}

func example() *report.Scenario {
	ours := result("lockctl", report.Ours, 2*ms, 4*ms, 3*ms)
	ours.Counts = []report.Count{{What: "commits", Each: 2}, {What: "reads", Each: 1.004}}
	peer := result("a|b <peer>", report.Peer, 20*ms, 44*ms, 36*ms)
	peer.Counts = []report.Count{{What: "commits", Each: 2.5}}
	absent := result("kazoo", report.Peer)
	absent.Absent = "kazoo is not installed"
	return &report.Scenario{
		Name: "etcd/cycle", Title: "one client locks & unlocks", Operation: "cycle",
		Results: []*report.Result{ours, peer, result("floor", report.Floor, 2*ms, 2*ms, 2*ms), absent},
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	s := example()
	ours, peer, absent := s.Results[0], s.Results[1], s.Results[3]
	require.Equal(t, ours, s.Ours())
	require.Equal(t, 3*ms, ours.Time())
	shortest, longest := ours.Range()
	require.Equal(t, []time.Duration{2 * ms, 4 * ms}, []time.Duration{shortest, longest})
	require.Equal(t, 4*ms, ours.Quantile(0.99))
	require.InDelta(t, 11, peer.Against(ours), 1e-9, "of 10, 11 and 12, round by round")
	require.Zero(t, absent.Against(ours))
	require.Zero(t, absent.Time())
}

func TestGoals(t *testing.T) {
	t.Parallel()
	commits, reads := report.Count{What: "commits", Each: 2}, report.Count{What: "reads", Each: 1}
	for _, tc := range []struct {
		goal         report.Goal
		text, figure string
		outcome      string
	}{
		{report.AtMost(1.1, "floor"), "at most 1.1 × the time of floor", "1.50 ×", "missed"},
		{report.AtMost(1.5, "floor"), "at most 1.5 × the time of floor", "1.50 ×", "met"},
		{report.AtMost(1, "kazoo"), "at most 1 × the time of kazoo", "", "not measured"},
		{report.AtMostBest(0.8), "at most 0.8 × the time of the fastest peer", "0.09 × (a|b <peer>)", "met"},
		{report.Faster(30, "a|b <peer>"), "at least 30 × faster than a|b <peer>", "11.0 ×", "missed"},
		{report.Faster(11, "a|b <peer>"), "at least 11 × faster than a|b <peer>", "11.0 ×", "met"},
		{report.Faster(5, "kazoo"), "at least 5 × faster than kazoo", "", "not measured"},
		{report.AtMostCount(2, "commits", "a|b <peer>"), "commits: at most 2 × that of a|b <peer>", "0.80 ×", "met"},
		{report.AtMostCount(0.5, "commits", "a|b <peer>"), "commits: at most 0.5 × that of a|b <peer>", "0.80 ×", "missed"},
		{report.AtMostCount(2, "reads", "a|b <peer>"), "reads: at most 2 × that of a|b <peer>", "", "not measured"},
		{report.AtMostCount(2, "commits", "kazoo"), "commits: at most 2 × that of kazoo", "", "not measured"},
		{report.NoMore("reads", "commits", 0), "reads ≤ commits + 0", "1, 2", "met"},
		{report.NoMore("commits", "reads", 0.5), "commits ≤ reads + 0.50", "2, 1", "missed"},
		{report.NoMore("commits", "events", 0), "commits ≤ events + 0", "", "not measured"},
		{report.Mostly(0.99, 4*ms), "p99 at most 4.00 ms", "4.00 ms", "met"},
		{report.Mostly(0.99, 3*ms), "p99 at most 3.00 ms", "4.00 ms", "missed"},
		{report.Costs(commits, reads), "commits ≤ 2, reads ≤ 1", "commits 2, reads 1", "met"},
		{report.Costs(report.Count{What: "commits", Each: 1}), "commits ≤ 1", "commits 2", "missed"},
		{report.Costs(report.Count{What: "events"}), "events ≤ 0", "", "not measured"},
	} {
		outcome := tc.goal.Check(example())
		require.Equal(t, []string{tc.text, tc.figure, tc.outcome}, []string{tc.goal.Text, outcome.Figure, outcome.String()})
	}
}

func TestGoalsWithoutOurs(t *testing.T) {
	t.Parallel()
	s := example()
	s.Results = s.Results[1:]
	require.Equal(t, "not measured", report.AtMostBest(0.8).Check(s).String())
	alone := example()
	alone.Results = alone.Results[:1]
	require.Equal(t, "not measured", report.AtMostBest(0.8).Check(alone).String())
}

func TestTable(t *testing.T) {
	t.Parallel()
	var text, markdown strings.Builder
	require.NoError(t, example().Table().Text(&text))
	require.Equal(t, strings.TrimPrefix(`
contender   time per cycle             rounds      p50      p99  × ours  commits  reads
lockctl            3.00 ms  2.00 ms – 4.00 ms  3.00 ms  4.00 ms  1.00 ×        2      1
a|b <peer>         36.0 ms  20.0 ms – 44.0 ms  36.0 ms  44.0 ms  11.0 ×     2.50
floor              2.00 ms  2.00 ms – 2.00 ms  2.00 ms  2.00 ms  0.67 ×
kazoo       not measured: kazoo is not installed
`, "\n"), text.String())
	require.NoError(t, example().Table().Markdown(&markdown))
	require.Contains(t, markdown.String(), "| --- | ---: | ---: |")
	require.Contains(t, markdown.String(), `| a\|b &lt;peer> | 36.0 ms |`)
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for d, text := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1500: "1.50 µs", 612345: "612 µs", 999600: "1000 µs",
		1040 * time.Microsecond: "1.04 ms", 44800 * time.Microsecond: "44.8 ms", 2500 * ms: "2.50 s",
	} {
		require.Equal(t, text, report.Duration(d))
	}
	require.Equal(t, "9.99 ×", report.Ratio(9.994))
	require.Equal(t, "10.0 ×", report.Ratio(9.996))
	require.Equal(t, "123 ×", report.Ratio(123.4))
}

func TestChart(t *testing.T) {
	t.Parallel()
	nothing := &report.Scenario{Title: "not measured at all", Results: []*report.Result{result("lockctl", report.Ours)}}
	var b strings.Builder
	require.NoError(t, report.Chart(&b, "Time & more", []*report.Scenario{example(), nothing}))
	var bars, ranges int
	var text strings.Builder
	decoder := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "well formed")
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "rect":
				bars++
			case "path":
				ranges++
			}
		case xml.CharData:
			text.Write(token)
		}
	}
	require.Equal(t, []int{3, 3}, []int{bars, ranges})
	require.Contains(t, text.String(), "Time & more")
	require.Contains(t, text.String(), "one client locks & unlocks")
	require.Contains(t, text.String(), "a|b <peer>")
	require.Contains(t, text.String(), "36.0 ms  (11.0 ×)")
	require.NotContains(t, text.String(), "kazoo")
	require.NotContains(t, text.String(), "not measured at all")
}

func TestPage(t *testing.T) {
	t.Parallel()
	s := example()
	s.Goals = []report.Goal{report.AtMost(2, "floor"), report.AtMost(1, "kazoo")}
	page := report.Page{
		Command: "go run ./bench", Facts: []report.Fact{{Name: "CPU", Value: "two cores"}},
		Groups: []report.Group{
			{Title: "etcd", Chart: "performance-etcd.svg", Scenarios: []*report.Scenario{s}},
			{Title: "ZooKeeper", Absent: "no java"},
		},
	}
	var markdown, text strings.Builder
	require.NoError(t, page.Markdown(&markdown))
	require.NoError(t, page.Text(&text))
	for _, part := range []string{
		"Made by `go run ./bench`", "| CPU | two cores |", "](performance-etcd.svg)",
		"### etcd/cycle: one client locks & unlocks", "Not measured: no java.",
		"| etcd/cycle | at most 2 × the time of floor | 1.50 × | met |",
		"| etcd/cycle | at most 1 × the time of kazoo |  | not measured |",
	} {
		require.Contains(t, markdown.String(), part)
	}
	for _, part := range []string{"CPU: two cores", "etcd/cycle: one client", "ZooKeeper: not measured: no java", "not measured: kazoo is not installed"} {
		require.Contains(t, text.String(), part)
	}
}

func TestMissed(t *testing.T) {
	t.Parallel()
	s := example()
	s.Goals = []report.Goal{
		report.AtMost(1.1, "floor").Because("of friction"), report.AtMost(1.2, "floor").Because("of friction"),
		report.AtMost(1.5, "floor").Because("it is met"), report.AtMost(1, "kazoo").Because("it is not measured"), report.AtMost(1, "floor"),
	}
	require.Equal(t, [][2]string{{s.Name, "of friction"}}, report.Missed([]*report.Scenario{s}))
}

func TestSystems(t *testing.T) {
	t.Parallel()
	store := result("lockctl", report.Ours, 5*ms)
	store.Counts = []report.Count{
		{What: report.MicrosToLock, Each: 2000}, {What: report.MicrosToUnlock, Each: 1500},
		{What: report.RequestsToLock, Each: 2}, {What: report.RequestsToUnlock, Each: 1},
	}
	table := report.Systems([]report.Group{
		{Title: "etcd", Scenarios: []*report.Scenario{example()}},
		{Title: "MariaDB", Scenarios: []*report.Scenario{
			{Name: "mariadb/cycle", Results: []*report.Result{store}},
			{Name: "mariadb/handoff-2", Results: []*report.Result{result("lockctl", report.Ours, 7*ms)}},
		}},
		{Title: "Redis", Absent: "redis-server is not installed"},
	})
	require.Equal(t, [][]string{
		{"etcd", "3.00 ms", "4.00 ms", "", "", "", "2 commits, 1 reads"},
		{"MariaDB", "5.00 ms", "5.00 ms", "2.00 ms", "1.50 ms", "7.00 ms", "2 + 1 requests"},
	}, table.Rows)
}
