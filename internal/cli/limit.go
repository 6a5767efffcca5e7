package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

func (a *app) limitCommand() *cobra.Command {
	return family("limit", "Rate limits that all processes share",
		`Rate limits that all processes on all machines share: so many tokens in so much time, of which
up to a burst wait to be used. Programs use them through the package ratelimit; scripts take
tokens with take, or run a command for each with run.`,
		a.limitSetCommand(), a.limitShowCommand(), a.limitListCommand(), a.limitTakeCommand(), a.limitRunCommand(), a.limitRemoveCommand())
}

// limitOptions are the flags that say what a limiter allows.
type limitOptions struct {
	rate   string
	burst  int64
	slack  int64
	policy string
	mode   string
	period time.Duration
}

func (o *limitOptions) flags(flags *pflag.FlagSet, or string) {
	flags.StringVar(&o.rate, "rate", "", "`RATE` such as 100/s, 5/10m or 1000/h"+or)
	flags.Int64Var(&o.burst, "burst", 0, "how many `TOKENS` can wait to be used, which are admitted beside the rate (default: a second's)")
	flags.Int64Var(&o.slack, "slack", 0, "by how many `TOKENS` burst and rate may be exceeded in some window, for fewer commits (default: 0)")
	flags.StringVar(&o.policy, "policy", "", "bucket, or window: no more than the rate's tokens in any window of its time (default: bucket)")
	flags.StringVar(&o.mode, "mode", "", "leased: processes take tokens for the time to come; exact: a commit for each decision (default: leased)")
	flags.DurationVar(&o.period, "period", 0, "for what `DURATION` a process takes tokens at a time (default: 1s)")
}

// names are the flags that are given.
func (o *limitOptions) given(given func(flag string) bool) bool {
	for _, flag := range []string{"rate", "burst", "slack", "policy", "mode", "period"} {
		if given(flag) {
			return true
		}
	}
	return false
}

// change makes a configuration of another and the flags that are given.
func (o *limitOptions) change(c ratelimit.Config, given func(flag string) bool) (ratelimit.Config, error) {
	if given("rate") {
		rate, err := ratelimit.ParseRate(o.rate)
		if err != nil {
			return c, limitFlag(err)
		}
		if c.Rate != rate && !given("burst") {
			c.Burst = 0
		}
		c.Rate = rate
	}
	if given("policy") {
		c.Policy = ratelimit.Policy(o.policy)
		if c.Policy == ratelimit.Window && !given("burst") {
			c.Burst = 0
		}
	}
	for flag, set := range map[string]func(){
		"burst": func() { c.Burst = o.burst }, "slack": func() { c.Slack = o.slack },
		"mode": func() { c.Mode = ratelimit.Mode(o.mode) }, "period": func() { c.Period = o.period },
	} {
		if given(flag) {
			set()
		}
	}
	switch {
	case given("burst") && o.burst < 1:
		return c, usageError("--burst %d is less than 1", o.burst)
	case c.Rate == ratelimit.Rate{}:
		return c, usageError("--rate is needed")
	}
	return c, limitFlag(c.Validate())
}

// limitFlag is an error of a configuration that names the flag.
func limitFlag(err error) error {
	var invalid *recipes.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	flag, ok := map[string]string{
		"rate": "--rate", "Config.Rate": "--rate", "Config.Burst": "--burst", "Config.Slack": "--slack", "Config.Policy": "--policy",
		"Config.Mode": "--mode", "Config.Period": "--period",
	}[invalid.Field]
	if !ok {
		return err
	}
	return usageError("%s %s", flag, invalid.Problem)
}

func (a *app) limitSetCommand() *cobra.Command {
	o := limitOptions{}
	cmd := &cobra.Command{
		Use:   "set NAME --rate RATE [--burst TOKENS]",
		Short: "Store what a limiter allows, or change it",
		Long: `Store what a limiter allows, or change it while it is used. Processes follow within a second.
What is not given stays as it is; with another rate, the burst becomes that of a second
unless it is given.

The limiter NAME/KEY is that of a key, and follows NAME until it is set itself.`,
		Example: `  lockctl limit set api --rate 100/s --burst 20
  lockctl limit set api --rate 200/s
  lockctl limit set sms --rate 17/30s --policy window`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			if !o.given(given) {
				return usageError("nothing is given to set; see %s --help", cmd.CommandPath())
			}
			if given("rate") {
				if _, err := o.change(ratelimit.Config{}, given); err != nil {
					return err
				}
			}
			return a.ask(cmd.Context(), func(ctx context.Context, b backend, client *recipes.Client) error {
				before, err := ratelimit.Look(ctx, client, args[0])
				if err != nil {
					return err
				}
				config, err := o.change(before.Config, given)
				if err != nil {
					return err
				}
				s, err := ratelimit.Set(ctx, client, args[0], config)
				if err != nil || !a.json() {
					return err
				}
				return a.writeJSON(newLimiterJSON(newNamed(b, client, args[0]), s))
			})
		},
	}
	o.flags(cmd.Flags(), "")
	return cmd
}

