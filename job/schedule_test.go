package job

import (
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return moment.UTC()
}

func cronAt(t testing.TB, expression string) schedule {
	t.Helper()
	s, err := newSchedule(Options{Cron: expression})
	require.NoError(t, err)
	return s
}

// ticks are the first ticks after a moment, as the clock of the zone shows them.
func ticks(t testing.TB, s schedule, after string, n int) []string {
	t.Helper()
	loc := s.loc
	if loc == nil {
		loc = time.UTC
	}
	var out []string
	for moment := at(t, after); len(out) < n; {
		next := s.next(moment)
		require.True(t, next.After(moment))
		require.Equal(t, next, s.next(next.Add(-1)), "it depends on the moment alone")
		moment = next
		out = append(out, next.In(loc).Format("02 15:04:05 -0700"))
	}
	return out
}

func TestEvery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every       time.Duration
		after, next string
	}{
		{time.Second, "2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z"},
		{15 * time.Minute, "2026-03-01T12:00:00Z", "2026-03-01T12:15:00Z"},
		{15 * time.Minute, "2026-03-01T12:14:59Z", "2026-03-01T12:15:00Z"},
		{7 * time.Minute, "1970-01-01T00:00:00Z", "1970-01-01T00:07:00Z"},
		{7 * time.Minute, "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z"},
		{7 * time.Minute, "1969-12-31T23:51:00Z", "1969-12-31T23:53:00Z"},
		{7 * 24 * time.Hour, "2026-03-01T12:00:00Z", "2026-03-05T00:00:00Z"}, // 1970 began on a Thursday
		{1500 * time.Millisecond, "1970-01-01T00:00:01Z", "1970-01-01T00:00:01.5Z"},
	} {
		s, err := newSchedule(Options{Every: c.every})
		require.NoError(t, err)
		require.Equal(t, at(t, c.next), s.next(at(t, c.after)), "%v after %v", c.every, c.after)
		same := cronAt(t, "@every "+c.every.String())
		require.Equal(t, s, same)
		read, err := readSchedule(s.text)
		require.NoError(t, err)
		require.Equal(t, s, read)
	}
}

func TestCron(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, next, text string }{
		{"0 3 * * *", "2026-03-02T03:00:00Z", "CRON_TZ=UTC 0 3 * * *"},
		{"  0  3 *\t* * ", "2026-03-02T03:00:00Z", "CRON_TZ=UTC 0 3 * * *"},
		{"30 0 3 * * *", "2026-03-02T03:00:30Z", "CRON_TZ=UTC 30 0 3 * * *"},
		{"*/20 * * * *", "2026-03-01T12:20:00Z", "CRON_TZ=UTC */20 * * * *"},
		{"0 0 1 JAN,jul *", "2026-07-01T00:00:00Z", "CRON_TZ=UTC 0 0 1 JAN,jul *"},
		{"0 0 13 * 5", "2026-03-06T00:00:00Z", "CRON_TZ=UTC 0 0 13 * 5"}, // the 13th or a Friday
		{"0 0 29 2 *", "2028-02-29T00:00:00Z", "CRON_TZ=UTC 0 0 29 2 *"},
		{"@daily", "2026-03-02T00:00:00Z", "CRON_TZ=UTC @daily"},
		{"@weekly", "2026-03-08T00:00:00Z", "CRON_TZ=UTC @weekly"},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", "2026-03-02T02:00:00Z", "CRON_TZ=Europe/Berlin 0 3 * * *"},
		{"TZ=Asia/Kolkata 0 3 * * *", "2026-03-01T21:30:00Z", "CRON_TZ=Asia/Kolkata 0 3 * * *"},
	} {
		s := cronAt(t, c.expression)
		require.Equal(t, at(t, c.next), s.next(at(t, "2026-03-01T12:00:00Z")), c.expression)
		require.Equal(t, c.text, s.text)
		read, err := readSchedule(s.text)
		require.NoError(t, err)
		require.Equal(t, s.text, read.text)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	s, err := newSchedule(Options{Cron: "0 3 * * *", Location: berlin})
	require.NoError(t, err)
	require.Equal(t, cronAt(t, "CRON_TZ=Europe/Berlin 0 3 * * *").text, s.text)
}

