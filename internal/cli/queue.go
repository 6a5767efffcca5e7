package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/recipes"
)

type (
	queue      = recipes.Queue[json.RawMessage]
	queuedItem = recipes.QueuedItem[json.RawMessage]
)

func (a *app) queueCommand() *cobra.Command {
	return family("queue", "Hand out work, each item to one worker at a time",
		`A queue hands out items of work. Each goes to one worker at a time, which acknowledges it or gives
it back; one whose worker dies is handed out again. An item that has failed too often becomes
a dead letter, which stays until it is removed or put back.`,
		a.queuePutCommand(), a.queueTakeCommand(), a.queueLsCommand(),
		a.deadLettersCommand("rm", "Remove dead letters", (*queue).Remove),
		a.deadLettersCommand("requeue", "Hand dead letters out again, with no attempt counted", (*queue).Revive))
}

// withQueue asks something about a queue once.
func (a *app) withQueue(ctx context.Context, name string, f func(context.Context, namedJSON, *queue) error) error {
	return a.ask(ctx, func(ctx context.Context, b backend, client *recipes.Client) error {
		q, err := recipes.NewQueue[json.RawMessage](client, name, nil)
		if err != nil {
			return err
		}
		return f(ctx, newNamed(b, client, name), q)
	})
}

func (a *app) queuePutCommand() *cobra.Command {
	var o recipes.PutOptions
	cmd := &cobra.Command{
		Use:   "put NAME VALUE|-",
		Short: "Put an item into a queue",
		Long: `Put an item into a queue, and print its ID. A VALUE that is JSON is stored as that, and any other
as a string; "-" reads it from standard input. While the queue has an item of the same --id,
also as a dead letter, nothing is added.`,
		Example: `  lockctl queue put mails '{"to": "ann@example.org"}'
  lockctl queue put reports --id 2026-03 --delay 1h --priority 5 - <request.txt`,
		Args: values("queue put NAME VALUE|-", 2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.Delay < 0:
				return usageError("--delay %v is negative", o.Delay)
			case cmd.Flags().Changed("id") && o.ID == "":
				return usageError("--id is empty")
			}
			value, err := a.readValue(args[1])
			if err != nil {
				return err
			}
			return a.withQueue(cmd.Context(), args[0], func(ctx context.Context, named namedJSON, q *queue) error {
				id, err := q.Put(ctx, value, &o)
				if err != nil {
					return err
				}
				if a.json() {
					return a.writeJSON(putJSON{named, id})
				}
				return a.writePlain(id)
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Priority, "priority", 0, "items of a higher `NUMBER` are handed out first")
	flags.DurationVar(&o.Delay, "delay", 0, "don't hand it out before `DURATION` has passed")
	flags.StringVar(&o.ID, "id", "", "name the item `ID` (default: a new one)")
	return cmd
}

// putJSON is what queue put writes.
type putJSON struct {
	namedJSON
	ID string `json:"id"`
}

func (a *app) queueLsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls NAME",
		Short: "List the items of a queue",
		Long: `List the items of a queue in the order in which they are handed out, and then its dead letters: which
are ready, which are delayed, who works on which, and why the dead are dead.`,
		Example: `  lockctl queue ls mails
  lockctl queue ls mails -o json | jq -r 'select(.state == "dead").id'`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withQueue(cmd.Context(), args[0], func(ctx context.Context, named namedJSON, q *queue) error {
				items, err := q.List(ctx)
				if err != nil {
					return err
				}
				dead, err := q.DeadLetters(ctx)
				if err != nil {
					return err
				}
				return a.writeItems(named, append(items, dead...), time.Now())
			})
		},
	}
}

func (a *app) writeItems(named namedJSON, items []queuedItem, now time.Time) error {
	if a.json() {
		for _, item := range items {
			if err := a.writeJSON(itemJSON{named, statejson.NewItem(&item.ItemInfo, now), item.Raw}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		if isTerminal(a.Stdout) {
			a.say("queue %q is empty", named.Name)
		}
		return nil
	}
	var state recipes.QueueState
	for i := range items {
		state.Items = append(state.Items, &items[i].ItemInfo)
	}
	table := itemsTable(state, now)
	table.Header, table.Right = append(table.Header, "VALUE"), append(table.Right, false)
	for i, item := range items {
		table.Rows[i] = append(table.Rows[i], cell(plainValue(item.Raw)))
	}
	return table.Write(a.Stdout)
}

// itemJSON is an item of a queue as ls shows it.
type itemJSON struct {
	namedJSON
	statejson.Item
	Value json.RawMessage `json:"value,omitempty"`
}

// deadLettersCommand does something with dead letters.
func (a *app) deadLettersCommand(use, short string, settle func(*queue, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use + " NAME ID...",
		Short: short,
		Long: short + `, which lockctl queue ls shows.

Exit code: 75 if the queue has no dead letter of one of the IDs; those before it are done.`,
		Example: `  lockctl queue ls mails -o json | jq -r 'select(.state == "dead").id' | xargs -r lockctl queue ` + use + ` mails`,
		Args:    values("queue "+use+" NAME ID...", 2, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.settle(cmd.Context(), args[0], args[1:], settle)
		},
	}
}

// settle does something with each of the IDs, and gives each its time.
func (a *app) settle(ctx context.Context, name string, ids []string, settle func(*queue, context.Context, string) error) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	err := a.withClient(ctx, func(_ backend, client *recipes.Client) error {
		q, err := recipes.NewQueue[json.RawMessage](client, name, nil)
		if err != nil {
			return err
		}
		for _, id := range ids {
			asking, done := context.WithTimeout(ctx, answerTimeout)
			err := settle(q, asking, id)
			done()
			if err != nil {
				return conflicting(err)
			}
		}
		return nil
	})
	return because(ctx, err)
}
