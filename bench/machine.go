package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// machine tells what decides the figures. dir is where the servers keep their data.
func machine(dir string) ([]report.Fact, error) {
	flush, err := flushTime(dir)
	if err != nil {
		return nil, err
	}
	return []report.Fact{
		{Name: "CPU", Value: fmt.Sprintf("%s, %d cores", lineOf("/proc/cpuinfo", "model name"), runtime.NumCPU())},
		{Name: "memory", Value: lineOf("/proc/meminfo", "MemTotal")},
		{Name: "kernel", Value: runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease") + " " + runtime.GOARCH},
		{Name: "disk", Value: report.Duration(flush) + " to write and flush 4 KiB (median)"},
		{Name: "load at the start", Value: firstLine("/proc/loadavg")},
		{Name: "Go", Value: strings.TrimPrefix(runtime.Version(), "go")},
		{Name: "date", Value: time.Now().UTC().Format(time.DateOnly)},
	}, nil
}

// flushTime is how long it takes to append a block to a file and flush it, which
// is what servers do for each commit.
func flushTime(dir string) (time.Duration, error) {
	const blocks, size = 101, 4096
	f, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return 0, err
	}
	times := make([]time.Duration, 0, blocks)
	block := make([]byte, size)
	for range blocks {
		start := time.Now()
		if _, err = f.Write(block); err == nil {
			err = f.Sync()
		}
		if err != nil {
			break
		}
		times = append(times, time.Since(start))
	}
	return report.Median(times), errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// busyness says that others use the machine, or nothing.
func busyness() string {
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	if value, err := strconv.ParseFloat(load, 64); err != nil || value < float64(runtime.NumCPU())/4 {
		return ""
	}
	return fmt.Sprintf("the machine is busy, its load is %s on %d cores", load, runtime.NumCPU())
}

const unknown = "unknown"

// lineOf is the value behind a key in one of the kernel's tables.
func lineOf(file, key string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

func firstLine(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return unknown
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return unknown
}