func (a *app) limitShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a limiter: what it allows, and who has tokens",
		Long: `Show what a limiter allows, how many tokens are there, and which processes have taken some that they may
not have spent.

Exit code: 75 if nothing is stored.`,
		Example: `  lockctl limit show api`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, b backend, client *recipes.Client) error {
				s, err := ratelimit.Look(ctx, client, args[0])
				switch {
				case err != nil:
					return err
				case !s.Set:
					return unsetLimit(args[0])
				case a.json():
					return a.writeJSON(newLimiterJSON(newNamed(b, client, args[0]), s))
				}
				return writeLimiter(a.Stdout, args[0], s)
			})
		},
	}
}

func unsetLimit(name string) error {
	return &exit{exitNotAcquired, fmt.Errorf("limiter %q: %w; lockctl limit set makes one", name, ratelimit.ErrUnset)}
}

func (a *app) limitListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the limiters",
		Example: `  lockctl limit ls
  lockctl limit ls api/ -o json`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, b backend, client *recipes.Client) error {
				filter := recipes.Filter{Kinds: []recipes.Kind{recipes.KindLimiter}, Prefix: argument(args)}
				objects, err := client.Objects(ctx, filter)
				if err != nil {
					return err
				}
				return a.writeLimiters(b, client, objects)
			})
		},
	}
}

func (a *app) limitRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Forget a limiter",
		Long: `Forget what a limiter allows, and who has tokens. Programs that use it and say what it should allow make it
anew, with all of its burst. A limiter that is not there is no error.`,
		Example: `  lockctl limit rm api/ann`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, _ backend, client *recipes.Client) error {
				return ratelimit.Remove(ctx, client, args[0])
			})
		},
	}
}

func (a *app) limitTakeCommand() *cobra.Command {
	o := limitOptions{}
	var n int64
	cmd := &cobra.Command{
		Use:   "take NAME",
		Short: "Take tokens if they are there",
		Long: `Take tokens of a limiter if they are there, by one commit, and exit with 0; or with 75 if they are
not. With --rate, a limiter that is not there is made first; what is stored counts otherwise.`,
		Example: `  lockctl limit take api && curl https://api.example.org/
  lockctl limit take sms -n 3 --rate 17/30s --policy window`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := o.options(cmd.Flags().Changed, n)
			if err != nil {
				return err
			}
			return a.ask(cmd.Context(), func(ctx context.Context, b backend, client *recipes.Client) error {
				return a.limitTake(ctx, b, client, args[0], n, options)
			})
		},
	}
	cmd.Flags().Int64VarP(&n, "number", "n", 1, "how many `TOKENS`")
	o.flags(cmd.Flags(), ", if nothing is stored")
	return cmd
}

// options are those of a limiter that is made from the flags, if any is given.
func (o *limitOptions) options(given func(flag string) bool, n int64) (*ratelimit.Options, error) {
	if n < 1 {
		return nil, usageError("--number %d is less than 1", n)
	}
	if !o.given(given) {
		return &ratelimit.Options{}, nil
	}
	config, err := o.change(ratelimit.Config{}, given)
	return &ratelimit.Options{Config: config}, err
}

func (a *app) limitTake(ctx context.Context, b backend, client *recipes.Client, name string, n int64, o *ratelimit.Options) error {
	d, err := ratelimit.Take(ctx, client, name, n, o)
	switch {
	case errors.Is(err, ratelimit.ErrUnset):
		return unsetLimit(name)
	case err != nil:
		return err
	}
	if a.json() {
		if err := a.writeJSON(newDecisionJSON(newNamed(b, client, name), n, d)); err != nil {
			return err
		}
		if !d.OK {
			return &exit{code: exitNotAcquired}
		}
		return nil
	}
	switch {
	case d.OK:
		return nil
	case d.RetryAfter == ratelimit.Never:
		return &exit{exitNotAcquired, fmt.Errorf("limiter %q: there are never more than %s", name, count(int(d.Limit), "token"))}
	}
	return &exit{exitNotAcquired, fmt.Errorf("limiter %q: %d of %s are there; try again after %v",
		name, d.Remaining, count(int(n), "token"), d.RetryAfter.Round(time.Millisecond))}
}
