package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/recipes"
)

func (a *app) latchCommand() *cobra.Command {
	return family("latch", "Wait until something has happened a number of times",
		`A latch is closed until it was counted down as often as it says, and then open for good. It stays
when those who use it are gone. All must use the same --count.`,
		a.latchDownCommand(), a.latchWaitCommand(), a.latchRmCommand())
}

func (a *app) latchDownCommand() *cobra.Command {
	count := 0
	cmd := &cobra.Command{
		Use:     "down NAME --count N",
		Short:   "Count a latch down by one",
		Long:    `Count a latch down by one, and print how often it has to be counted down still.`,
		Example: `  lockctl latch down migrated/shards --count 16`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkCount(count); err != nil {
				return err
			}
			return a.ask(cmd.Context(), func(ctx context.Context, b backend, client *recipes.Client) error {
				latch, err := client.Latch(args[0], count)
				if err != nil {
					return err
				}
				left, err := latch.CountDown(ctx)
				if err != nil {
					return err
				}
				if a.json() {
					return a.writeLatch(b, client, args[0], left)
				}
				_, err = fmt.Fprintln(a.Stdout, left)
				return err
			})
		},
	}
	cmd.Flags().IntVar(&count, "count", 0, "how `OFTEN` it is counted down until it opens")
	return cmd
}

func (a *app) latchWaitCommand() *cobra.Command {
	count := 0
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait NAME --count N",
		Short: "Wait until a latch is open",
		Long: `Wait until a latch was counted down as often as it says.

Exit code: 75 if it was not open after --timeout.`,
		Example: `  lockctl latch wait migrated/shards --count 16 && ./switch-over`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkCount(count); err != nil {
				return err
			}
			return a.wait(cmd, o, fmt.Sprintf("latch %q", args[0]), func(ctx context.Context, b backend, client *recipes.Client) error {
				latch, err := client.Latch(args[0], count)
				if err != nil {
					return err
				}
				if err := latch.Wait(ctx); err != nil || !a.json() {
					return err
				}
				return a.writeLatch(b, client, args[0], 0)
			})
		},
	}
	cmd.Flags().IntVar(&count, "count", 0, "how `OFTEN` it is counted down until it opens")
	o.flags(cmd.Flags())
	return cmd
}

func (a *app) latchRmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove an open latch",
		Long: `Remove an open latch, so that its name can be used again.

Exit code: 75 if it is not open.`,
		Example: `  lockctl latch rm migrated/shards`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, _ backend, client *recipes.Client) error {
				latch, err := client.Latch(args[0], 1) // the count does not matter for that
				if err != nil {
					return err
				}
				return conflicting(latch.Remove(ctx))
			})
		},
	}
}

// writeLatch writes a latch as JSON.
func (a *app) writeLatch(b backend, client *recipes.Client, name string, left int) error {
	state := stateJSON{namedJSON: newNamed(b, client, name), State: "closed", Left: &left}
	if left == 0 {
		state.State = "open"
	}
	return a.writeJSON(state)
}

func checkCount(count int) error {
	if count < 1 {
		return usageError("--count is needed, a number of 1 or more")
	}
	return nil
}
