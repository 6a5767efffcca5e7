package cli

import (
	"context"
	"errors"
	"time"
	_ "time/tzdata" // so that --cron knows every zone on every machine

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/recipes"
)

func (a *app) jobCommand() *cobra.Command {
	o := jobOptions{}
	cmd := &cobra.Command{
		Use:   "job NAME --every DURATION|--cron EXPRESSION -- CMD [ARGS...]",
		Short: "Run a command once per tick across all machines",
		Long: `Run a command on a schedule, once per tick across all machines that run the same
lockctl job, until interrupted. The first in line runs the command; when it ends or dies, the
next one goes on. The service remembers the last tick. With --state, show what is known of
the job instead; with --reset, forget it.

The command finds LOCKCTL_TICK (the moment that the schedule names), LOCKCTL_ATTEMPT,
LOCKCTL_MISSED, LOCKCTL_NAME, LOCKCTL_TOKEN (the fencing token), LOCKCTL_OWNER and
LOCKCTL_DEADLINE in its environment, and nothing on its standard input. If the lock is about
to be lost, the command's process group gets TERM, then KILL before another can run the job.

Exit code: 0 if interrupted between ticks, the command's own if interrupted while it ran, or
   64 bad input                     77 access denied
   69 service unavailable at first  127 command not found
  126 command can't be run`,
		Example: `  lockctl job reports/daily --cron "0 3 * * *" -- ./report.sh
  lockctl job reports/daily --cron "30 2 * * *" --location Europe/Berlin --missed once -- ./report.sh
  lockctl job sync --every 5m --at-least-once -- ./sync.sh
  lockctl job sync --state`,
		Args: arguments(1, 1<<10),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.set(args, cmd.ArgsLenAtDash(), cmd.Flags().Changed); err != nil {
				return err
			}
			switch {
			case o.state:
				return a.jobState(cmd.Context(), o.name)
			case o.reset:
				return a.jobReset(cmd.Context(), o.name)
			}
			return a.runJob(cmd.Context(), o)
		},
	}
	o.flags(cmd)
	return cmd
}

// jobOptions are the flags and arguments of job.
type jobOptions struct {
	turnOptions
	state    bool
	reset    bool
	location string
	missed   string
	atLeast  bool
	job      job.Options
}

func (o *jobOptions) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&o.job.Every, "every", 0, "`DURATION` between ticks, which are multiples of it since 1970 in UTC")
	flags.StringVar(&o.job.Cron, "cron", "", "`EXPRESSION` with the fields minute, hour, day, month, weekday, and the second in front if wanted")
	flags.StringVar(&o.location, "location", "", "`ZONE` that --cron is read in, such as Europe/Berlin (default: UTC)")
	flags.BoolVar(&o.atLeast, "at-least-once", false, "run a tick again whose command failed or whose process died (default: at most once)")
	flags.IntVar(&o.job.MaxAttempts, "attempts", 0, "with --at-least-once, how many `TIMES` a tick is run at most (default: 3)")
	flags.DurationVar(&o.job.RetryPause, "retry-pause", 0, "with --at-least-once, `DURATION` from a failure to the next attempt (default: 10s)")
	flags.StringVar(&o.missed, "missed", "skip", "`POLICY` for ticks that nobody ran when they came: skip, once or each")
	flags.IntVar(&o.job.MaxMissed, "max-missed", 0, "with --missed each, how many `TICKS` to catch up with at most (default: 10)")
	flags.DurationVar(&o.job.Grace, "grace", 0, "with --missed skip, how late a tick may be that is not missed, as a `DURATION` (default: 1m)")
	flags.DurationVar(&o.job.MinHold, "min-hold", 0, "keep other processes out for `DURATION` from each start at the least")
	flags.BoolVar(&o.job.Rotate, "rotate", false, "let the next in line run the next tick")
	flags.BoolVar(&o.state, "state", false, "show the last tick, the next one, and who runs the job")
	flags.BoolVar(&o.reset, "reset", false, "forget what is known of the job, and begin with the next tick")
	o.turnOptions.flags(flags, "another runs the job `DURATION` after this one has died")
}

