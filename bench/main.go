package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == serveEtcdCommand {
		exitOn(serveEtcd(os.Args[2], os.Stdin, os.Stdout))
		return
	}
	if len(os.Args) == 3 && os.Args[1] == rateWorkerCommand {
		exitOn(rateWorker(os.Args[2], os.Stdin, os.Stdout))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == ratesCommand {
		exitOn(rates(ctx, os.Args[2:], os.Stdout, os.Stderr))
		return
	}
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	exitOn(err)
	exitOn(run(ctx, s, os.Stdout, os.Stderr))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what the flags say.
type settings struct {
	rounds     int
	duration   time.Duration // of one contender's turn
	nodes      []int         // sizes of the clusters to measure on
	scenarios  *regexp.Regexp
	contenders *regexp.Regexp
	output     string // file of the page, "" for a table on standard output
	dir        string // where the servers keep their data
	cpuProfile string // files for profiles of this process, "" for none
	memProfile string
	command    string // as it was given
}

func parse(args []string, usage io.Writer) (settings, error) {
	s := settings{command: strings.Join(append([]string{"go run ./bench"}, args...), " ")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&s.rounds, "rounds", 5, "rounds that count; each contender has one turn in each")
	flags.DurationVar(&s.duration, "duration", 2*time.Second, "how long a turn takes")
	nodes := flags.String("nodes", "1", "`SIZES` of the clusters to measure on, such as 1,3")
	scenarios := flags.String("run", "", "only scenarios that match `REGEXP`")
	contenders := flags.String("contenders", "", "only contenders that match `REGEXP`")
	flags.StringVar(&s.output, "o", "", "write the page to `FILE` and its charts beside it")
	flags.StringVar(&s.dir, "dir", "", "`DIR` for the servers' data (default: the system's for temporary files)")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the clients in this process to `FILE`")
	flags.StringVar(&s.memProfile, "memprofile", "", "write a profile of their allocations to `FILE`")
	quick := flags.Bool("quick", false, "2 rounds of 200 ms, to see that everything works")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if *quick {
		s.rounds, s.duration = 2, 200*time.Millisecond
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.rounds < 1:
		return s, fmt.Errorf("-rounds %d is less than 1", s.rounds)
	case s.duration < 10*time.Millisecond:
		return s, fmt.Errorf("-duration %v is less than 10 ms", s.duration)
	}
	return s, s.patterns(*nodes, *scenarios, *contenders)
}

func (s *settings) patterns(nodes, scenarios, contenders string) error {
	for text := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n%2 == 0 {
			return fmt.Errorf("-nodes %s: %q is not an odd number", nodes, text)
		}
		s.nodes = append(s.nodes, n)
	}
	var err error
	if s.scenarios, err = regexp.Compile(scenarios); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if s.contenders, err = regexp.Compile(contenders); err != nil {
		return fmt.Errorf("-contenders: %w", err)
	}
	return nil
}