func TestInvalidSchedules(t *testing.T) {
	t.Parallel()
	for field, all := range map[string][]Options{
		"Every": {
			{}, {Every: -time.Second}, {Every: time.Millisecond}, {Every: 367 * 24 * time.Hour},
		},
		"Cron": {
			{Every: time.Second, Cron: "* * * * *"}, {Cron: " "}, {Cron: "* * * *"}, {Cron: "* * * * * * *"},
			{Cron: "60 * * * *"}, {Cron: "5-1 * * * *"}, {Cron: "*/0 * * * *"}, {Cron: "x * * * *"}, {Cron: "0 0 * * 7"},
			{Cron: ", * * * * *"}, {Cron: "1,,2 * * * *"}, {Cron: "*-5 * * * *"}, {Cron: "0 0 30 2 *"},
			{Cron: "TZ="}, {Cron: "TZ=UTC"}, {Cron: "CRON_TZ=UTC"}, {Cron: "TZ= * * * * *"}, {Cron: "TZ=TZ=TZ="},
			{Cron: "CRON_TZ=Nowhere/Town * * * * *"}, {Cron: "TZ=UTC TZ=UTC * * * *"}, {Cron: "TZ=../etc * * * * *"},
			{Cron: "@reboot"}, {Cron: "@every"}, {Cron: "@every soon"}, {Cron: "@every 10ms"}, {Cron: "@every 1h 1m"},
			{Cron: "TZ=UTC @every 1h"}, {Cron: "@every 1h", Location: time.UTC}, {Cron: strings.Repeat("1,", 200) + "1 * * * *"},
		},
		"Location": {
			{Every: time.Second, Location: time.UTC}, {Cron: "@daily", Location: time.Local},
			{Cron: "TZ=Local @daily"}, {Cron: "TZ=UTC @daily", Location: time.UTC},
			{Cron: "@daily", Location: time.FixedZone("", 3600)}, {Cron: "@daily", Location: time.FixedZone("mine", 3600)},
		},
	} {
		for _, o := range all {
			_, err := newSchedule(o)
			require.ErrorIs(t, err, recipes.ErrInvalid, "%+v", o)
			invalid := (*recipes.InvalidError)(nil)
			require.ErrorAs(t, err, &invalid)
			if field != "Cron" || !strings.HasPrefix(o.Cron, "@every") { // the interval's own limits
				require.Equal(t, "Options."+field, invalid.Field, "%+v: %v", o, err)
			}
		}
	}
}

// TestDaylightSaving reads schedules where clocks are changed. Ones that name hours run
// once: an hour that is left out is counted on from the hour before, of one that comes
// twice the first counts. Ones for every hour go by the time that passes.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, expression, after string
		want                    []string
	}{
		{"hour left out", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T00:00:00Z",
			[]string{"28 02:30:00 +0100", "29 03:30:00 +0200", "30 02:30:00 +0200"}},
		{"both in one", "CRON_TZ=Europe/Berlin 30 2,3 * * *", "2026-03-28T12:00:00Z",
			[]string{"29 03:30:00 +0200", "30 02:30:00 +0200", "30 03:30:00 +0200"}},
		{"in between", "CRON_TZ=Europe/Berlin 10,40 2,3 * * *", "2026-03-28T12:00:00Z",
			[]string{"29 03:10:00 +0200", "29 03:40:00 +0200", "30 02:10:00 +0200"}},
		{"after the hour left out", "CRON_TZ=Europe/Berlin 0 3 * * *", "2026-03-28T12:00:00Z",
			[]string{"29 03:00:00 +0200", "30 03:00:00 +0200"}},
		{"minutes of the hour left out", "CRON_TZ=Europe/Berlin */20 2 * * *", "2026-03-28T12:00:00Z",
			[]string{"29 03:00:00 +0200", "29 03:20:00 +0200", "29 03:40:00 +0200", "30 02:00:00 +0200"}},
		{"hour that comes twice", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z",
			[]string{"25 02:30:00 +0200", "26 02:30:00 +0100"}},
		{"its end", "CRON_TZ=Europe/Berlin 0 3 * * *", "2026-10-24T12:00:00Z",
			[]string{"25 03:00:00 +0100", "26 03:00:00 +0100"}},
		{"every hour, left out", "CRON_TZ=Europe/Berlin 30 * * * *", "2026-03-29T00:00:00Z",
			[]string{"29 01:30:00 +0100", "29 03:30:00 +0200", "29 04:30:00 +0200"}},
		{"every hour, twice", "CRON_TZ=Europe/Berlin 30 * * * *", "2026-10-25T00:00:00Z",
			[]string{"25 02:30:00 +0200", "25 02:30:00 +0100", "25 03:30:00 +0100"}},
		{"midnight left out", "CRON_TZ=America/Santiago @daily", "2026-09-05T12:00:00Z",
			[]string{"06 01:00:00 -0300", "07 00:00:00 -0300"}},
		{"midnight twice", "CRON_TZ=America/Havana 30 0 * * *", "2026-10-31T12:00:00Z",
			[]string{"01 00:30:00 -0400", "02 00:30:00 -0500"}},
		{"half an hour left out", "CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T00:00:00Z",
			[]string{"04 02:45:00 +1100", "05 02:15:00 +1100"}},
		{"half an hour twice", "CRON_TZ=Australia/Lord_Howe 0 2 * * *", "2026-04-04T00:00:00Z",
			[]string{"05 02:00:00 +1030", "06 02:00:00 +1030"}},
		{"a day left out", "CRON_TZ=Pacific/Apia 0 12 * * *", "2011-12-29T12:00:00Z",
			[]string{"29 12:00:00 -1000", "31 12:00:00 +1400", "01 12:00:00 +1400"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, ticks(t, cronAt(t, c.expression), c.after, len(c.want)))
		})
	}
}

