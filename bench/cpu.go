package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// cpuCount is what is counted of the clients, where the system tells it.
const cpuCount = "client CPU, ms"

// A worker is a runner whose CPU time is known.
type worker interface {
	// cpu is the time that all CPUs have spent for the clients so far.
	cpu() (time.Duration, bool)
}

// cpu counts this process, in which one contender works at a time, and the
// commands that have ended.
func (c *crew) cpu() (time.Duration, bool) { return ownCPU() }

func (p *peer) cpu() (time.Duration, bool) { return p.process.cpu() }

func (p *process) cpu() (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}
	return readStat(string(stat))
}

// readStat finds the CPU time in the kernel's line about a process, which has it
// in hundredths of a second.
func readStat(line string) (time.Duration, bool) {
	const user, system = 11, 12 // of the fields behind the command's name
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) <= system {
		return 0, false
	}
	var total time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, false
		}
		total += time.Duration(ticks) * 10 * time.Millisecond
	}
	return total, true
}

// cpuOf measures the CPU time of a runner's clients from now until stop is called
// with the number of operations done meanwhile.
func cpuOf(r runner) (stop func(operations int) []report.Count) {
	w, ok := r.(worker)
	if !ok {
		return func(int) []report.Count { return nil }
	}
	before, known := w.cpu()
	return func(operations int) []report.Count {
		after, still := w.cpu()
		if !known || !still {
			return nil
		}
		each := (after - before).Seconds() * 1000 / float64(operations)
		return []report.Count{{What: cpuCount, Each: each}}
	}
}
