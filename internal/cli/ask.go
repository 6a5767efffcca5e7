package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/recipes"
)

func (a *app) askCommand() *cobra.Command {
	var reason string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "ask NAME --reason TEXT",
		Short: "Ask the holder of a lock to release it",
		Long: `Ask those who hold a lock to release it, and wait until they have done so. What they
do about it is up to them: lockctl hold tells it on standard error, and releases the lock if it
was started with --release-when-asked. If nobody holds the lock there is nothing to wait for.

Exit code: 75 if it was not released within --timeout.`,
		Example: `  lockctl ask deploy --reason "an urgent fix" --timeout 1m`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError("--reason is needed: the holder is told why")
			}
			if err := checkTimeout(timeout, cmd.Flags().Changed); err != nil {
				return err
			}
			return a.askHolders(cmd.Context(), args[0], reason, timeout)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that the holder is told")
	timeoutFlag(cmd.Flags(), &timeout)
	return cmd
}

// askHolders does all of the ask command.
func (a *app) askHolders(ctx context.Context, name, reason string, timeout time.Duration) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	err := a.withClient(ctx, func(_ backend, client *recipes.Client) error {
		asking := ctx
		if timeout > 0 {
			var done context.CancelFunc
			asking, done = context.WithTimeout(ctx, timeout)
			defer done()
		}
		err := client.Ask(asking, name, reason)
		var held *recipes.HeldError
		if errors.As(err, &held) && errors.Is(err, context.DeadlineExceeded) {
			return &exit{exitNotAcquired, fmt.Errorf("lock %q: not released within %v by %s", name, timeout, held.Holder)}
		}
		return err
	})
	return because(ctx, err)
}

// heed tells when someone asks for one of the locks to be released, until stop is
// called. If the options say so it asks lockctl to end then, as a TERM would; that
// and what comes from signals arrives in the channel that it returns.
func (a *app) heed(t turn, g grip, o holdOptions) (signals <-chan os.Signal, stop func()) {
	out, end := make(chan os.Signal, cap(t.signals)+len(g.holds)), make(chan struct{})
	pass := func(sig os.Signal) {
		select {
		case out <- sig:
		case <-end:
		}
	}
	var heeding sync.WaitGroup
	heeding.Go(func() {
		for {
			select {
			case sig := <-t.signals:
				pass(sig)
			case <-end:
				return
			}
		}
	})
	for _, held := range g.holds {
		hold, ok := held.(*recipes.Hold)
		if !ok {
			continue // it can't be asked
		}
		heeding.Go(func() {
			asked := hold.Asked()
			for {
				select {
				case r := <-asked:
					if o.releaseWhenAsked {
						pass(syscall.SIGTERM)
						asked = nil // once is enough
					}
					a.sayAsked(t, hold, o, r) // last: it may block
				case <-end:
					return
				}
			}
		})
	}
	return out, func() {
		close(end)
		heeding.Wait()
	}
}

func (a *app) sayAsked(t turn, hold *recipes.Hold, o holdOptions, r recipes.Request) {
	a.say("%s asks to release lock %q: %s", r.By, hold.Name(), r.Why)
	if !a.json() || len(o.command) > 0 {
		return
	}
	by := ownerJSON(r.By)
	_ = a.writeJSON(eventJSON{ // the next one that can't be written is told
		Event: "asked", Time: time.Now().UTC(), Backend: t.backend.name(), Engine: t.service.Engine(),
		Name: hold.Name(), Token: tokenText(hold.Token()), By: &by, Reason: r.Why,
	})
}
