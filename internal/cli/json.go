package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

// The JSON objects of docs/json.md. The contract: fields are added and never
// removed, renamed or given another type.

// objectJSON is a lock, or any other object: what ls and show write, and what watch
// writes in an event.
type objectJSON struct {
	Backend string      `json:"backend"`
	Engine  string      `json:"engine"`
	Name    string      `json:"name"`
	Word    string      `json:"state"` // of a lock "held" or "free"
	Token   string      `json:"token,omitempty"`
	Since   time.Time   `json:"since,omitzero"`
	Holders []entryJSON `json:"holders"`
	Waiters []entryJSON `json:"waiters"`
	Kind    string      `json:"kind"`
	Summary string      `json:"summary"` // for people

	statejson.State
}

// entryJSON is one who takes part in an object. The texts were written by another
// process.
type entryJSON struct {
	ID      string    `json:"id"`
	Session string    `json:"session,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	Program string    `json:"program,omitempty"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	User    string    `json:"user,omitempty"`
	Label   string    `json:"label,omitempty"`
	Mode    string    `json:"mode,omitempty"` // "shared"
	Since   time.Time `json:"since,omitzero"`
	Token   string    `json:"token,omitempty"`
	Value   []byte    `json:"value,omitempty"` // base64: of another program's entry

	Published json.RawMessage `json:"published,omitempty"` // what the owner shows
	Part      string          `json:"part,omitempty"`      // the item or the key that it is for
	Permits   int             `json:"permits,omitempty"`   // of a semaphore
}

// eventJSON is a line of watch, or of hold without a command.
type eventJSON struct {
	Event    string      `json:"event"`
	Time     time.Time   `json:"time"`
	Backend  string      `json:"backend"`
	Engine   string      `json:"engine"`
	Lock     *objectJSON `json:"lock,omitempty"`    // of watch's "lock"
	Object   *objectJSON `json:"object,omitempty"`  // of watch's "object"
	Name     string      `json:"name,omitempty"`    // of hold, as all below
	Token    string      `json:"token,omitempty"`   //
	Owner    *ownerJSON  `json:"owner,omitempty"`   //
	Deadline time.Time   `json:"deadline,omitzero"` //
	Error    string      `json:"error,omitempty"`   // of "unreachable" and "lost"
	By       *ownerJSON  `json:"by,omitempty"`      // of hold's "asked"
	Reason   string      `json:"reason,omitempty"`  // of hold's "asked"
}

// electionJSON is a line of elect.
type electionJSON struct {
	Event    string     `json:"event"`
	Time     time.Time  `json:"time"`
	Backend  string     `json:"backend"`
	Engine   string     `json:"engine"`
	Name     string     `json:"name"`
	Term     string     `json:"term,omitempty"`
	Value    string     `json:"value,omitempty"`
	Owner    *ownerJSON `json:"owner,omitempty"`
	Session  string     `json:"session,omitempty"`
	Since    time.Time  `json:"since,omitzero"`
	Deadline time.Time  `json:"deadline,omitzero"`
	Error    string     `json:"error,omitempty"`
}

func newElectionJSON(b backend, engine, name, event string) electionJSON {
	return electionJSON{Event: event, Time: time.Now().UTC(), Backend: b.name(), Engine: engine, Name: name}
}

// namedJSON begins the objects of what has a name, such as a queue.
type namedJSON struct {
	Backend string `json:"backend"`
	Engine  string `json:"engine"`
	Name    string `json:"name"`
}

func newNamed(b backend, client *recipes.Client, name string) namedJSON {
	return namedJSON{Backend: b.name(), Engine: client.Engine(), Name: name}
}

// ownerJSON is how a holder presents itself.
type ownerJSON = statejson.Owner

func tokenText(token uint64) string {
	if token == 0 { // of a lock that has none
		return ""
	}
	return strconv.FormatUint(token, 10)
}

func newObjectJSON(b backend, engine string, o recipes.Object) objectJSON {
	now := time.Now()
	out := objectJSON{
		Backend: b.name(), Engine: engine, Name: o.Name, Word: statejson.Word(o), Since: statejson.Time(o.HeldSince),
		Holders: []entryJSON{}, Waiters: []entryJSON{}, Kind: string(o.Kind), Summary: o.Summary(now),
		State: statejson.New(o.State, now),
	}
	switch o.Kind {
	case recipes.KindElection:
		out.Summary = election.Summary(o)
	case recipes.KindJob:
		out.Summary = job.Summary(o)
	case recipes.KindLimiter:
		if !o.Gone() {
			out.Summary = ratelimit.Summary(o)
		}
	}
	for _, e := range o.Holders() {
		out.Holders = append(out.Holders, newEntryJSON(e))
	}
	for _, e := range o.Waiters() {
		out.Waiters = append(out.Waiters, newEntryJSON(e))
	}
	if isLock(o) && len(out.Holders) > 0 {
		out.Token = out.Holders[0].Token
	}
	return out
}

func newEntryJSON(e recipes.Entry) entryJSON {
	mode := ""
	if e.Shared {
		mode = "shared"
	}
	return entryJSON{
		ID: e.ID, Session: e.Session, Kind: string(e.Kind), Mode: mode,
		Program: e.Owner.Program, Host: e.Owner.Host, PID: e.Owner.PID,
		User: e.Owner.User, Label: e.Owner.Label,
		Since: statejson.Time(e.Since), Token: tokenText(e.Token), Value: e.Value, Published: e.Published,
		Part: e.Part, Permits: e.Permits,
	}
}

// writeJSON writes one object as one line of standard output. Characters that
// a terminal would act on are escaped, which means the same to a JSON parser.
func (a *app) writeJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err := a.Stdout.Write(plainJSON(b.Bytes()))
	return err
}

// plainJSON escapes what is not printable. Outside of strings JSON has ASCII only.
func plainJSON(line []byte) []byte {
	out := make([]byte, 0, len(line))
	for _, r := range string(line) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out = append(out, string(r)...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
