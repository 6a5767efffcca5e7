package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) electCommand() *cobra.Command {
	o := electOptions{}
	cmd := &cobra.Command{
		Use:   "elect NAME [-- CMD ARGS...]",
		Short: "Run a command on the one that is elected leader",
		Long: `Wait in line until elected leader, run a command while leading, and resign when
the command and every process of its group have ended. Without a command, lead
until interrupted. With --observe, show who leads, and every change, instead.

The command finds LOCKCTL_NAME, LOCKCTL_TERM (the fencing token, which grows from leader
to leader), LOCKCTL_OWNER and LOCKCTL_DEADLINE in its environment. If the lead is about to
be lost, the command's process group gets TERM, then KILL before another can be elected.

Exit code: the command's own, 128+n if signal n ended it, or
   64 bad input                     76 lead lost
   69 service unavailable           77 access denied
   75 not elected (--timeout, or the place in line was lost)
  126 command can't be run         127 command not found`,
		Example: `  lockctl elect scheduler --value 10.0.0.7:8080 -- ./scheduler
  lockctl elect scheduler --observe
  lockctl elect scheduler --observe -o json | jq -r .value`,
		Args: arguments(1, 1<<10),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.set(args, cmd.ArgsLenAtDash(), cmd.Flags().Changed); err != nil {
				return err
			}
			if o.observe {
				return untilInterrupted(cmd.Context(), func(ctx context.Context) error { return a.observe(ctx, o.name) })
			}
			return a.elect(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.observe, "observe", false, "show who leads until interrupted, and be no candidate")
	flags.StringVar(&o.value, "value", "", "`TEXT` that observers see while this one leads, such as an address")
	flags.IntVar(&o.priority, "priority", 0, "candidates of a higher `NUMBER` are elected first; no leader is deposed")
	timeoutFlag(flags, &o.timeout)
	o.flags(flags, "another is elected `DURATION` after the leader died")
	return cmd
}

// electOptions are the flags and arguments of elect.
type electOptions struct {
	turnOptions
	observe  bool
	value    string
	priority int
}

// set takes the arguments, of which those from dash on stood behind "--", and
// checks what can be checked before anything is sent.
func (o *electOptions) set(args []string, dash int, given func(flag string) bool) error {
	if err := o.turnOptions.set("elect NAME", "election", args, dash, given); err != nil || !o.observe {
		return err
	}
	for _, flag := range []string{"value", "priority", "timeout", "ttl", "label"} {
		if given(flag) {
			return usageError("--observe and --%s exclude each other", flag)
		}
	}
	if dash >= 0 {
		return usageError("--observe runs no command")
	}
	return nil
}
