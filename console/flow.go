package console

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

const (
	// flowSeconds is how long a limiter's chart looks back.
	flowSeconds = 60
	maxSamples  = 512
)

// A flow is what was seen of a limiter's counts in the last minute. It is not changed
// once made: add returns the next one.
type flow struct {
	samples []flowSample // oldest first
}

type flowSample struct {
	at               time.Time
	admitted, denied int64
}

// add takes in the counts of a limiter.
func (f flow) add(o recipes.Object, now time.Time) flow {
	if o.Kind != recipes.KindLimiter {
		return f
	}
	s, err := ratelimit.StateOf(o)
	if err != nil || !s.Set {
		return flow{}
	}
	sample := flowSample{now, s.Admitted, s.Denied}
	if n := len(f.samples); n > 0 && (f.samples[n-1].admitted > s.Admitted || f.samples[n-1].denied > s.Denied) {
		return flow{samples: []flowSample{sample}} // it was made anew
	}
	first := 0
	// One that is older than the chart is where it begins.
	for first < len(f.samples)-1 && (now.Sub(f.samples[first+1].at) > flowSeconds*time.Second || len(f.samples)-first >= maxSamples) {
		first++
	}
	samples := make([]flowSample, 0, len(f.samples)-first+1)
	return flow{samples: append(append(samples, f.samples[first:]...), sample)}
}

// busy reports whether something flowed in the last minute, so that the chart moves.
func (f flow) busy(now time.Time) bool {
	n := len(f.samples)
	return n > 1 && now.Sub(f.samples[n-1].at) < (flowSeconds+1)*time.Second
}

// perSecond is what was admitted and denied in each of the last seconds, oldest first. What
// a process tells of at once is spread over the time since the limiter was written before.
func (f flow) perSecond(now time.Time) (admitted, denied [flowSeconds]float64) {
	begin := now.Add(-flowSeconds * time.Second)
	for i := 1; i < len(f.samples); i++ {
		a, b := f.samples[i-1], f.samples[i]
		from, to := a.at.Sub(begin).Seconds(), b.at.Sub(begin).Seconds()
		length := max(to-from, 1e-3)
		for second := max(int(from), 0); second < flowSeconds && float64(second) < to; second++ {
			part := (min(to, float64(second+1)) - max(from, float64(second))) / length
			admitted[second] += max(part, 0) * float64(b.admitted-a.admitted)
			denied[second] += max(part, 0) * float64(b.denied-a.denied)
		}
	}
	return admitted, denied
}

// limiter is what is known of a limiter; nothing if what is stored can't be read.
func (v objectView) limiter() ratelimit.State {
	s, err := ratelimit.StateOf(v.Object)
	if err != nil {
		return ratelimit.State{}
	}
	return s
}

// allows is what a limiter allows, for people.
func (v objectView) allows() string {
	c := v.limiter().Config
	text := c.Rate.String()
	if c.Policy == ratelimit.Window {
		return text + " in any window"
	}
	text += " burst " + strconv.FormatInt(c.Burst, 10)
	if c.Slack > 0 {
		text += ", slack " + strconv.FormatInt(c.Slack, 10)
	}
	return text
}

// level is how full a limiter is, in hundredths.
func (v objectView) level() meter {
	s := v.limiter()
	if !s.Set {
		return meter{}
	}
	return meter{Full: int(100 * float64(s.Level) / float64(max(s.Config.Limit(), 1))), Whole: 100}
}

// A bar of a limiter's chart, in the units of its view box.
type flowBar struct {
	X, Y, Height string
	Class        string
	Title        string
}

const flowHeight = 64

// flowBars are the bars of the chart: what was admitted, and above it what was denied.
func (m detailModel) flowBars() []flowBar {
	admitted, denied := m.Holds.flow.perSecond(m.now)
	most := m.flowMost()
	var bars []flowBar
	for i := range admitted {
		title := fmt.Sprintf("%s ago: %s admitted, %s denied", time.Duration(flowSeconds-i)*time.Second, figure(admitted[i]), figure(denied[i]))
		low := flowHeight * admitted[i] / most
		high := flowHeight * denied[i] / most
		for _, bar := range []struct {
			class      string
			at, height float64
		}{{"admitted", flowHeight - low, low}, {"denied", flowHeight - low - high, high}} {
			if bar.height > 0 {
				bars = append(bars, flowBar{strconv.Itoa(5 * i), decimal(bar.at), decimal(max(bar.height, 0.5)), bar.class, title})
			}
		}
	}
	return bars
}

// flowMost is what the chart's height stands for: the busiest second, or the rate if that
// is more.
func (m detailModel) flowMost() float64 {
	admitted, denied := m.Holds.flow.perSecond(m.now)
	most := 1.0
	if s := m.limiter(); s.Set {
		most = max(most, float64(s.Config.Rate.Tokens)/s.Config.Rate.Per.Seconds())
	}
	for i := range admitted {
		most = max(most, admitted[i]+denied[i])
	}
	return most
}

// flowRate is where the chart's line of the rate is, "" if there is none.
func (m detailModel) flowRate() string {
	s := m.limiter()
	if !s.Set {
		return ""
	}
	return decimal(flowHeight - flowHeight*float64(s.Config.Rate.Tokens)/s.Config.Rate.Per.Seconds()/m.flowMost())
}

func (m detailModel) flowBox() string { return fmt.Sprintf("0 0 %d %d", 5*flowSeconds, flowHeight) }

// lately is what was admitted and denied a second, in the last five that are whole.
func (m detailModel) lately() (admitted, denied string) {
	a, d := m.Holds.flow.perSecond(m.now)
	var sums [2]float64
	const over = 5
	for i := flowSeconds - 1 - over; i < flowSeconds-1; i++ {
		sums[0] += a[i] / over
		sums[1] += d[i] / over
	}
	return figure(sums[0]), figure(sums[1])
}

func (m detailModel) admittedLately() string { a, _ := m.lately(); return a }
func (m detailModel) deniedLately() string   { _, d := m.lately(); return d }

// figure is a number for people: with three digits, or whole.
func figure(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 9.995:
		return strconv.FormatFloat(n, 'f', 1, 64)
	case n < 9_999.5:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n < 9_999_500:
		return strconv.FormatFloat(n/1e3, 'f', 1, 64) + " k"
	}
	return strconv.FormatFloat(n/1e6, 'f', 1, 64) + " M"
}

// processView is a process that has tokens.
type processView struct {
	Key, Out, Demand string
	Who              text
	Degraded         bool
}

func (m detailModel) processes() []processView {
	all := m.limiter().Processes
	var views []processView
	for _, p := range all[:min(len(all), maxQueue)] {
		views = append(views, processView{
			Key: url.QueryEscape(p.ID), Who: newText(p.Who), Out: strconv.FormatInt(p.Out, 10),
			Demand: figure(float64(p.Demand)), Degraded: p.Degraded,
		})
	}
	return views
}
