package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

func (a *app) breakCommand() *cobra.Command {
	var reason, entry string
	var yes bool
	cmd := &cobra.Command{
		Use:   "break NAME --reason TEXT",
		Short: "Take a lock from its holder",
		Long: `Show who holds a lock, ask for its name to be typed, and take the lock from the
one that was shown: its hold is lost, and it is told who did that and why. If the lock
has changed hands meanwhile, nothing is done.

A holder that can't be reached may go on working until it looks at its lock. Only what
checks the lock's token refuses such work. To ask for a release instead, see lockctl ask.
In a store of leases, such as a database, the holder is not told who did it and why, and
learns of it when it next renews its lease.

Exit code: 75 if the lock has changed hands, nobody holds it, or it was not confirmed.`,
		Example: `  lockctl break jobs/daily --reason "db-1 hangs"
  lockctl break jobs/daily --reason "db-1 hangs" --yes
  lockctl break jobs/daily --reason "queued twice" --entry 694d9a1c2f3e4b11-1`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case reason == "":
				return usageError("--reason is needed: the holder is told why")
			case !yes && !isTerminal(a.Stdin):
				return usageError("there is no terminal to confirm at: use --yes")
			}
			return a.breakLock(cmd.Context(), args[0], reason, entry, yes)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&reason, "reason", "", "`TEXT` that the holder is told")
	flags.StringVar(&entry, "entry", "", "the `ID` of the entry to remove, of a holder or a waiter, as lockctl show -o json writes it\n"+
		"(default: the holder; needed if several hold the lock)")
	flags.BoolVar(&yes, "yes", false, "don't ask for confirmation")
	return cmd
}

// breakLock does all of the break command. Each question to the service is asked
// in bounded time; the person who confirms takes as long as it takes.
func (a *app) breakLock(ctx context.Context, name, reason, id string, yes bool) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	err := a.withService(ctx, func(b backend, client service) error {
		asking, done := context.WithTimeout(ctx, answerTimeout)
		defer done()
		lock, err := client.Lock(asking, name)
		if err != nil {
			return err
		}
		entry, err := chosen(lock, id)
		if err != nil {
			return err
		}
		if err := a.confirm(ctx, lock, entry, yes); err != nil {
			return err
		}
		breaking, done := context.WithTimeout(ctx, answerTimeout+releaseTimeout)
		defer done()
		err = breakEntry(breaking, client, name, entry, reason)
		if errors.Is(err, recipes.ErrConflict) {
			return &exit{exitNotAcquired, fmt.Errorf("lock %q has changed hands; nothing was done", name)}
		}
		if err != nil || !a.json() {
			return err
		}
		return a.writeJSON(newBrokenJSON(b, client.Engine(), name, reason, entry))
	})
	return because(ctx, err)
}

// breakEntry breaks a lock as the service does it. A store of leases tells nobody the
// reason.
func breakEntry(ctx context.Context, s service, name string, entry recipes.Entry, reason string) error {
	switch c := s.(type) {
	case interface {
		Break(context.Context, string, recipes.Entry, string) error
	}:
		return c.Break(ctx, name, entry, reason)
	case interface {
		Break(context.Context, string, recipes.Entry) error
	}:
		return c.Break(ctx, name, entry)
	}
	return usageError("locks of %s can't be broken", s.Engine())
}

// chosen is the entry with the ID, or the only holder.
func chosen(lock recipes.Object, id string) (recipes.Entry, error) {
	holders := lock.Holders()
	if id != "" {
		i := slices.IndexFunc(lock.Entries, func(e recipes.Entry) bool { return e.ID == id })
		if i < 0 {
			return recipes.Entry{}, &exit{exitNotAcquired, fmt.Errorf("lock %q has no entry %q", lock.Name, id)}
		}
		return lock.Entries[i], nil
	}
	switch len(holders) {
	case 0:
		return recipes.Entry{}, &exit{exitNotAcquired, fmt.Errorf("nobody holds lock %q", lock.Name)}
	case 1:
		return holders[0], nil
	}
	var ids []string
	for _, e := range holders {
		ids = append(ids, fmt.Sprintf("%s (%s)", e.ID, who(e)))
	}
	return recipes.Entry{}, usageError("%d hold lock %q: choose one with --entry: %s", len(holders), lock.Name, strings.Join(ids, ", "))
}

// confirm shows who is about to lose the lock, and has the name typed.
func (a *app) confirm(ctx context.Context, lock recipes.Object, entry recipes.Entry, yes bool) error {
	part := "waits for"
	for _, e := range lock.Holders() {
		if e.ID == entry.ID {
			part = "holds"
		}
	}
	a.say("%s %s lock %q, queued since %s, entry %s", who(entry), part, lock.Name, moment(entry.Since), entry.ID)
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(a.Stderr, "Type the name of the lock to break it (%s): ", termtext.Escape(lock.Name))
	typed := make(chan string, 1)
	go func() { // it ends with the input, or with the process
		line, _ := bufio.NewReader(io.LimitReader(a.Stdin, 4096)).ReadString('\n')
		typed <- strings.TrimRight(line, "\r\n")
	}()
	select {
	case line := <-typed:
		if line != lock.Name {
			return &exit{exitNotAcquired, fmt.Errorf("lock %q: that is not its name; nothing was done", lock.Name)}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// brokenJSON is what break writes.
type brokenJSON struct {
	Backend string    `json:"backend"`
	Engine  string    `json:"engine"`
	Name    string    `json:"name"`
	Reason  string    `json:"reason"`
	Entry   entryJSON `json:"entry"`
}

func newBrokenJSON(b backend, engine, name, reason string, e recipes.Entry) brokenJSON {
	return brokenJSON{Backend: b.name(), Engine: engine, Name: name, Reason: reason, Entry: newEntryJSON(e)}
}
