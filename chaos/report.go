//go:build linux

package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/chaos/internal/report"
)

// writeReport writes the page of a run.
func writeReport(path string, out *Outcome) error {
	o := out.Options
	page := report.Page{
		Engine: o.Engine, Seed: o.Seed, Duration: o.Duration, Result: out.Result, Left: out.Left, Facts: append(machine(), report.Fact{Name: "servers", Value: out.Service}),
		Command: fmt.Sprintf("make chaos ENGINE=%s DURATION=%v SEED=%d", o.Engine, o.Duration, o.Seed),
		Events:  slices.Clone(out.History),
	}
	slices.SortStableFunc(page.Events, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	for _, name := range slices.Sorted(maps.Keys(out.Registers)) {
		r := out.Registers[name]
		page.Registers = append(page.Registers, report.Fact{Name: name, Value: fmt.Sprintf(
			"%d writes; %d came too late and were refused; the unfenced twin lost %d values by them", r.Writes, r.Late, r.Lost)})
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := page.Write(file); err != nil {
		_ = file.Close() // what matters is why it could not be written
		return err
	}
	return file.Close()
}

// machine is what a run depends on.
func machine() []report.Fact {
	facts := []report.Fact{
		{Name: "processors", Value: fmt.Sprint(runtime.NumCPU())},
		{Name: "Go", Value: runtime.Version()},
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		facts = append(facts, report.Fact{Name: "kernel", Value: unix.ByteSliceToString(uts.Release[:])})
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "go.etcd.io/etcd/client/v3", "github.com/go-zookeeper/zk", "github.com/anishathalye/porcupine":
				facts = append(facts, report.Fact{Name: dep.Path, Value: dep.Version})
			}
		}
	}
	return facts
}
