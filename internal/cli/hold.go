package cli

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) holdCommand() *cobra.Command {
	o := holdOptions{}
	cmd := &cobra.Command{
		Use:   "hold NAME... [-- CMD ARGS...]",
		Short: "Hold a lock while a command runs",
		Long: `Wait in line for a lock, run a command while it is held, and release it when
the command and every process of its group have ended. Without a command, hold
the lock until interrupted. With several names, which need a command, hold all of
the locks or none. With --permits or --limit the lock is a semaphore, of which
holders take a part each.

The command finds LOCKCTL_NAME, LOCKCTL_TOKEN (the fencing token), LOCKCTL_OWNER and
LOCKCTL_DEADLINE in its environment, and LOCKCTL_NAMES and LOCKCTL_TOKENS, a line for each
lock; with several names it finds only those. If a lock is about to be lost, the command's
process group gets TERM, then KILL before the lock can be given to another.

Exit code: the command's own, 128+n if signal n ended it, or
   64 bad input                     76 lock lost while it was held
   69 service unavailable           77 access denied
   75 not acquired (--try, --timeout, or the place in line was lost)
  126 command can't be run         127 command not found`,
		Example: `  lockctl hold jobs/daily -- ./backup.sh
  lockctl hold jobs/daily --try -- ./backup.sh || echo "runs elsewhere"
  lockctl hold deploy --timeout 10m --label "release 1.4" -- make deploy
  lockctl hold --shared index -- ./search.sh
  lockctl hold --limit 4 gpus -n 2 -- ./train.sh
  lockctl hold accounts/ann accounts/bob -- ./transfer.sh`,
		Args: arguments(1, 1<<10),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.set(args, cmd.ArgsLenAtDash(), cmd.Flags().Changed); err != nil {
				return err
			}
			return a.hold(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.try, "try", false, "give up at once if someone else holds the lock")
	timeoutFlag(flags, &o.timeout)
	o.flags(flags, "the lock frees itself `DURATION` after its holder died")
	flags.BoolVar(&o.shared, "shared", false, "hold it together with others that say --shared")
	flags.IntVarP(&o.permits, "permits", "n", 1, "take `NUMBER` of the permits of a semaphore")
	flags.IntVar(&o.limit, "limit", 0, "the `NUMBER` of permits that all holders have together at most; the first use needs it\n"+
		"(default: the one that is stored)")
	flags.DurationVar(&o.minHold, "min-hold", 0, "keep others out for `DURATION` at the least, also if the command ends earlier")
	flags.DurationVar(&o.maxHold, "max-hold", 0, "lose the lock after `DURATION`, and end the command in time")
	flags.BoolVar(&o.releaseWhenAsked, "release-when-asked", false, "end the command with TERM, and release, when someone asks (lockctl ask)")
	return cmd
}

// holdOptions are the flags and arguments of hold.
type holdOptions struct {
	turnOptions          // but for name
	names       []string // sorted
	try         bool
	shared      bool
	semaphore   bool          // it has permits
	permits     int           //
	limit       int           // 0: the one that is stored
	minHold     time.Duration // 0: none
	maxHold     time.Duration // 0: none

	releaseWhenAsked bool
}

// set takes the arguments, of which those from dash on stood behind "--", and
// checks what can be checked before anything is sent.
func (o *holdOptions) set(args []string, dash int, given func(flag string) bool) error {
	o.names = slices.Sorted(slices.Values(args[:max(dash, 1)]))
	o.semaphore = given("permits") || given("limit")
	several := len(o.names) > 1
	if several {
		args, dash = args[dash-1:], 1
	}
	if err := o.turnOptions.set("hold NAME", "lock", args, dash, given); err != nil {
		return err
	}
	for i := range o.names[1:] {
		if o.names[i] == o.names[i+1] {
			return usageError("lock %q is named twice", o.names[i])
		}
	}
	switch {
	case given("timeout") && o.try:
		return usageError("--try and --timeout exclude each other")
	case o.semaphore && o.shared:
		return usageError("--shared excludes --permits and --limit")
	case o.semaphore && several:
		return usageError("--permits and --limit are for one name")
	case given("permits") && o.permits < 1:
		return usageError("--permits %d is less than 1", o.permits)
	case given("limit") && o.limit < o.permits:
		return usageError("--limit %d is less than the %s", o.limit, count(o.permits, "permit"))
	case given("min-hold") && o.minHold <= 0:
		return usageError("--min-hold %v is not positive", o.minHold)
	case given("max-hold") && o.maxHold < leastTTL:
		return usageError("--max-hold %v is less than %v", o.maxHold, leastTTL)
	case given("max-hold") && o.minHold > o.maxHold:
		return usageError("--min-hold %v is more than --max-hold %v", o.minHold, o.maxHold)
	}
	return nil
}
