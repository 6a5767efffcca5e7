//go:build linux

// Command chaos runs a cluster of three servers, has processes use locks on it while
// servers, clients and links fail, and checks afterwards that nothing happened that the
// recipes promise not to happen. See docs/testing.md.
//
//	go run ./chaos -engine etcd -duration 10m -seed 1 -report chaos.html
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/cluster"
	"github.com/lockctl/lockctl/chaos/internal/mutant"
	"github.com/lockctl/lockctl/chaos/internal/worker"
)

// The commands of this program that are its own processes: they run nothing by
// themselves that a person would want.
const (
	workerCommand = "chaos-worker"
	memberCommand = "chaos-member"
)

func main() {
	if isChild(os.Args[1:], os.Stdin, os.Stderr) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := command(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

// isChild runs a process of a run, if this is one.
func isChild(args []string, stdin io.Reader, stderr io.Writer) bool {
	if len(args) != 2 {
		return false
	}
	var err error
	switch args[0] {
	case workerCommand:
		err = worker.Run(args[1], stdin, mutant.Open)
	case memberCommand:
		err = cluster.ServeEtcd(args[1])
	default:
		return false
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", args[0], err)
		os.Exit(1)
	}
	return true
}

// defaultOptions are those of a run by this program's own processes.
func defaultOptions(engine string) (Options, error) {
	program, err := self()
	if err != nil {
		return Options{}, err
	}
	o := Options{
		Engine: engine, TTL: 3 * time.Second, Workers: 4,
		Worker: []string{program, workerCommand}, Member: []string{program, memberCommand},
	}
	if engine == "zookeeper" {
		o.TTL = 4 * time.Second // of which holders use three quarters
	}
	return o, nil
}

// command is the program; it returns the exit code.
func command(ctx context.Context, args []string, stderr io.Writer) int {
	c, err := parse(args, stderr)
	switch {
	case errors.Is(err, errSaid):
		return 2
	case err != nil:
		fmt.Fprintln(stderr, err)
		return 2
	}
	o := c.options
	fmt.Fprintf(stderr, "%s, %v, seed %d, in %s\n", o.Engine, o.Duration, o.Seed, o.Dir)
	out, err := Run(ctx, o)
	if err != nil {
		fmt.Fprintf(stderr, "the run did not work out: %v\n", err)
		return 2
	}
	printOutcome(stderr, out)
	if c.page != "" {
		if err := writeReport(c.page, out); err != nil {
			fmt.Fprintln(stderr, err)
			return 2
		}
	}
	if !out.Passed() {
		return 1
	}
	if c.temporary {
		_ = os.RemoveAll(o.Dir) // a directory of temporary files
	}
	return 0
}

// A commandLine is what the program was told.
type commandLine struct {
	options   Options
	page      string // where the report goes; "" for none
	temporary bool   // the directory is not to be kept if nothing was found
}

// errSaid says that what is wrong was printed.
var errSaid = errors.New("the usage was printed")

func parse(args []string, stderr io.Writer) (c commandLine, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	engine := flags.String("engine", "etcd", "etcd or zookeeper")
	duration := flags.Duration("duration", 2*time.Minute, "for how long there are faults")
	seed := flags.Uint64("seed", 0, "of the faults; 0 draws one")
	kinds := flags.String("faults", "", "only these, separated by commas: "+strings.Join(faultNames(), ","))
	does := flags.String("loops", "", "what workers do, separated by commas, if not all: "+strings.Join(loopKinds(), ","))
	each := flags.Bool("each", false, "go on until each kind of fault was there")
	dir := flags.String("dir", "", "for data, logs and the history; a temporary one if it is not given")
	broken := flags.String("mutant", "", "the engine to use: one that is broken in this way: "+strings.Join(mutant.Names(), ","))
	flags.StringVar(&c.page, "report", "", "write a page of HTML to this `file`")
	margin := flags.Duration("margin", usualMargin, "how much later than they should all may be served after faults; more on a busy machine")
	keep := flags.Bool("keep", false, "keep the directory also after a run that found nothing")
	if flags.Parse(args) != nil {
		return c, errSaid
	}
	if flags.NArg() > 0 {
		return c, errors.New("chaos takes no arguments, but flags")
	}
	o, err := defaultOptions(*engine)
	if err != nil {
		return c, err
	}
	o.Duration, o.Seed, o.Each, o.Log, o.Dir = *duration, *seed, *each, stderr, *dir
	if o.Margin = *margin; o.Margin <= 0 {
		return c, fmt.Errorf("-margin %v is not more than 0", o.Margin)
	}
	if *kinds != "" {
		o.Faults = strings.Split(*kinds, ",")
	}
	if *does != "" {
		if o.Loops, err = loopsOf(strings.Split(*does, ",")); err != nil {
			return c, err
		}
	}
	if *broken != "" {
		i := slices.IndexFunc(trials(), func(t trial) bool { return t.mutation == *broken })
		if i < 0 {
			return c, fmt.Errorf("mutants are %s", strings.Join(mutant.Names(), ", "))
		}
		o = trials()[i].options(o)
	}
	if o.Seed == 0 {
		o.Seed = drawSeed()
	}
	if c.temporary = o.Dir == "" && !*keep; o.Dir == "" {
		o.Dir, err = os.MkdirTemp("", "chaos")
	}
	c.options = o
	return c, err
}

func drawSeed() uint64 { return rand.Uint64N(1e6) + 1 }

// parseSeed reads a seed; without a text it draws one.
func parseSeed(text string) (uint64, error) {
	if text == "" {
		return drawSeed(), nil
	}
	return strconv.ParseUint(text, 10, 64)
}

func printOutcome(w io.Writer, out *Outcome) {
	c := out.Result.Counts
	fmt.Fprintln(w, out.Service)
	fmt.Fprintf(w, "%d rounds, grants %v, failures %v\n", c.Operations, c.Grants, c.Failures)
	fmt.Fprintf(w, "%d holds lost, %d holds and places broken by operators, %d rounds of killed processes, %d releases not confirmed, %d items\n",
		c.Lost, c.Broken, c.Killed, c.Late, c.Items)
	fmt.Fprintf(w, "%d holds that another followed while their process did not run, %d accesses refused by the fence\n", c.Unaware, c.Refused)
	for name, r := range out.Registers {
		fmt.Fprintf(w, "register %s: %d writes, %d too late and refused; its unfenced twin lost %d values\n", name, r.Writes, r.Late, r.Lost)
	}
	fmt.Fprintf(w, "%d stalls, the longest %v; longest wait after faults %v; %d operations through the models\n", c.Stalls, c.LongStall, c.LongWait, c.Checked)
	if c.Renewed > 0 {
		fmt.Fprintf(w, "%d times a member of the service had lost data, and got that of the others\n", c.Renewed)
	}
	total := 0
	for _, n := range c.Faults {
		total += n
	}
	fmt.Fprintf(w, "%d faults %v", total, c.Faults)
	if len(out.Left) > 0 {
		fmt.Fprintf(w, ", left out: %v", out.Left)
	}
	fmt.Fprintln(w)
	for _, v := range out.Result.Violations[:min(len(out.Result.Violations), 20)] {
		fmt.Fprintf(w, "VIOLATION %s at %v: %s\n", v.Check, v.At, v.Text)
	}
	if n := len(out.Result.Violations); n > 0 {
		fmt.Fprintf(w, "%d violations with seed %d\n", n, out.Options.Seed)
		if out.Inconclusive() {
			fmt.Fprintln(w, "they may follow from the data that the service itself has lost")
		}
		return
	}
	fmt.Fprintf(w, "no violation with seed %d\n", out.Options.Seed)
}
