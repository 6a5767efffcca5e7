package report

import (
	"fmt"
	"strings"
	"time"
)

// A Goal is what a scenario's figures are held against.
type Goal struct {
	Text  string
	why   string // it is missed where it is, "" if nobody has said
	check func(s *Scenario) Outcome
}

// Because is the goal with the reason for which it is missed, where it is.
func (g Goal) Because(why string) Goal {
	g.why = why
	return g
}

// An Outcome is what became of a goal.
type Outcome struct {
	Figure string // what was measured, "" if nothing was
	Met    bool
}

// String says whether the goal is met.
func (o Outcome) String() string {
	switch {
	case o.Figure == "":
		return "not measured"
	case o.Met:
		return "met"
	default:
		return "missed"
	}
}

// Check holds the scenario's figures against the goal.
func (g Goal) Check(s *Scenario) Outcome {
	if s.Ours() == nil {
		return Outcome{}
	}
	return g.check(s)
}

// AtMost is met if ours takes at most limit times as long as the other.
func AtMost(limit float64, other string) Goal {
	return Goal{
		Text: fmt.Sprintf("at most %.3g × the time of %s", limit, other),
		check: func(s *Scenario) Outcome {
			return atMost(limit, s.Ours(), s.measured(other))
		},
	}
}

// AtMostBest is met if ours takes at most limit times as long as the fastest peer.
func AtMostBest(limit float64) Goal {
	return Goal{
		Text: fmt.Sprintf("at most %.3g × the time of the fastest peer", limit),
		check: func(s *Scenario) Outcome {
			best := s.best()
			outcome := atMost(limit, s.Ours(), best)
			if best != nil {
				outcome.Figure += " (" + best.Name + ")"
			}
			return outcome
		},
	}
}

func atMost(limit float64, ours, other *Result) Outcome {
	if other == nil {
		return Outcome{}
	}
	ratio := ours.Against(other)
	return Outcome{Figure: fmt.Sprintf("%.2f ×", ratio), Met: ratio <= limit}
}

// Faster is met if the other takes at least factor times as long as ours.
func Faster(factor float64, other string) Goal {
	return Goal{
		Text: fmt.Sprintf("at least %.3g × faster than %s", factor, other),
		check: func(s *Scenario) Outcome {
			peer := s.measured(other)
			if peer == nil {
				return Outcome{}
			}
			ratio := peer.Against(s.Ours())
			return Outcome{Figure: Ratio(ratio), Met: ratio >= factor}
		},
	}
}

// AtMostCount is met if a count of ours is at most limit times that of the
// other, such as the milliseconds that something took.
func AtMostCount(limit float64, what, other string) Goal {
	return Goal{
		Text: fmt.Sprintf("%s: at most %.3g × that of %s", what, limit, other),
		check: func(s *Scenario) Outcome {
			peer := s.measured(other)
			if peer == nil {
				return Outcome{}
			}
			own, counted := s.Ours().Count(what)
			theirs, also := peer.Count(what)
			if !counted || !also || theirs == 0 {
				return Outcome{}
			}
			return Outcome{Figure: fmt.Sprintf("%.2f ×", own/theirs), Met: own <= limit*theirs}
		},
	}
}

// NoMore is met if one count of ours is not larger than another of ours, by more than
// the slack.
func NoMore(what, than string, slack float64) Goal {
	return Goal{
		Text: fmt.Sprintf("%s ≤ %s + %s", what, than, number2(slack)),
		check: func(s *Scenario) Outcome {
			own, counted := s.Ours().Count(what)
			other, also := s.Ours().Count(than)
			if !counted || !also {
				return Outcome{}
			}
			return Outcome{Figure: number2(own) + ", " + number2(other), Met: own <= other+slack}
		},
	}
}

// Within is met if an operation of ours takes at most d.
func Within(d time.Duration) Goal {
	return Goal{
		Text: "at most " + Duration(d),
		check: func(s *Scenario) Outcome {
			took := s.Ours().Time()
			return Outcome{Figure: Duration(took), Met: took <= d}
		},
	}
}

// Mostly is met if the part q of the operations of ours, such as 0.99, each took at
// most d.
func Mostly(q float64, d time.Duration) Goal {
	return Goal{
		Text: fmt.Sprintf("p%.3g at most %s", 100*q, Duration(d)),
		check: func(s *Scenario) Outcome {
			took := s.Ours().Quantile(q)
			return Outcome{Figure: Duration(took), Met: took <= d}
		},
	}
}

// countTolerance allows for what a server does by itself during a measurement.
const countTolerance = 0.005

// Costs is met if one operation of ours costs at most each of the counts.
func Costs(limits ...Count) Goal {
	var text []string
	for _, limit := range limits {
		text = append(text, fmt.Sprintf("%s ≤ %s", limit.What, number2(limit.Each)))
	}
	return Goal{
		Text: strings.Join(text, ", "),
		check: func(s *Scenario) Outcome {
			outcome := Outcome{Met: true}
			var figures []string
			for _, limit := range limits {
				each, counted := s.Ours().Count(limit.What)
				if !counted {
					return Outcome{}
				}
				outcome.Met = outcome.Met && each <= limit.Each+countTolerance
				figures = append(figures, limit.What+" "+number2(each))
			}
			outcome.Figure = strings.Join(figures, ", ")
			return outcome
		},
	}
}
