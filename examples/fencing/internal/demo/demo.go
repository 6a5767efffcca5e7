// Package demo is what the programs beside it have in common: flags, and a pause
// between taking the lock and writing.
package demo

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/zk"
)

// Exit codes of the programs.
const (
	exitFailed = 1
	exitUsage  = 2
)

// A Program is one run of a program. Its own flags are added before Parse.
type Program struct {
	*flag.FlagSet
	Lock  string // the lock's name
	Value string // what to write

	wait *bool
	ctx  context.Context // ends when the program is interrupted
}

// Main runs a program and ends the process if it fails.
func Main(name string, run func(ctx context.Context, p *Program) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := &Program{FlagSet: flag.NewFlagSet(name, flag.ExitOnError), ctx: ctx}
	p.StringVar(&p.Lock, "lock", "examples/"+name, "the lock's `name`")
	p.wait = p.Bool("wait", false, "wait for Enter between taking the lock and writing")
	p.Usage = func() {
		fmt.Fprintf(p.Output(), "usage: go run ./examples/fencing/%s [flags] VALUE\n", name)
		p.PrintDefaults()
	}
	err := run(ctx, p)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(exitFailed)
	}
}

// Parse reads the command line, and ends the process if it is wrong.
func (p *Program) Parse() {
	_ = p.FlagSet.Parse(os.Args[1:]) // ends the process on error
	if p.NArg() != 1 {
		p.Refuse("give one VALUE to write, not %d", p.NArg())
	}
	p.Value = p.Arg(0)
}

// Refuse ends the process because of what the command line says.
func (p *Program) Refuse(format string, args ...any) {
	fmt.Fprintf(p.Output(), "%s: %s\n", p.Name(), fmt.Sprintf(format, args...))
	p.Usage()
	os.Exit(exitUsage)
}

// Env is the value of an environment variable or, if that is not set, a default.
func Env(variable, fallback string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return fallback
}

// Dial makes a client of the lock service at a URL, of whatever kind.
func Dial(ctx context.Context, url string) (*recipes.Client, error) {
	switch scheme, _, _ := strings.Cut(url, "://"); scheme {
	case "etcd":
		return etcd.Dial(ctx, url, nil)
	case "zk":
		return zk.Dial(ctx, url, nil)
	}
	return nil, errors.New("backend URL must begin with etcd:// or zk://")
}

// Pause says that the lock is held, waits for Enter if -wait was given, and returns
// a context that does not end when the lock is lost.
//
// Work under a lock belongs under the hold's own context. But a process can be
// paused right after it has looked at that, and then it is as if it had not. The
// returned context stands for such a pause.
func (p *Program) Pause(hold *recipes.Hold) (late context.Context, err error) {
	fmt.Printf("lock %q held, token %d\n", hold.Name(), hold.Token())
	if *p.wait {
		fmt.Println("press Enter to write")
		if err := p.enter(); err != nil {
			return nil, err
		}
	}
	if err := context.Cause(hold.Context()); err != nil {
		fmt.Printf("%v; writing all the same\n", err)
	}
	return p.ctx, nil
}

// enter waits for a line on standard input, or until the program is interrupted.
func (p *Program) enter() error {
	line := make(chan error, 1)
	go func() { // ends with the process, if not before
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = errors.New("standard input has ended")
		}
		line <- err
	}()
	select {
	case err := <-line:
		return err
	case <-p.ctx.Done():
		return fmt.Errorf("interrupted: %w", p.ctx.Err())
	}
}