// TestLibraryAtTheChange shows what the library does by itself, for which it is not
// asked.
func TestLibraryAtTheChange(t *testing.T) {
	t.Parallel()
	s, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 30 2 * * *")
	require.NoError(t, err)
	require.Equal(t, at(t, "2026-03-30T00:30:00Z"), s.Next(at(t, "2026-03-28T12:00:00Z")), "a day without a tick")
	first := s.Next(at(t, "2026-10-24T12:00:00Z"))
	require.Equal(t, first.Add(time.Hour), s.Next(first), "a day with two")
	require.Panics(t, func() { _, _ = cron.ParseStandard("CRON_TZ=Europe/Berlin") })
}

func TestRecent(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-01T12:00:00Z")
	minutely, nightly, yearly := cronAt(t, "* * * * *"), cronAt(t, "0 3 * * *"), cronAt(t, "@yearly")
	for _, c := range []struct {
		s           schedule
		after       time.Time
		limit, want int
	}{
		{minutely, now, 10, 0},
		{minutely, now.Add(time.Hour), 10, 0},
		{minutely, now.Add(-time.Second), 10, 1},
		{minutely, now.Add(-5 * time.Minute), 10, 5},
		{minutely, now.AddDate(-40, 0, 0), 1000, 1000},
		{nightly, now.AddDate(0, 0, -3), 10, 3},
		{nightly, now.AddDate(-2, 0, 0), 10, 10},
		{yearly, now.AddDate(-3, 0, 0), 10, 3},
		{yearly, now.AddDate(-30, 0, 0), 10, 10},
		{cronAt(t, "* * 3 * * *"), now.AddDate(0, 0, -1), 1000, 1000},
	} {
		got := c.s.recent(c.after, now, c.limit)
		require.Len(t, got, c.want, "%s since %v", c.s.text, c.after)
		for i, tick := range got {
			require.True(t, tick.After(c.after) && !tick.After(now))
			if i > 0 {
				require.Equal(t, tick, c.s.next(got[i-1]))
			}
		}
		if n := len(got); n > 0 {
			require.True(t, c.s.next(got[n-1]).After(now), "the latest is among them")
		}
	}
}

// TestLongestExpression has an expression as long as it may be: what is stored is longer, and
// is read again.
func TestLongestExpression(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1,", 122) + "1 * * * *"
	s, err := newSchedule(Options{Cron: long + strings.Repeat(" ", maxText-len(long))})
	require.NoError(t, err)
	again, err := readSchedule(zonePrefix + "America/Argentina/ComodRivadavia " + strings.TrimPrefix(s.text, zonePrefix+"UTC "))
	require.NoError(t, err)
	require.Equal(t, s.spec.Minute, again.spec.Minute)
}

// FuzzSchedule reads any text: it is refused, or its ticks grow and it is read the same
// again.
func FuzzSchedule(f *testing.F) {
	for _, seed := range []string{
		"0 3 * * *", "TZ=0", "CRON_TZ=Europe/Berlin 30 2 * * 1-5", "@every 1m", "@daily", "*/5 * * * * *", ", * * * *", "1-2-3/4/5 * * * *",
	} {
		f.Add(seed, int64(1774747800))
	}
	f.Fuzz(func(t *testing.T, expression string, seconds int64) {
		s, err := newSchedule(Options{Cron: expression})
		if err != nil {
			require.ErrorIs(t, err, recipes.ErrInvalid)
			return
		}
		again, err := readSchedule(s.text)
		require.NoError(t, err)
		moment := time.Unix(seconds%(1<<33), 0)
		for range 3 {
			next := s.next(moment)
			if next.IsZero() {
				return
			}
			require.True(t, next.After(moment))
			require.Equal(t, next, again.next(moment))
			moment = next
		}
	})
}
