// Package cli is the command lockctl.
package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/lockctl/lockctl/internal/supervise"
	"github.com/lockctl/lockctl/internal/termtext"
)

// Rules for output, which all commands follow:
//
//   - Results go to standard output, everything else to standard error: so a
//     pipe sees results only, and a person sees both.
//   - An error is one line that begins with "lockctl: ", says what was attempted on
//     what, and what to do where that is not obvious. No usage text, no stack trace.
//   - Silence is success. Progress is told with --verbose, or where the lack of it
//     would look like a hang.
//   - Text that another process wrote is escaped before a terminal can see it.
//   - Colour is used on a terminal only, never with NO_COLOR or TERM=dumb, and never
//     alone: a word says the same.
//   - With -o json every line of standard output is one JSON object of docs/json.md.

// A Process is what lockctl gets from its surroundings.
type Process struct {
	Args                  []string // without the program's name
	Env                   []string // "name=value" each
	Stdin, Stdout, Stderr *os.File

	// StartServer runs the server of "lockctl dev". It is nil in a program that has
	// none, which runs lockctl-dev instead: every other command starts in half the
	// time for it.
	StartServer func(context.Context, ServerOptions) (Server, error)
}

// FromOS is the process that the program runs in, without a server.
func FromOS() Process {
	return Process{Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

// Main runs lockctl and returns its exit code. It ends early when ctx does.
func Main(ctx context.Context, p Process) int {
	a := &app{Process: p}
	root := a.root()
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	return a.finish(root.ExecuteContext(ctx))
}

// app is one run of lockctl: its surroundings and its global flags.
type app struct {
	Process
	backends []string
	output   string

	mu sync.Mutex // one line on standard error at a time
}

// env returns the last value of an environment variable, "" if it is not set.
func (a *app) env(name string) string {
	value := ""
	for _, e := range a.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

var oneLine = strings.NewReplacer("\n\t", " ", "\n", "; ")

// say writes one line on standard error. A person who doesn't see it loses
// nothing that the exit code doesn't tell.
func (a *app) say(format string, args ...any) {
	text := oneLine.Replace(fmt.Sprintf(format, args...))
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = fmt.Fprintf(a.Stderr, "lockctl: %s\n", termtext.Escape(text))
}

func (a *app) json() bool { return a.output == "json" }

// bold marks text on a terminal that may be marked.
func (a *app) bold(text string) string {
	if !isTerminal(a.Stdout) || a.env("NO_COLOR") != "" || a.env("TERM") == "dumb" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// interruptible returns a context that ends when a signal asks the process to
// end. Its cause then is an *interrupted.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	signals, stop := supervise.Endings()
	ctx, cancel := cancelOnSignal(ctx, signals)
	return ctx, func() {
		cancel()
		stop()
	}
}

// lineTime is how lines that tell of changes begin.
const lineTime = "2006-01-02T15:04:05.000Z"

// untilInterrupted runs f until it is interrupted, which is not an error, or until
// trying again can't help.
func untilInterrupted(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// cancelOnSignal ends the context when a signal arrives. After cancel has
// returned, signals that arrive are left in the channel.
func cancelOnSignal(ctx context.Context, signals <-chan os.Signal) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case sig := <-signals:
			end(&interrupted{sig})
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		end(nil)
		watcher.Wait()
	}
}
