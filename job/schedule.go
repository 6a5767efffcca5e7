package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockctl/lockctl/recipes"
)

const (
	leastEvery = time.Second
	mostEvery  = 366 * 24 * time.Hour

	// horizon is how far ahead a tick is looked for, by the library too.
	horizon = 5 * 366 * 24 * time.Hour

	everyPrefix  = "@every "
	zonePrefix   = "CRON_TZ="
	zonePrefixTZ = "TZ="
)

// A schedule says when the ticks of a job are: a function of the time alone, so that
// all processes agree.
type schedule struct {
	text string // as it is stored; readSchedule is its inverse

	every time.Duration // between ticks, 0 for a cron expression

	spec  cron.SpecSchedule
	loc   *time.Location
	named bool // the expression names hours, instead of allowing all
}

// newSchedule makes the schedule of the options.
func newSchedule(o Options) (schedule, error) {
	switch {
	case o.Every != 0 && o.Cron != "":
		return schedule{}, invalid("Cron", "is given together with Every")
	case o.Every == 0 && o.Cron == "":
		return schedule{}, invalid("Every", "and Cron are both missing")
	case o.Every != 0 && o.Location != nil:
		return schedule{}, invalid("Location", "is given together with Every, which depends on no zone")
	case o.Every != 0:
		return everySchedule("Every", o.Every)
	case len(o.Cron) > maxText: // what is stored can be longer, by the zone
		return schedule{}, invalid("Cron", fmt.Sprintf("is longer than %d bytes", maxText))
	}
	return cronSchedule(o.Cron, o.Location)
}

// readSchedule makes the schedule that a text stands for.
func readSchedule(text string) (schedule, error) { return cronSchedule(text, nil) }

func everySchedule(field string, every time.Duration) (schedule, error) {
	if every < leastEvery || every > mostEvery {
		return schedule{}, invalid(field, fmt.Sprintf("is %v, not between %v and a year", every, leastEvery))
	}
	return schedule{text: everyPrefix + every.String(), every: every}, nil
}

// cronSchedule reads an expression. The library is given only what it is known to
// read well: it panics at a zone without an expression, takes an empty list for
// one that never matches, and has another notion of "@every".
func cronSchedule(expression string, loc *time.Location) (schedule, error) {
	fields := strings.Fields(expression)
	zone := ""
	if len(fields) > 0 {
		name, ok := strings.CutPrefix(fields[0], zonePrefix)
		if !ok {
			name, ok = strings.CutPrefix(fields[0], zonePrefixTZ)
		}
		if ok {
			zone, fields = name, fields[1:]
			if loc != nil {
				return schedule{}, invalid("Location", "is given, and the expression names a zone too")
			}
			if name == "" {
				return schedule{}, invalid("Cron", "names an empty zone")
			}
		}
	}
	if len(fields) > 0 && fields[0]+" " == everyPrefix {
		every, err := time.ParseDuration(strings.Join(fields[1:], " "))
		switch {
		case err != nil:
			return schedule{}, invalid("Cron", fmt.Sprintf("%q: %v", expression, err))
		case zone != "" || loc != nil:
			return schedule{}, invalid("Cron", "has a zone, and an interval that depends on none")
		}
		return everySchedule("Cron", every)
	}
	loc, err := location(zone, loc)
	if err != nil {
		return schedule{}, err
	}
	if problem := fieldProblem(fields); problem != "" {
		return schedule{}, invalid("Cron", fmt.Sprintf("%q %s", expression, problem))
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(strings.Join(fields, " "))
	spec, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return schedule{}, invalid("Cron", fmt.Sprintf("%q: %v", expression, err))
	}
	const allHours = 1<<24 - 1
	s := schedule{
		text: zonePrefix + loc.String() + " " + strings.Join(fields, " "),
		spec: *spec, loc: loc, named: spec.Hour&allHours != allHours,
	}
	if s.next(time.Unix(0, 0)).IsZero() {
		return schedule{}, invalid("Cron", fmt.Sprintf("%q never comes", expression))
	}
	return s, nil
}

