package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	leastTTL = time.Second
	mostTTL  = 24 * time.Hour
)

// turnOptions are what the commands have in common that run another while they
// have something.
type turnOptions struct {
	name    string
	command []string      // empty: none
	timeout time.Duration // 0: wait for ever
	ttl     time.Duration // 0: the backend's
	label   string
	verbose bool
}

// flags adds the flags but timeout. ttl says what happens after that time.
func (o *turnOptions) flags(flags *pflag.FlagSet, ttl string) {
	flags.DurationVar(&o.ttl, "ttl", 0, ttl+"\n(default: the backend URL's ttl, else 15s)")
	flags.StringVar(&o.label, "label", "", "`TEXT` to show beside the owner")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "tell on standard error what happens")
}

func timeoutFlag(flags *pflag.FlagSet, timeout *time.Duration) {
	flags.DurationVar(timeout, "timeout", 0, "give up waiting after `DURATION`, such as 30s (default: never)")
}

// set takes the arguments, of which those from dash on stood behind "--", and
// checks what can be checked before anything is sent. usage is the command's, such
// as "hold NAME", and what its name is of, such as "lock".
func (o *turnOptions) set(usage, what string, args []string, dash int, given func(flag string) bool) error {
	o.name, o.command = args[0], args[1:]
	switch {
	case dash == 0:
		return usageError("the %s's name stands in front of \"--\": lockctl %s -- CMD", what, usage)
	case dash < 0 && len(o.command) > 0, dash > 1:
		return usageError("put \"--\" between the %s's name and the command: lockctl %s -- CMD", what, usage)
	case dash == 1 && len(o.command) == 0:
		return usageError("there is no command behind \"--\"")
	case given("ttl") && (o.ttl < leastTTL || o.ttl > mostTTL):
		return usageError("--ttl %v is not between %v and 24h", o.ttl, leastTTL)
	}
	return checkTimeout(o.timeout, given)
}

func checkTimeout(timeout time.Duration, given func(flag string) bool) error {
	if given("timeout") && timeout <= 0 {
		return usageError("--timeout %v is not positive", timeout)
	}
	return nil
}

// dial is how to connect for the turn.
func (o *turnOptions) dial() dialOptions {
	return dialOptions{ttl: o.ttl, owner: owner(o.command, o.label)}
}

// family is a command that is nothing without one of its subcommands.
func family(use, short, long string, members ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(members...)
	return cmd
}

// noArguments is for commands that have subcommands.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("unknown command %q; see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}