// set takes the arguments, of which those from dash on stood behind "--", and
// checks what can be checked before anything is sent.
func (o *jobOptions) set(args []string, dash int, given func(flag string) bool) error {
	if o.state || o.reset {
		return o.checkAlone(args, dash, given)
	}
	if err := o.turnOptions.set("job NAME --every 1h", "job", args, dash, given); err != nil {
		return err
	}
	switch {
	case len(o.command) == 0:
		return usageError("there is no command behind \"--\"")
	case given("every") && given("cron"):
		return usageError("--every and --cron exclude each other")
	case !given("every") && !given("cron"):
		return usageError("--every or --cron is needed")
	case o.location != "" && o.job.Cron == "":
		return usageError("--location needs --cron")
	}
	return o.complete(given)
}

// checkAlone checks that nothing is given that is for running a job.
func (o *jobOptions) checkAlone(args []string, dash int, given func(flag string) bool) error {
	o.name = args[0]
	mode := "--state"
	if o.reset {
		mode = "--reset"
	}
	if o.state && o.reset {
		return usageError("--state and --reset exclude each other")
	}
	for _, flag := range []string{"every", "cron", "location", "at-least-once", "attempts", "retry-pause", "missed",
		"max-missed", "grace", "min-hold", "rotate", "ttl", "label"} {
		if given(flag) {
			return usageError("%s and --%s exclude each other", mode, flag)
		}
	}
	if dash >= 0 || len(args) > 1 {
		return usageError("%s runs no command", mode)
	}
	return nil
}

// complete makes the options of the job from the flags.
func (o *jobOptions) complete(given func(flag string) bool) error {
	policies := map[string]job.Missed{"skip": job.SkipMissed, "once": job.RunOnce, "each": job.RunEach}
	var ok bool
	if o.job.Missed, ok = policies[o.missed]; !ok {
		return usageError("--missed %q is not skip, once or each", o.missed)
	}
	if o.atLeast {
		o.job.Delivery = job.AtLeastOnce
	}
	for _, positive := range []struct {
		flag  string
		value int64
		needs string
		has   bool
	}{
		{"every", int64(o.job.Every), "", true},
		{"attempts", int64(o.job.MaxAttempts), "--at-least-once", o.atLeast},
		{"retry-pause", int64(o.job.RetryPause), "--at-least-once", o.atLeast},
		{"max-missed", int64(o.job.MaxMissed), "--missed each", o.job.Missed == job.RunEach},
		{"grace", int64(o.job.Grace), "--missed skip", o.job.Missed == job.SkipMissed},
		{"min-hold", int64(o.job.MinHold), "", true},
	} {
		switch {
		case !given(positive.flag):
		case !positive.has:
			return usageError("--%s needs %s", positive.flag, positive.needs)
		case positive.value <= 0:
			return usageError("--%s is not positive", positive.flag)
		}
	}
	if o.location != "" {
		loc, err := time.LoadLocation(o.location)
		if err != nil {
			return usageError("--location: %v", err)
		}
		o.job.Location = loc
	}
	return flagError(o.job.Validate())
}

// flagError is an error of the job's options that names the flag.
func flagError(err error) error {
	var invalid *recipes.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := map[string]string{
		"Options.Every": "--every", "Options.Cron": "--cron", "Options.Location": "--location",
		"Options.MaxAttempts": "--attempts", "Options.MaxMissed": "--max-missed",
	}[invalid.Field]
	return usageError("%s %s", flag, invalid.Problem)
}

// jobState shows what is known of a job.
func (a *app) jobState(ctx context.Context, name string) error {
	return a.ask(ctx, func(ctx context.Context, b backend, client *recipes.Client) error {
		s, err := job.Look(ctx, client, name)
		switch {
		case err != nil:
			return err
		case a.json():
			return a.writeJSON(newJobStateJSON(b, client.Engine(), name, s))
		}
		return writeJobState(a.Stdout, name, s)
	})
}

// jobReset forgets what is known of a job, and waits for its holder to let go.
func (a *app) jobReset(ctx context.Context, name string) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	err := a.withClient(ctx, func(_ backend, client *recipes.Client) error {
		return job.Reset(ctx, client, name)
	})
	return because(ctx, err)
}