// location is the zone that a schedule is read in.
func location(name string, loc *time.Location) (*time.Location, error) {
	switch {
	case name == "" && loc == nil:
		return time.UTC, nil
	case loc == nil && name != time.Local.String():
		loc, err := time.LoadLocation(name)
		if err != nil {
			return nil, invalid("Cron", fmt.Sprintf("names the zone %q: %v", name, err))
		}
		return loc, nil
	case loc == nil || loc == time.Local:
		return nil, invalid("Location", "is the machine's own, which processes need not agree on: name the zone")
	}
	known, err := time.LoadLocation(loc.String())
	if err != nil || loc.String() == "" {
		return nil, invalid("Location", fmt.Sprintf("is %q, which is not in the time zone database", loc))
	}
	return known, nil
}

// fieldProblem says what is wrong with the fields that the library would not see.
func fieldProblem(fields []string) string {
	if len(fields) == 0 {
		return "is empty"
	}
	for _, field := range fields {
		for _, part := range strings.Split(field, ",") {
			switch {
			case part == "":
				return "has an empty place in a list"
			case strings.HasPrefix(part, "*-"), strings.HasPrefix(part, "?-"):
				return "has a range that begins with " + part[:1]
			case strings.HasPrefix(part, zonePrefix), strings.HasPrefix(part, zonePrefixTZ):
				return "names two zones"
			}
		}
	}
	return ""
}

// next returns the first tick after a moment, or zero if there is none for five
// years.
func (s schedule) next(after time.Time) time.Time {
	if s.every == 0 {
		return s.nextByClock(after)
	}
	at, every := after.UnixNano(), s.every.Nanoseconds()
	n := at / every
	if at%every < 0 {
		n--
	}
	return time.Unix(0, (n+1)*every).UTC()
}

// nextByClock finds the next tick of a cron expression. It asks the library for
// ticks in zones whose offset never changes, and puts these together itself where
// the clock is changed: for an expression that names hours, the hour that is left
// out is counted on from the hour before, and the hour that comes twice counts once.
// One that allows all hours goes by the time that passes.
func (s schedule) nextByClock(after time.Time) time.Time {
	zone := after.In(s.loc)
	if begin, _ := zone.ZoneBounds(); !begin.IsZero() {
		zone = begin.Add(-1) // ticks that the last change left out may still be to come
	}
	var best time.Time
	for limit := after.Add(horizon); zone.Before(limit); {
		from, until := s.span(zone)
		_, offset := zone.Zone()
		spec := s.spec
		spec.Location = time.FixedZone("", offset)
		if from.Before(after) {
			from = after
		}
		tick := spec.Next(from)
		if !tick.IsZero() && (until.IsZero() || tick.Before(until)) && (best.IsZero() || tick.Before(best)) {
			best = tick
		}
		_, end := zone.ZoneBounds()
		if end.IsZero() || !best.IsZero() && best.Before(end) {
			break
		}
		zone = end
	}
	if best.IsZero() {
		return best
	}
	return best.UTC()
}

// span is the time in which ticks are read by the offset that holds at a moment:
// after from, before until, which is zero if that never ends.
func (s schedule) span(zone time.Time) (from, until time.Time) {
	_, offset := zone.Zone()
	begin, end := zone.ZoneBounds()
	if !begin.IsZero() {
		from = begin.Add(-1)
		if _, before := from.Zone(); s.named && offset < before {
			from = from.Add(time.Duration(before-offset) * time.Second)
		}
	}
	if !end.IsZero() {
		until = end
		if _, then := end.Zone(); s.named && then > offset {
			until = end.Add(time.Duration(then-offset) * time.Second)
		}
	}
	return from, until
}

// recent returns the ticks after a moment up to now, in order: the latest of them,
// if they are more than the limit.
func (s schedule) recent(after, now time.Time, limit int) []time.Time {
	for window := time.Second; ; window *= 2 {
		from := now.Add(-window)
		all := !from.After(after) || window > horizon
		if all {
			from = after
		}
		var ticks []time.Time
		for t := s.next(from); !t.IsZero() && !t.After(now); t = s.next(t) {
			ticks = append(ticks, t)
		}
		if all || len(ticks) >= limit {
			return slices.Clip(ticks[max(0, len(ticks)-limit):])
		}
	}
}

func invalid(field, problem string) error {
	return &recipes.InvalidError{Field: "Options." + field, Problem: problem}
}
