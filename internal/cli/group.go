package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

func (a *app) groupCommand() *cobra.Command {
	return family("group", "Be a member of a group, and see who is",
		`A group is a set of members that are alive, each with whatever it wants the others to know. One that
dies is a member no more when its TTL has passed.`,
		a.groupJoinCommand(), a.groupLsCommand(), a.groupWatchCommand())
}

func (a *app) groupJoinCommand() *cobra.Command {
	o := joinOptions{}
	cmd := &cobra.Command{
		Use:   "join NAME [-- CMD ARGS...]",
		Short: "Be a member of a group while a command runs",
		Long: `Join a group, run a command, and leave when the command and every process of its group have ended.
Without a command, be a member until interrupted.

The command finds LOCKCTL_NAME, LOCKCTL_ID (the member's), LOCKCTL_OWNER and LOCKCTL_DEADLINE in its
environment. If the membership is about to be lost, the command's process group gets TERM, then
KILL before the others see that the member has gone.

Exit code: the command's own, 128+n if signal n ended it, or
   64 bad input                     76 membership lost
   69 service unavailable           77 access denied
  126 command can't be run         127 command not found`,
		Example: `  lockctl group join web --meta '{"address": "10.0.0.7:8080"}' -- ./serve`,
		Args:    arguments(1, 1<<10),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.set("group join NAME", "group", args, cmd.ArgsLenAtDash(), cmd.Flags().Changed); err != nil {
				return err
			}
			if cmd.Flags().Changed("meta") {
				var err error
				if o.shows, err = a.readValue(o.meta); err != nil {
					return err
				}
			}
			return a.join(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.meta, "meta", "", "`VALUE` that the others see: JSON, or any other text; \"-\" reads standard input (default: none)")
	o.flags(flags, "the others see that this member has gone `DURATION` after it died")
	return cmd
}

// joinOptions are the flags and arguments of group join.
type joinOptions struct {
	turnOptions
	meta  string
	shows json.RawMessage // what meta is
}

// join does all of group join.
func (a *app) join(ctx context.Context, o joinOptions) error {
	what := fmt.Sprintf("group %q", o.name)
	acquire := func(ctx context.Context, t turn) (*recipes.Membership, error) {
		group, err := t.client.Group(o.name)
		if err != nil {
			return nil, err
		}
		var meta any // nil for none
		if o.shows != nil {
			meta = o.shows
		}
		return group.Join(ctx, meta)
	}
	use := func(t turn, m *recipes.Membership, signalled error) error {
		if signalled == nil {
			signalled = a.belong(ctx, t, m, what, o)
		}
		return a.giveUp(signalled, releaseTimeout, m.Leave, "left "+what, o.verbose)
	}
	return takeTurn(ctx, a, o.command, o.dial(), acquire, use)
}

// belong runs the command, or waits for a signal, while it is a member.
func (a *app) belong(ctx context.Context, t turn, m *recipes.Membership, what string, o joinOptions) error {
	held := tenure{Lease: m, what: what, env: []string{"LOCKCTL_NAME=" + o.name, "LOCKCTL_ID=" + m.ID()}}
	if len(o.command) > 0 {
		if o.verbose {
			a.say("joined %s as %s", what, m.ID())
		}
		_, err := a.run(t, held, o.command, o.verbose)
		return err
	}
	event := membershipJSON{Event: "joined", Time: time.Now().UTC(), namedJSON: newNamed(t.backend, t.client, o.name), ID: m.ID()}
	if a.json() {
		joined, owner := event, ownerJSON(t.client.Owner())
		joined.Owner, joined.Meta, joined.Deadline = &owner, o.shows, m.Deadline().UTC()
		if err := a.writeJSON(joined); err != nil {
			return err
		}
	} else {
		a.say("a member of %s as %s until interrupted", what, m.ID())
	}
	return a.rest(ctx, t, held, func(cause error) any {
		event.Event, event.Time, event.Error = "lost", time.Now().UTC(), cause.Error()
		return event
	})
}

// membershipJSON is what group join writes without a command.
type membershipJSON struct {
	Event string    `json:"event"` // "joined" or "lost"
	Time  time.Time `json:"time"`
	namedJSON
	ID       string          `json:"id"`
	Owner    *ownerJSON      `json:"owner,omitempty"`
	Meta     json.RawMessage `json:"meta,omitempty"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Error    string          `json:"error,omitempty"`
}

func (a *app) groupLsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ls NAME",
		Short:   "List the members of a group",
		Long:    `List the members of a group in the order in which they joined.`,
		Example: `  lockctl group ls web -o json | jq -r .meta.address`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), func(ctx context.Context, b backend, client *recipes.Client) error {
				group, err := client.Group(args[0])
				if err != nil {
					return err
				}
				members, err := group.Members(ctx)
				if err != nil {
					return err
				}
				return a.writeMembers(newNamed(b, client, args[0]), members)
			})
		},
	}
}

func (a *app) writeMembers(named namedJSON, members []recipes.Member) error {
	if a.json() {
		for _, m := range members {
			if err := a.writeJSON(listedMemberJSON{named, newMemberJSON(m)}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(members) == 0 {
		if isTerminal(a.Stdout) {
			a.say("group %q has no members", named.Name)
		}
		return nil
	}
	table := termtext.Table{Header: []string{"MEMBER", "USER", "SINCE", "METADATA"}, Right: make([]bool, 4)}
	for _, m := range members {
		table.Rows = append(table.Rows, []string{
			termtext.Escape(m.Owner.String()), termtext.Escape(m.Owner.User), moment(m.Since), cell(plainValue(m.Meta)),
		})
	}
	return table.Write(a.Stdout)
}

// memberJSON is a member of a group.
type memberJSON struct {
	ID      string          `json:"id"`
	Session string          `json:"session"`
	Owner   *ownerJSON      `json:"owner"`
	Since   time.Time       `json:"since,omitzero"`
	Meta    json.RawMessage `json:"meta,omitempty"`
}

// listedMemberJSON is what group ls writes.
type listedMemberJSON struct {
	namedJSON
	memberJSON
}

func newMemberJSON(m recipes.Member) memberJSON {
	owner := ownerJSON(m.Owner)
	return memberJSON{ID: m.ID, Session: m.Session, Owner: &owner, Since: statejson.Time(m.Since), Meta: m.Meta}
}

func (a *app) groupWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch NAME",
		Short: "Show who joins a group and who leaves",
		Long: `Show the members of a group, and then who joins, leaves, or shows something else, until interrupted.
With -o json each change is an object with all members there are then. While the service can't
be reached nothing is written; what has changed meanwhile follows.`,
		Example: `  lockctl group watch web -o json | jq -c '[.members[].meta.address]'`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return untilInterrupted(cmd.Context(), func(ctx context.Context) error { return a.watchGroup(ctx, args[0]) })
		},
	}
}

func (a *app) watchGroup(ctx context.Context, name string) error {
	return a.withClient(ctx, func(b backend, client *recipes.Client) error {
		group, err := client.Group(name)
		if err != nil {
			return err
		}
		named := newNamed(b, client, name)
		var last []recipes.Member
		first := true
		for members, err := range group.Watch(ctx) {
			switch {
			case err != nil:
			case a.json():
				event := membersJSON{Event: "members", Time: time.Now().UTC(), namedJSON: named, Members: []memberJSON{}}
				for _, m := range members {
					event.Members = append(event.Members, newMemberJSON(m))
				}
				err = a.writeJSON(event)
			default:
				err = a.writeMoves(last, members, first)
			}
			if err != nil {
				return err
			}
			last, first = members, false
		}
		return nil
	})
}

// membersJSON is a line of group watch.
type membersJSON struct {
	Event string    `json:"event"` // "members"
	Time  time.Time `json:"time"`
	namedJSON
	Members []memberJSON `json:"members"`
}

// writeMoves writes a line for each member that is not as it was.
func (a *app) writeMoves(last, now []recipes.Member, first bool) error {
	line := func(verb string, m recipes.Member) error {
		text := time.Now().UTC().Format(lineTime) + "  " + verb + " " + termtext.Escape(m.Owner.String())
		if m.Meta != nil {
			text += "  " + termtext.Escape(plainValue(m.Meta))
		}
		_, err := fmt.Fprintln(a.Stdout, text)
		return err
	}
	find := func(all []recipes.Member, id string) int {
		return slices.IndexFunc(all, func(m recipes.Member) bool { return m.ID == id })
	}
	var errs []error
	for _, m := range last {
		if find(now, m.ID) < 0 {
			errs = append(errs, line("left", m))
		}
	}
	for _, m := range now {
		switch i := find(last, m.ID); {
		case first:
			errs = append(errs, line("member", m))
		case i < 0:
			errs = append(errs, line("joined", m))
		case string(last[i].Meta) != string(m.Meta):
			errs = append(errs, line("changed", m))
		}
	}
	return errors.Join(errs...)
}
