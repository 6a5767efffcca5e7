package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profile begins the profiles that are wanted. stop writes them.
func profile(cpu, mem string) (stop func() error, err error) {
	stopCPU := func() error { return nil }
	if cpu != "" {
		f, err := os.Create(cpu)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		stopCPU = func() error {
			pprof.StopCPUProfile()
			return f.Close()
		}
	}
	return func() error {
		err := stopCPU()
		if mem == "" {
			return err
		}
		f, createErr := os.Create(mem)
		if createErr != nil {
			return errors.Join(err, createErr)
		}
		runtime.GC() // so that what was allocated last is in the profile
		return errors.Join(err, pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
	}, nil
}
