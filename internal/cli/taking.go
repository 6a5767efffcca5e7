package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/recipes"
)

func (a *app) queueTakeCommand() *cobra.Command {
	o := takeOptions{}
	cmd := &cobra.Command{
		Use:   "take NAME -- CMD [ARGS...]",
		Short: "Work on an item of a queue",
		Long: `Wait for an item of a queue, and run a command with it on standard input. If the command's exit code
is 0 the item is done and removed; after any other it is handed out again when --retry-after
has passed, or becomes a dead letter if that was the last attempt. If this worker dies it is
handed out again too. With --follow go on with the next item, until interrupted.

A string is given as it is, anything else as JSON. The command also finds it as LOCKCTL_ITEM in its
environment, if it has at most 64 KiB and no zero byte, and LOCKCTL_NAME (the queue), LOCKCTL_ID,
LOCKCTL_ATTEMPT (1 at first), LOCKCTL_TOKEN (the fencing token), LOCKCTL_OWNER and LOCKCTL_DEADLINE.

With --ack and no command, print the item and remove it once it is written.

Exit code: the command's own, 128+n if signal n ended it, or
   64 bad input                     76 item lost while it was worked on
   69 service unavailable           77 access denied
   75 no item came within --timeout
  126 command can't be run         127 command not found
With --follow: 0 when interrupted, otherwise 64, 75, 77, 126 or 127.`,
		Example: `  lockctl queue take mails -- ./send.sh
  lockctl queue take mails --follow --retry-after 5m -- ./send.sh
  lockctl queue take mails --ack`,
		Args: arguments(1, 1<<10),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.set(args, cmd.ArgsLenAtDash(), cmd.Flags().Changed); err != nil {
				return err
			}
			return a.take(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with the next item, until interrupted")
	flags.BoolVar(&o.ack, "ack", false, "without a command: print the item, then remove it")
	flags.DurationVar(&o.retryAfter, "retry-after", 30*time.Second, "hand an item out again `DURATION` after the command has failed")
	flags.IntVar(&o.maxAttempts, "max-attempts", 10, "an item that was handed out `NUMBER` times becomes a dead letter; the same for all workers")
	timeoutFlag(flags, &o.timeout)
	o.flags(flags, "an item is handed out again `DURATION` after its worker died")
	return cmd
}

// takeOptions are the flags and arguments of queue take.
type takeOptions struct {
	turnOptions
	follow      bool
	ack         bool
	retryAfter  time.Duration
	maxAttempts int
}

func (o *takeOptions) set(args []string, dash int, given func(flag string) bool) error {
	if err := o.turnOptions.set("queue take NAME", "queue", args, dash, given); err != nil {
		return err
	}
	switch {
	case len(o.command) == 0 && !o.ack:
		return usageError("put a command behind \"--\" that works on the item, or use --ack to print and remove it")
	case len(o.command) > 0 && o.ack:
		return usageError("--ack is without a command: an exit code of 0 says that the item is done")
	case o.retryAfter < 0:
		return usageError("--retry-after %v is negative", o.retryAfter)
	case o.maxAttempts < 1:
		return usageError("--max-attempts %d is less than 1", o.maxAttempts)
	}
	return nil
}

// A worker takes items and works on them.
type worker struct {
	*app
	turn
	queue *queue
	o     takeOptions
}

type item = recipes.Item[json.RawMessage]

// take does all of queue take.
func (a *app) take(ctx context.Context, o takeOptions) error {
	return a.withTurn(ctx, o.command, o.dial(), func(t turn) error {
		q, err := recipes.NewQueue[json.RawMessage](t.client, o.name, &recipes.QueueOptions{MaxAttempts: o.maxAttempts})
		if err != nil {
			return err
		}
		w := worker{app: a, turn: t, queue: q, o: o}
		if o.follow {
			return w.follow(ctx)
		}
		_, err = w.one(ctx)
		return err
	})
}

// follow works on one item after the other until it is interrupted, which is not an
// error. Failures of the command and of the service don't end it.
func (w worker) follow(ctx context.Context) error {
	for away := false; ctx.Err() == nil; {
		ending, err := w.one(ctx)
		unavailable := noAnswer(err)
		var i *interrupted
		var e *exit
		switch {
		case ending != nil, errors.As(err, &i):
			return nil
		case err == nil, errors.As(err, &e) && e.err == nil: // the command's exit code, which was told
		case unavailable && away:
		case unavailable, isLost(err):
			w.say("%v; going on", err)
		default:
			return err
		}
		if away = unavailable; away {
			idle(ctx, time.Second)
		}
	}
	return nil
}

// one waits for an item and works on it. It returns the signal that asked the
// command to end, if one came.
func (w worker) one(ctx context.Context) (ending os.Signal, err error) {
	take := func(ctx context.Context) (i *item, err error) {
		if w.o.verbose {
			w.say("waiting for an item of queue %q", w.o.name)
		}
		err = within(ctx, w.o.timeout, fmt.Sprintf("queue %q has no item to hand out", w.o.name), func(ctx context.Context) error {
			i, err = w.queue.Take(ctx)
			return err
		})
		return i, err
	}
	err = await(ctx, w.turn, take, func(i *item, signalled error) error {
		if signalled != nil {
			return w.giveBack(i, 0, signalled)
		}
		ending, err = w.work(i)
		return err
	})
	return ending, err
}

// work runs the command, or prints the item, and settles what becomes of it.
func (w worker) work(i *item) (ending os.Signal, err error) {
	if len(w.o.command) == 0 {
		if err := w.print(i); err != nil {
			return nil, w.giveBack(i, 0, err)
		}
		return nil, w.done(i)
	}
	text := plainValue(i.Value)
	input, stop, err := feed(text)
	if err != nil {
		return nil, w.giveBack(i, w.o.retryAfter, err)
	}
	defer stop()
	if w.o.verbose {
		w.say("working on item %s, attempt %d", i.ID(), i.Attempt())
	}
	ending, err = w.run(w.turn, tenure{Lease: i, what: w.what(i), env: w.env(i, text), stdin: input}, w.o.command, w.o.verbose)
	switch {
	case err == nil:
		return ending, w.done(i)
	case ending != nil: // it is not the item's fault
		return ending, w.giveBack(i, 0, err)
	}
	return nil, w.giveBack(i, w.o.retryAfter, err)
}

func (w worker) what(i *item) string { return fmt.Sprintf("item %s of queue %q", i.ID(), w.o.name) }

// mostItemInEnv bounds an item in the environment. Linux takes 128 KiB.
const mostItemInEnv = 64 << 10

func (w worker) env(i *item, text string) []string {
	env := []string{
		"LOCKCTL_NAME=" + w.o.name, "LOCKCTL_ID=" + i.ID(), "LOCKCTL_ATTEMPT=" + strconv.Itoa(i.Attempt()),
		"LOCKCTL_TOKEN=" + tokenText(i.Token()),
	}
	if len(text) <= mostItemInEnv && !strings.Contains(text, "\x00") {
		env = append(env, "LOCKCTL_ITEM="+text)
	}
	return env
}

// feed returns a file that the text can be read from, once, and what to call when
// nobody is to read it any more.
func feed(text string) (input *os.File, stop func(), err error) {
	r, pipe, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe for the item: %w", err)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		_, _ = pipe.WriteString(text) // the command need not read it
		_ = pipe.Close()
	})
	return r, func() {
		_ = r.Close()
		_ = pipe.Close() // ends the writing
		writing.Wait()
	}, nil
}

