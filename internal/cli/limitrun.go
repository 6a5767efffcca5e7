package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/supervise"
	"github.com/lockctl/lockctl/ratelimit"
)

func (a *app) limitRunCommand() *cobra.Command {
	o := limitRunOptions{}
	cmd := &cobra.Command{
		Use:   "run NAME -- CMD [ARGS...]",
		Short: "Run a command when a limiter lets it",
		Long: `Wait for a token of a limiter, and then run a command. With --rate, a limiter that is not
there is made first; what is stored counts otherwise. The command finds LOCKCTL_NAME in its
environment. Signals are passed on to its process group.

Exit code: the command's own, 128+n if signal n ended it, or
   64 bad input                     77 access denied
   69 service unavailable          126 command can't be run
   75 no token within --timeout    127 command not found`,
		Example: `  lockctl limit run api -- curl https://api.example.org/
  lockctl limit run mails --rate 100/m --burst 10 --timeout 30s -- ./send.sh`,
		Args: arguments(1, 1<<10),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			if err := o.set("limit run NAME", "limiter", args, cmd.ArgsLenAtDash(), given); err != nil {
				return err
			}
			if len(o.command) == 0 {
				return usageError("there is no command behind \"--\"")
			}
			options, err := o.limit.options(given, o.tokens)
			if err != nil {
				return err
			}
			return a.limitRun(cmd.Context(), o, options)
		},
	}
	flags := cmd.Flags()
	timeoutFlag(flags, &o.timeout)
	flags.Int64VarP(&o.tokens, "number", "n", 1, "how many `TOKENS` a run takes")
	flags.StringVar(&o.label, "label", "", "`TEXT` to show beside the owner")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "tell on standard error what happens")
	o.limit.flags(flags, ", if nothing is stored")
	return cmd
}

// limitRunOptions are the flags and arguments of limit run.
type limitRunOptions struct {
	turnOptions
	tokens int64
	limit  limitOptions
}

func (a *app) limitRun(ctx context.Context, o limitRunOptions, options *ratelimit.Options) error {
	options.Timeout = answerTimeout
	options.OnChange = func(_ string, c ratelimit.Config) {
		if options.Config.Rate != (ratelimit.Rate{}) {
			a.say("limiter %q: %s with a burst of %d is stored, and counts", o.name, c.Rate, c.Burst)
		}
	}
	return takeTurn(ctx, a, o.command, o.dial(), func(ctx context.Context, t turn) (bool, error) {
		return true, a.limitWait(ctx, t, o, options)
	}, func(t turn, _ bool, signalled error) error {
		if signalled != nil {
			return signalled
		}
		return a.runFreely(t, o.command, []string{"LOCKCTL_NAME=" + o.name}, o.verbose)
	})
}

// limitWait waits for the tokens of a run.
func (a *app) limitWait(ctx context.Context, t turn, o limitRunOptions, options *ratelimit.Options) error {
	l, err := ratelimit.New(t.client, o.name, options)
	if err != nil {
		return err
	}
	err = within(ctx, o.timeout, "limiter \""+o.name+"\"", func(ctx context.Context) error {
		_, err := l.WaitN(ctx, "", o.tokens)
		return err
	})
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if closeErr := l.Close(closing); closeErr != nil {
		a.say("%v", closeErr)
	}
	if errors.Is(err, ratelimit.ErrUnset) {
		return unsetLimit(o.name)
	}
	return err
}

// freely is a lease that is not lost.
type freely struct{}

func (freely) Context() context.Context { return context.Background() }
func (freely) Deadline() time.Time      { return time.Now().AddDate(100, 0, 0) }

// endGrace is how long a command that nothing is held for may take to end after a signal.
const endGrace = 10 * time.Second

// runFreely runs a command that is not ended because something is lost.
func (a *app) runFreely(t turn, command, env []string, verbose bool) error {
	inherited := slices.DeleteFunc(slices.Clone(a.Env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return ofTenure(name)
	})
	c := supervise.Command{
		Path: t.path, Args: command, Env: append(inherited, env...), Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr,
		Signals: t.signals, Grace: endGrace, Note: func(what string) { a.say("%s", what) },
	}
	if verbose {
		c.Trace = c.Note
	}
	result, err := supervise.Run(freely{}, c)
	switch {
	case err != nil:
		return cannotRun(command[0], err)
	case result.Code != 0:
		return &exit{code: result.Code}
	}
	return nil
}
