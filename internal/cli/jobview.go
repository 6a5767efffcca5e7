package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/job"
)

// jobJSON is a line of job: something that has happened.
type jobJSON struct {
	Event   string     `json:"event"`
	Time    time.Time  `json:"time"`
	Backend string     `json:"backend"`
	Engine  string     `json:"engine"`
	Name    string     `json:"name"`
	Token   string     `json:"token,omitempty"`
	Tick    time.Time  `json:"tick,omitzero"`
	Attempt int        `json:"attempt,omitempty"`
	Missed  int        `json:"missed,omitempty"`
	By      *ownerJSON `json:"by,omitempty"`
	Again   bool       `json:"again,omitempty"`
	Skipped int        `json:"skipped,omitempty"`
	Next    time.Time  `json:"next,omitzero"`
	Reason  string     `json:"reason,omitempty"`
	Error   string     `json:"error,omitempty"`
}

func newJobJSON(b backend, engine, name string, e job.Event) jobJSON {
	out := jobJSON{
		Event: e.Kind.String(), Time: time.Now().UTC(), Backend: b.name(), Engine: engine, Name: name,
		Again: e.Again, Skipped: e.Skipped, Tick: e.Tick, Next: e.Next,
	}
	if e.Err != nil {
		out.Error = e.Err.Error()
	}
	switch e.Kind {
	case job.Holding:
		out.Token = tokenText(e.Token)
	case job.Asked:
		by := ownerJSON(e.Request.By)
		out.By, out.Reason = &by, e.Request.Why
	case job.Started, job.Ended, job.Unrecorded:
		by := ownerJSON(e.Attempt.By)
		out.Tick, out.Attempt, out.Missed = e.Attempt.Tick, e.Attempt.Attempt, e.Attempt.Missed
		out.Token, out.By = tokenText(e.Attempt.Token), &by
		if e.Kind == job.Ended {
			out.Event = string(e.Attempt.Outcome)
		}
	}
	return out
}

// jobStateJSON is what job --state writes.
type jobStateJSON struct {
	Backend   string       `json:"backend"`
	Engine    string       `json:"engine"`
	Name      string       `json:"name"`
	Schedule  string       `json:"schedule,omitempty"`
	Completed time.Time    `json:"completed,omitzero"`
	Next      time.Time    `json:"next,omitzero"`
	Running   bool         `json:"running"`
	Current   *attemptJSON `json:"current,omitempty"`
	Last      *attemptJSON `json:"last,omitempty"`
	Holder    *entryJSON   `json:"holder,omitempty"`
	Waiting   int          `json:"waiting"`
}

// attemptJSON is one attempt to run a tick.
type attemptJSON struct {
	Tick    time.Time `json:"tick"`
	Attempt int       `json:"attempt"`
	Missed  int       `json:"missed,omitempty"`
	Token   string    `json:"token"`
	Session string    `json:"session"`
	By      ownerJSON `json:"by"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome string    `json:"outcome,omitempty"`
	Error   string    `json:"error,omitempty"`
}

func newJobStateJSON(b backend, engine, name string, s job.State) jobStateJSON {
	out := jobStateJSON{
		Backend: b.name(), Engine: engine, Name: name, Schedule: s.Schedule, Completed: s.Completed, Next: s.Next,
		Running: s.Running, Current: newAttemptJSON(s.Current), Last: newAttemptJSON(s.Last), Waiting: s.Waiting,
	}
	if s.Holder != nil {
		holder := newEntryJSON(*s.Holder)
		out.Holder = &holder
	}
	return out
}

func newAttemptJSON(a *job.Attempt) *attemptJSON {
	if a == nil {
		return nil
	}
	return &attemptJSON{
		Tick: a.Tick, Attempt: a.Attempt, Missed: a.Missed, Token: tokenText(a.Token), Session: a.Session,
		By: ownerJSON(a.By), Started: a.Started, Ended: a.Ended, Outcome: string(a.Outcome), Error: a.Error,
	}
}

// writeJobState shows what is known of a job. Much of it was written by another process.
func writeJobState(w io.Writer, name string, s job.State) error {
	if s.Schedule == "" && s.Holder == nil {
		_, err := fmt.Fprintf(w, "%s has not been run\n", termtext.Escape(name))
		return err
	}
	running := "nothing"
	switch c := s.Current; {
	case s.Running:
		running = fmt.Sprintf("tick %s since %s, attempt %d, by %s", moment(c.Tick), moment(c.Started), c.Attempt, c.By)
	case c != nil:
		running = fmt.Sprintf("nothing; tick %s is left after attempt %d, by %s", moment(c.Tick), c.Attempt, c.By)
	}
	last := "none"
	if l := s.Last; l != nil {
		last = fmt.Sprintf("tick %s, attempt %d, by %s: %s", moment(l.Tick), l.Attempt, l.By, l.Outcome)
		if !l.Ended.IsZero() {
			last += fmt.Sprintf(" after %v", l.Ended.Sub(l.Started).Round(time.Millisecond))
		}
		if l.Error != "" {
			last += ": " + l.Error
		}
	}
	holder := "nobody"
	if s.Holder != nil {
		holder = fmt.Sprintf("%s, %s in line", s.Holder.Owner, count(s.Waiting, "other"))
	}
	rows := [][2]string{
		{"job", name}, {"schedule", s.Schedule}, {"completed", known(s.Completed, "none")}, {"last", last},
		{"running", running}, {"next", known(s.Next, "none")}, {"run by", holder},
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(w, "%-9s  %s\n", row[0], termtext.Escape(row[1])); err != nil {
			return err
		}
	}
	return nil
}

// known is a moment, or what to say instead if there is none.
func known(t time.Time, otherwise string) string {
	if t.IsZero() {
		return otherwise
	}
	return moment(t)
}
