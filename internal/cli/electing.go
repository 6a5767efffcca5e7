package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

// elect does all of the elect command that is not --observe. Its error has the
// exit code.
func (a *app) elect(ctx context.Context, o electOptions) error {
	acquire := func(ctx context.Context, t turn) (*election.Lead, error) { return a.campaign(ctx, t, o) }
	use := func(t turn, lead *election.Lead, signalled error) error {
		if signalled == nil {
			signalled = a.lead(ctx, t, lead, o)
		}
		return a.giveUp(signalled, releaseTimeout, lead.Resign, fmt.Sprintf("resigned in election %q", o.name), o.verbose)
	}
	dial := o.dial()
	dial.leases = true
	return takeTurn(ctx, a, o.command, dial, acquire, use)
}

// newElection makes an election on whatever the service has.
func newElection(s service, name string, o *election.Options) (*election.Election, error) {
	switch c := s.(type) {
	case *recipes.Client:
		return election.New(c, name, o)
	case *recipes.LeaseClient:
		return election.NewOnLeases(c, name, o)
	}
	return nil, usageError("%s can't elect: its locks have no fencing tokens, which terms are made of", s.Engine())
}

// campaign waits in line until elected.
func (a *app) campaign(ctx context.Context, t turn, o electOptions) (*election.Lead, error) {
	e, err := newElection(t.service, o.name, &election.Options{Priority: o.priority})
	if err != nil {
		return nil, err
	}
	if o.verbose {
		a.sayLeader(ctx, e)
	}
	var lead *election.Lead
	err = within(ctx, o.timeout, fmt.Sprintf("election %q", o.name), func(ctx context.Context) error {
		lead, err = e.Campaign(ctx, o.value)
		return err
	})
	return lead, err
}

// sayLeader tells who leads. It is only told: if the service doesn't answer, the
// campaign itself will say so.
func (a *app) sayLeader(ctx context.Context, e *election.Election) {
	if leader, err := e.Leader(ctx); err == nil {
		a.say("campaigning in election %q, led by %s", e.Name(), leader.Owner)
	}
}

// lead runs the command, or waits for a signal, while it leads.
func (a *app) lead(ctx context.Context, t turn, lead *election.Lead, o electOptions) error {
	held := tenure{
		Lease: lead, what: fmt.Sprintf("election %q", lead.Name()),
		env: []string{"LOCKCTL_NAME=" + lead.Name(), "LOCKCTL_TERM=" + tokenText(lead.Term())},
	}
	if len(o.command) > 0 {
		if o.verbose {
			a.say("leading election %q in term %d", lead.Name(), lead.Term())
		}
		_, err := a.run(t, held, o.command, o.verbose)
		return err
	}
	event := newElectionJSON(t.backend, t.service.Engine(), o.name, "elected")
	event.Term = tokenText(lead.Term())
	if a.json() {
		elected, owner := event, ownerJSON(lead.Owner())
		elected.Value, elected.Owner, elected.Deadline = o.value, &owner, lead.Deadline().UTC()
		if err := a.writeJSON(elected); err != nil {
			return err
		}
	} else {
		a.say("leading election %q in term %d until interrupted", lead.Name(), lead.Term())
	}
	return a.rest(ctx, t, held, func(cause error) any {
		event.Event, event.Time, event.Error = "lost", time.Now().UTC(), cause.Error()
		return event
	})
}

// observe shows who leads until ctx ends.
func (a *app) observe(ctx context.Context, name string) error {
	return a.withService(ctx, func(b backend, client service) error {
		e, err := newElection(client, name, nil)
		if err != nil {
			return err
		}
		lost := false
		for view, err := range e.Observe(ctx) {
			switch {
			case err != nil:
			case a.json():
				err = a.writeJSON(viewJSON(newElectionJSON(b, client.Engine(), name, ""), view))
			case view.State == election.Unknown:
				a.say("%s can't be reached, trying again: %v", b.name(), view.Err)
			default:
				if lost {
					a.say("%s is reached again", b.name())
				}
				_, err = fmt.Fprintf(a.Stdout, "%s  %s\n", time.Now().UTC().Format(lineTime), tellView(view))
			}
			if err != nil {
				return err
			}
			lost = view.State == election.Unknown
		}
		return nil
	})
}

// tellView says who leads. The texts were written by another process.
func tellView(view election.View) string {
	if view.State != election.Led {
		return "no leader"
	}
	text := fmt.Sprintf("led by %s  term %d", termtext.Escape(view.Leader.Owner.String()), view.Leader.Term)
	if view.Leader.Value != "" {
		text += "  value " + termtext.Escape(strconv.Quote(view.Leader.Value))
	}
	return text
}

// viewJSON completes the event of a view.
func viewJSON(event electionJSON, view election.View) electionJSON {
	switch view.State {
	case election.Led:
		owner := ownerJSON(view.Leader.Owner)
		event.Event, event.Term, event.Value = "leader", tokenText(view.Leader.Term), view.Leader.Value
		event.Owner, event.Session, event.Since = &owner, view.Leader.Session, statejson.Time(view.Leader.Since)
	case election.Vacant:
		event.Event = "vacant"
	default:
		event.Event, event.Error = "unreachable", fmt.Sprint(view.Err)
	}
	return event
}
