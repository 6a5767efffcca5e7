package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// A host stands in for the test that servers' packages expect. Failures are panics,
// which try turns into errors.
type host struct {
	testing.TB // nil: they call nothing but what is below
	workspace  *workspace
	name       string // of directories
	cleanups   []func()
}

type failure struct{ err error }

func (h *host) Helper()          {}
func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }
func (h *host) Skipf(format string, args ...any) {
	panic(failure{missing(fmt.Sprintf(format, args...))})
}
func (h *host) Skip(args ...any)                  { panic(failure{missing(fmt.Sprint(args...))}) }
func (h *host) Fatal(args ...any)                 { panic(failure{errors.New(fmt.Sprint(args...))}) }
func (h *host) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
func (h *host) Failed() bool                      { return false }
func (h *host) Logf(format string, args ...any)   { h.Errorf(format, args...) }
func (h *host) Error(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (h *host) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (h *host) TempDir() string {
	dir, err := h.workspace.sub(h.name)
	if err != nil {
		h.Fatal(err)
	}
	return dir
}

func (h *host) try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

func (h *host) close() error {
	return h.try(func() {
		for _, f := range slices.Backward(h.cleanups) {
			f()
		}
	})
}
