package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// rateWorkerCommand is the command of this program that is one process of those that share
// a limit.
const rateWorkerCommand = "rate-worker"

// rateWork says what a process of those does.
type rateWork struct {
	Contender string
	URL       string // of the service
	Name      string // of the limiter
	Processes int
	Limit     rateLimit
	Warm      time.Duration // with which to begin, at a multiple of the rate
	Measure   time.Duration
}

// rateLimit is what is to be kept.
type rateLimit struct {
	Rate, Burst, Slack int64
	Period             time.Duration
}

// rateResult is what a process has done while it was measured.
type rateResult struct {
	Admitted, Denied int64
	// Begun is when measuring began, in milliseconds of the machine's clock.
	Begun int64
	// Sure are the tokens by the millisecond in which they were spent, from the beginning of
	// the warming up; Unsure are those of decisions that took longer, by the one in which the
	// decision came back.
	Sure, Unsure []int64
	Times        histogram
}

// offered is how much is asked for, as a multiple of the rate: while it warms up, so that the
// burst is spent, and while it is measured.
const (
	offeredWarm    = 3.0
	offeredMeasure = 1.3
)

// rateWorker makes decisions. It says that it is ready, waits for the moment at which all
// begin, and writes its result.
func rateWorker(text string, stdin io.Reader, stdout io.Writer) error {
	var w rateWork
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	ctx := context.Background()
	allow, end, err := openRate(ctx, w)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, "ready"); err != nil {
		return err
	}
	in := bufio.NewReader(stdin)
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	var begin int64
	if _, err := fmt.Sscan(line, &begin); err != nil {
		return err
	}
	result, err := w.run(ctx, begin, allow)
	if err := errors.Join(err, end()); err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(result); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// run offers load from the moment begin on, in nanoseconds of the machine's clock, which all
// processes share. A decision that is still waiting when more is due is not made up for.
func (w rateWork) run(ctx context.Context, begin int64, allow func(context.Context) (bool, error)) (rateResult, error) {
	millis := int((w.Warm+w.Measure)/time.Millisecond) + 1
	r := rateResult{Sure: make([]int64, millis), Unsure: make([]int64, millis)}
	time.Sleep(time.Until(time.Unix(0, begin)))
	share := float64(w.Limit.Rate) / float64(w.Processes) / float64(time.Second)
	before := time.Now().UnixNano()
	due, at := 0.0, before
	for {
		passed := before - begin
		if passed >= int64(w.Warm+w.Measure) {
			return r, nil
		}
		measured := passed >= int64(w.Warm)
		offered := offeredWarm
		if measured {
			offered = offeredMeasure
		}
		due = min(due+offered*share*float64(before-at), offered*share*float64(250*time.Millisecond)+1)
		at = before
		if due < 1 {
			time.Sleep(time.Millisecond)
			before = time.Now().UnixNano()
			continue
		}
		due--
		ok, err := allow(ctx)
		after := time.Now().UnixNano()
		if err != nil {
			return r, err
		}
		w.count(&r, ok, measured, before-begin, after-begin)
		before = after
	}
}

func (w rateWork) count(r *rateResult, ok, measured bool, from, to int64) {
	milli := int(to / int64(time.Millisecond))
	switch {
	case !ok || milli >= len(r.Sure):
	case from/int64(time.Millisecond) == int64(milli):
		r.Sure[milli]++
	default:
		r.Unsure[milli]++
	}
	if !measured {
		return
	}
	r.Times.add(to - from)
	if ok {
		r.Admitted++
	} else {
		r.Denied++
	}
}

// A histogram counts times to a sixteenth of each.
type histogram []int64

const perDoubling = 16

func (h *histogram) add(ns int64) {
	ns = max(ns, perDoubling)
	shift := bits.Len64(uint64(ns)) - 5
	i := shift*perDoubling + int(ns>>shift)
	for len(*h) <= i {
		*h = append(*h, 0)
	}
	(*h)[i]++
}

// merge adds another's counts.
func (h *histogram) merge(other histogram) {
	for len(*h) < len(other) {
		*h = append(*h, 0)
	}
	for i, n := range other {
		(*h)[i] += n
	}
}

// quantile is a time that so large a part of the times don't exceed.
func (h histogram) quantile(q float64) time.Duration {
	total := int64(0)
	for _, n := range h {
		total += n
	}
	want, sum := int64(q*float64(total)), int64(0)
	for i, n := range h {
		if sum += n; sum > want {
			shift := (i - perDoubling) / perDoubling
			return time.Duration(int64(i-shift*perDoubling+1) << shift)
		}
	}
	return 0
}