// print writes an item.
func (w worker) print(i *item) error {
	if !w.json() {
		return w.writePlain(plainValue(i.Value))
	}
	return w.writeJSON(takenJSON{
		namedJSON: newNamed(w.backend, w.client, w.o.name),
		ID:        i.ID(), Attempt: i.Attempt(), Token: tokenText(i.Token()), Value: i.Value,
	})
}

// takenJSON is what queue take writes without a command.
type takenJSON struct {
	namedJSON
	ID      string          `json:"id"`
	Attempt int             `json:"attempt"`
	Token   string          `json:"token"`
	Value   json.RawMessage `json:"value"`
}

// done removes an item that is done.
func (w worker) done(i *item) error {
	err := w.settle(i, i.Ack)
	switch {
	case errors.Is(err, recipes.ErrLost):
		return &exit{exitLost, err}
	case err == nil && w.o.verbose:
		w.say("%s is done", w.what(i))
	}
	return err
}

// giveBack returns an item because of result, which goes before what the service
// says to that: an item that can't be given back is as one whose worker has died.
func (w worker) giveBack(i *item, delay time.Duration, result error) error {
	err := w.settle(i, func(ctx context.Context) error { return i.Return(ctx, delay) })
	why := fmt.Sprintf("attempt %d", i.Attempt())
	var e *exit
	if errors.As(result, &e) && e.err == nil { // nobody else says it
		why += fmt.Sprintf(" ended with exit code %d", e.code)
	}
	switch {
	case errors.Is(err, recipes.ErrLost):
		if !isLost(result) {
			return &exit{exitLost, err}
		}
	case err != nil:
		w.say("%v", err)
	case i.Attempt() >= w.o.maxAttempts:
		w.say("%s is a dead letter now: %s", w.what(i), why)
	default:
		w.say("%s is handed out again in %v: %s", w.what(i), delay, why)
	}
	return result
}

// settle has the service told what becomes of an item. It does so until there is an
// answer, a signal comes, or the item is lost: while this process lives nobody else
// gets an item that was not settled.
func (w worker) settle(i *item, do func(context.Context) error) error {
	for told := false; ; told = true {
		ctx, cancel := context.WithTimeout(i.Context(), releaseTimeout)
		err := do(ctx)
		cancel()
		if !noAnswer(err) || len(w.signals) > 0 {
			return err
		}
		if !told && i.Context().Err() == nil {
			w.say("%v; trying again", err)
		}
		idle(i.Context(), 100*time.Millisecond)
	}
}

// noAnswer reports whether all that is wrong is that the service did not answer. It
// can be the reason of a loss too.
func noAnswer(err error) bool {
	return errors.Is(err, recipes.ErrUnavailable) && !errors.Is(err, recipes.ErrLost)
}
