package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockctl/lockctl/recipes"
)

func (a *app) barrierCommand() *cobra.Command {
	return family("barrier", "Have others wait, or begin and end together",
		`A barrier that is set keeps those waiting who call lockctl barrier wait, until it is lifted. It
stays set when those who set it are gone.

lockctl barrier enter is for those who begin together: it waits until so many are there.
What it waits at has nothing to do with a barrier of the same name that is set and lifted.`,
		a.barrierSetCommand(), a.barrierLiftCommand(), a.barrierWaitCommand(), a.barrierEnterCommand())
}

func (a *app) barrierSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "set NAME",
		Short:   "Set a barrier",
		Long:    `Set a barrier. One that is set stays as it is.`,
		Example: `  lockctl barrier set maintenance`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.barrier(cmd.Context(), args[0], (*recipes.Barrier).Set, "set")
		},
	}
}

func (a *app) barrierLiftCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "lift NAME",
		Short:   "Lift a barrier",
		Long:    `Lift a barrier, so that all pass who wait, and all who come later. One that is not set stays as it is.`,
		Example: `  lockctl barrier lift maintenance`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.barrier(cmd.Context(), args[0], (*recipes.Barrier).Lift, "lifted")
		},
	}
}

// barrier changes a barrier.
func (a *app) barrier(ctx context.Context, name string, change func(*recipes.Barrier, context.Context) error, state string) error {
	return a.ask(ctx, func(ctx context.Context, b backend, client *recipes.Client) error {
		barrier, err := client.Barrier(name)
		if err != nil {
			return err
		}
		if err := change(barrier, ctx); err != nil || !a.json() {
			return err
		}
		return a.writeJSON(stateJSON{namedJSON: newNamed(b, client, name), State: state})
	})
}

func (a *app) barrierWaitCommand() *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a barrier is lifted",
		Long: `Wait until a barrier is lifted, and not at all if it is not set.

Exit code: 75 if it was still set after --timeout.`,
		Example: `  lockctl barrier wait maintenance --timeout 1h && ./start`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.wait(cmd, o, fmt.Sprintf("barrier %q", args[0]), func(ctx context.Context, b backend, client *recipes.Client) error {
				barrier, err := client.Barrier(args[0])
				if err != nil {
					return err
				}
				if err := barrier.Wait(ctx); err != nil || !a.json() {
					return err
				}
				return a.writeJSON(stateJSON{namedJSON: newNamed(b, client, args[0]), State: "lifted"})
			})
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// stateJSON is what barrier set, lift and wait, and latch write.
type stateJSON struct {
	namedJSON
	State string `json:"state"`
	Left  *int   `json:"left,omitempty"` // of a latch
}

// waitOptions are the flags of commands that wait and do nothing else.
type waitOptions struct {
	timeout time.Duration
	verbose bool
}

func (o *waitOptions) flags(flags *pflag.FlagSet) {
	timeoutFlag(flags, &o.timeout)
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "tell on standard error what happens")
}

// wait runs f, which waits for something, for the time that the options give.
func (a *app) wait(cmd *cobra.Command, o waitOptions, what string, f func(context.Context, backend, *recipes.Client) error) error {
	if err := checkTimeout(o.timeout, cmd.Flags().Changed); err != nil {
		return err
	}
	ctx, cancel := interruptible(cmd.Context())
	defer cancel()
	err := a.withClient(ctx, func(b backend, client *recipes.Client) error {
		if o.verbose {
			a.say("waiting for %s", what)
		}
		return within(ctx, o.timeout, what, func(ctx context.Context) error { return f(ctx, b, client) })
	})
	return because(ctx, err)
}

func (a *app) barrierEnterCommand() *cobra.Command {
	o := enterOptions{}
	cmd := &cobra.Command{
		Use:   "enter NAME --count N [-- CMD ARGS...]",
		Short: "Begin together with others, and end together",
		Long: `Wait until exactly N are there, run a command, and wait until the commands of all N have ended. Who
comes late is in the next round. Who dies has left. Without a command it only waits for the
others to come. All must use the same N.

The command finds LOCKCTL_NAME, LOCKCTL_OWNER and LOCKCTL_DEADLINE in its environment. If others are
about to take this one for dead, the command's process group gets TERM, then KILL before.

Exit code: the command's own, 128+n if signal n ended it or the waiting, or
   64 bad input, or another N       76 taken for dead while the command ran
   69 service unavailable           77 access denied
   75 not all were there within --timeout, or the place in line was lost
  126 command can't be run         127 command not found`,
		Example: `  lockctl barrier enter load-test --count 5 -- ./client.sh`,
		Args:    arguments(1, 1<<10),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.set("barrier enter NAME --count N", "barrier", args, cmd.ArgsLenAtDash(), cmd.Flags().Changed); err != nil {
				return err
			}
			if err := checkCount(o.count); err != nil {
				return err
			}
			return a.enter(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.count, "count", 0, "the `NUMBER` that begin together")
	timeoutFlag(flags, &o.timeout)
	o.flags(flags, "others take this one for dead `DURATION` after it died")
	return cmd
}

// enterOptions are the flags and arguments of barrier enter.
type enterOptions struct {
	turnOptions
	count int
}

// enter does all of barrier enter.
func (a *app) enter(ctx context.Context, o enterOptions) error {
	what := fmt.Sprintf("barrier %q", o.name)
	acquire := func(ctx context.Context, t turn) (crossing *recipes.Crossing, err error) {
		barrier, err := t.client.DoubleBarrier(o.name, o.count)
		if err != nil {
			return nil, err
		}
		if o.verbose {
			a.say("waiting at %s", what)
		}
		err = within(ctx, o.timeout, what, func(ctx context.Context) error {
			crossing, err = barrier.Enter(ctx)
			return err
		})
		return crossing, err
	}
	use := func(t turn, crossing *recipes.Crossing, result error) error {
		together := result == nil && len(o.command) > 0
		if result == nil && !together && a.json() {
			result = a.writeJSON(stateJSON{namedJSON: newNamed(t.backend, t.client, o.name), State: "entered"})
		}
		if together {
			if o.verbose {
				a.say("entered %s", what)
			}
			held := tenure{Lease: crossing, what: what, env: []string{"LOCKCTL_NAME=" + o.name}}
			_, result = a.run(t, held, o.command, o.verbose)
			together = !isLost(result)
		}
		if o.verbose {
			a.say("leaving %s", what)
		}
		return leave(ctx, t, crossing, result, together)
	}
	return takeTurn(ctx, a, o.command, o.dial(), acquire, use)
}

// leave leaves a double barrier, and waits for the others if they are to end
// together. How the command ended goes before what becomes of that.
func leave(ctx context.Context, t turn, crossing *recipes.Crossing, result error, together bool) error {
	waiting, cancel := cancelOnSignal(ctx, t.signals)
	defer cancel()
	if !together {
		cancel() // it leaves all the same
	}
	err := crossing.Leave(waiting)
	switch {
	case errors.Is(err, recipes.ErrLost) && !isLost(result):
		return &exit{exitLost, err}
	case result != nil || !together:
		return result
	}
	return because(waiting, err)
}
