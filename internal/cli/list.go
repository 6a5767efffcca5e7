package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

func (a *app) lsCommand() *cobra.Command {
	var kinds kindsFlag
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks in use, and everything else",
		Long: `List the locks that someone holds or waits for, and the groups, queues, registers and
whatever else exists, by name. With a PREFIX only those whose names begin with it.`,
		Example: `  lockctl ls
  lockctl ls jobs/ -o json
  lockctl ls --kind lock,election`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd.Context(), func(ctx context.Context, b backend, client service) error {
				return a.ls(ctx, b, client, recipes.Filter{Kinds: kinds, Prefix: argument(args)})
			})
		},
	}
	kinds.add(cmd)
	return cmd
}

func (a *app) showCommand() *cobra.Command {
	var kinds kindsFlag
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show one lock with its queue, or whatever else has the name",
		Long: `Show who holds a lock and who waits for it, in order; and the group, queue, register or
whatever else has the same name, with who takes part and what is stored.`,
		Example: `  lockctl show jobs/daily
  lockctl show emails --kind queue`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd.Context(), func(ctx context.Context, b backend, client service) error {
				return a.show(ctx, b, client, args[0], kinds)
			})
		},
	}
	kinds.add(cmd)
	return cmd
}

// kindsFlag is the flag --kind of commands that show objects. It implements the flag
// library's Value.
type kindsFlag []recipes.Kind

func (k *kindsFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(k, "kind", "only objects of these `KIND`s, separated by commas: "+kindNames()+";\nlock is any lock (default: all)")
}

func kindNames() string {
	var names []string
	for _, kind := range recipes.Kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// String is the default, as the flag library shows it.
func (k *kindsFlag) String() string { return "" }

// Type is the kind of value, as the flag library shows it.
func (k *kindsFlag) Type() string { return "KIND" }

// Set reads a value of the flag.
func (k *kindsFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		kind := recipes.Kind(strings.TrimSpace(word))
		if !slices.Contains(recipes.Kinds(), kind) {
			return fmt.Errorf("%q is none of %s", word, kindNames())
		}
		*k = append(*k, kind)
	}
	return nil
}

// argument is the only argument of a command, or "".
func argument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// ask runs f, which asks the service once, in bounded time.
func (a *app) ask(ctx context.Context, f func(context.Context, backend, *recipes.Client) error) error {
	return askOnce(ctx, a.withClient, f)
}

// look is ask for what every backend can tell.
func (a *app) look(ctx context.Context, f func(context.Context, backend, service) error) error {
	return askOnce(ctx, a.withService, f)
}

func askOnce[S service](ctx context.Context, with func(context.Context, func(backend, S) error) error,
	f func(context.Context, backend, S) error) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	err := with(ctx, func(b backend, client S) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		return f(ctx, b, client)
	})
	return because(ctx, err)
}

func (a *app) ls(ctx context.Context, b backend, client service, filter recipes.Filter) error {
	objects, err := client.Objects(ctx, filter)
	if err != nil {
		return err
	}
	if a.json() {
		return a.writeObjects(b, client.Engine(), objects)
	}
	if len(objects) == 0 {
		if isTerminal(a.Stdout) {
			a.say("there is nothing to list")
		}
		return nil
	}
	return objectsTable(objects, time.Now()).Write(a.Stdout)
}

func (a *app) show(ctx context.Context, b backend, client service, name string, kinds []recipes.Kind) error {
	objects, err := client.Objects(ctx, recipes.Filter{Kinds: kinds, Name: name})
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		kind := recipes.KindLock
		if len(kinds) > 0 {
			kind = kinds[0]
		}
		objects = []recipes.Object{{Kind: kind, Name: name}}
	}
	if a.json() {
		return a.writeObjects(b, client.Engine(), objects)
	}
	now := time.Now()
	for i, o := range objects {
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		if err := writeObject(a.Stdout, o, now); err != nil {
			return err
		}
	}
	return nil
}

// writeObjects writes objects in JSON, one a line.
func (a *app) writeObjects(b backend, engine string, objects []recipes.Object) error {
	for _, o := range objects {
		if err := a.writeJSON(newObjectJSON(b, engine, o)); err != nil {
			return err
		}
	}
	return nil
}

// objectsTable shows objects, one a row.
func objectsTable(objects []recipes.Object, now time.Time) termtext.Table {
	table := termtext.Table{
		Header: []string{"NAME", "KIND", "HELD FOR", "WAITING", "TOKEN", "STATE"},
		Right:  []bool{false, false, true, true, true, false},
	}
	for _, o := range objects {
		held, waiting, token := "", "", ""
		if isLock(o) && len(o.Entries) > 0 {
			held, token = age(o.HeldSince, now), tokenText(o.Entries[0].Token)
		}
		if len(o.Entries) > 0 && o.Kind != recipes.KindGroup {
			waiting = fmt.Sprint(len(o.Waiters()))
		}
		table.Rows = append(table.Rows, []string{
			termtext.Escape(o.Name), termtext.Escape(string(o.Kind)), held, waiting, token, summary(o, now),
		})
	}
	return table
}

func isLock(o recipes.Object) bool { return o.Kind.Family() == recipes.KindLock }

// summary says how an object is, as it can be written on a terminal.
func summary(o recipes.Object, now time.Time) string {
	switch {
	case o.Kind == recipes.KindElection:
		return termtext.Escape(election.Summary(o))
	case o.Kind == recipes.KindJob:
		return termtext.Escape(job.Summary(o))
	case o.Kind == recipes.KindLimiter && !o.Gone():
		return termtext.Escape(ratelimit.Summary(o))
	case isLock(o) && len(o.Entries) > 0 && o.Entries[0].Kind == "":
		return "held by " + who(o.Entries[0])
	}
	return termtext.Escape(o.Summary(now))
}

// who is the owner of an entry, or what another program wrote there.
func who(e recipes.Entry) string {
	if e.Kind != "" {
		return termtext.Escape(e.Owner.String())
	}
	return "another program: " + termtext.Clip(termtext.Escape(string(e.Value)), 40)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format(time.RFC3339)
}

// age is how long ago t was, in two units.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	d := max(now.Sub(t), 0).Truncate(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
