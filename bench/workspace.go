package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// A workspace is the directory of a run, with what is built in it when it is
// first needed.
type workspace struct {
	dir string

	mu    sync.Mutex
	built map[string]made
}

type made struct {
	path string
	err  error
}

func newWorkspace(parent string) (*workspace, error) {
	dir, err := os.MkdirTemp(parent, "lockctl-bench-")
	if err != nil {
		return nil, err
	}
	return &workspace{dir: dir, built: map[string]made{}}, nil
}

func (w *workspace) close() error { return os.RemoveAll(w.dir) }

// sub makes a directory whose name begins with the given one.
func (w *workspace) sub(name string) (string, error) { return os.MkdirTemp(w.dir, name+"-") }

// once makes what is called name, in a directory of its own, at the first call.
// build returns the path of what it has made.
func (w *workspace) once(name string, build func(dir string) (string, error)) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m, ok := w.built[name]; ok {
		return m.path, m.err
	}
	var m made
	var dir string
	if dir, m.err = w.sub(name); m.err == nil {
		m.path, m.err = build(dir)
	}
	w.built[name] = m
	return m.path, m.err
}

// lockctl builds the command.
func (w *workspace) lockctl(ctx context.Context) (string, error) {
	return w.once("lockctl", func(dir string) (string, error) {
		path := filepath.Join(dir, "lockctl")
		return path, output(exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/lockctl/lockctl/cmd/lockctl"))
	})
}

// output runs a command whose output matters only if it fails.
func output(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Args[0], err, out)
	}
	return nil
}

// installed returns the path of a command, or a missing error.
func installed(command string) (string, error) {
	path, err := exec.LookPath(command)
	if errors.Is(err, exec.ErrNotFound) {
		return "", missing(command + " is not installed")
	}
	return path, err
}
