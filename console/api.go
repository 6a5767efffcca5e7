package console

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/recipes"
)

// Health is what /healthz answers. Fields may be added, none is renamed or
// changes its meaning.
type Health struct {
	// Status is "ok" when all backends are live, "degraded" otherwise.
	Status   string          `json:"status"`
	Backends []BackendStatus `json:"backends"`
}

// BackendStatus is the state of one backend.
type BackendStatus struct {
	Name   string `json:"name"`
	Engine string `json:"engine"` // "etcd", "zookeeper", "memory"
	// State is "live"; "connecting" before the service was reached for the first
	// time; or "lost" while it can't be reached, so that its locks may be out of date.
	State string    `json:"state"`
	Since time.Time `json:"since"` // of the state, by the console's clock
	Error string    `json:"error,omitempty"`
}

// Snapshot is what /api/objects answers, and with Locks instead of Objects what
// /api/locks answers: the picture at one revision. Fields may be added, none is renamed
// or changes its meaning. Texts that come from other processes are as those wrote them:
// escape what you show.
type Snapshot struct {
	Epoch    string          `json:"epoch"`    // one life of the console
	Revision uint64          `json:"revision"` // grows with every change, within the epoch
	Now      time.Time       `json:"now"`      // by the console's clock
	Backends []BackendStatus `json:"backends"`

	Locks   *[]ObjectStatus `json:"locks,omitempty"`   // the locks alone
	Objects *[]ObjectStatus `json:"objects,omitempty"` // all that exists; both by name and then backend
}

// ObjectStatus is one lock that somebody holds, or another object that exists.
type ObjectStatus struct {
	Backend   string    `json:"backend"`
	Name      string    `json:"name"`
	Stale     bool      `json:"stale"`      // its backend is lost
	HeldSince time.Time `json:"held_since"` // of a lock, see recipes.Object.HeldSince
	Waiting   int       `json:"waiting"`
	Queue     []Place   `json:"queue"` // those who take part: the holders, then who waits, in order
	Kind      string    `json:"kind"`  // see recipes.Object.Kind
	Word      string    `json:"state"` // "held" or "free", "open" or "closed", "set", "present"
	Summary   string    `json:"summary"`

	statejson.State // what is stored, as docs/json.md has it
}

// Place is one who takes part in an object.
type Place struct {
	State   string        `json:"state"` // "holder" or "waiting"
	ID      string        `json:"id"`
	Session string        `json:"session"`
	Kind    string        `json:"kind"`  // the recipe; "" for another program's entry
	Owner   recipes.Owner `json:"owner"` // zero for another program's entry
	Since   time.Time     `json:"since"` // when it joined the queue, by its own clock
	// Token is a decimal number, as a string: it can exceed what JavaScript's
	// numbers hold. For who waits it is the least that the token will be.
	Token     string          `json:"token"`
	Value     []byte          `json:"value,omitempty"` // of another program's entry, in base64
	Part      string          `json:"part,omitempty"`  // the item or the key that it is for
	Published json.RawMessage `json:"published,omitempty"`
}

func (c *Console) health(ec echo.Context) error {
	h := Health{Status: "ok", Backends: statuses(c.hub.states())}
	for _, b := range h.Backends {
		if b.State != string(stateLive) {
			h.Status = "degraded"
		}
	}
	return ec.JSON(http.StatusOK, h)
}

func statuses(views []backendView) []BackendStatus {
	all := make([]BackendStatus, 0, len(views))
	for _, v := range views {
		all = append(all, BackendStatus{
			Name: v.Name, Engine: v.Engine, State: string(v.State), Since: v.Since.UTC(), Error: v.Error,
		})
	}
	return all
}

// locks is the handler of /api/locks.
func (c *Console) locks(ec echo.Context) error {
	query := readQuery(ec.QueryParam)
	query.kind = recipes.KindLock
	s, found := c.snapshot(query)
	s.Locks = &found
	return ec.JSON(http.StatusOK, s)
}

// objects is the handler of /api/objects.
func (c *Console) objects(ec echo.Context) error {
	s, found := c.snapshot(readQuery(ec.QueryParam))
	s.Objects = &found
	return ec.JSON(http.StatusOK, s)
}

func (c *Console) snapshot(query listQuery) (Snapshot, []ObjectStatus) {
	u := c.hub.current(view{})
	now := c.hub.now()
	s := Snapshot{Epoch: c.hub.epoch, Revision: u.revision, Now: now.UTC(), Backends: statuses(c.hub.states())}
	order{}.sort(u.rows)
	found := []ObjectStatus{}
	for _, row := range u.rows {
		if row.matches(query.kind, query.text) {
			found = append(found, objectStatus(row, now))
		}
	}
	return s, found
}

func objectStatus(c *card, now time.Time) ObjectStatus {
	o := c.object
	s := ObjectStatus{
		Backend: c.backend.Name, Name: o.Name, Stale: c.stale, HeldSince: statejson.Time(o.HeldSince), Waiting: len(o.Waiters()),
		Queue: []Place{}, Kind: string(o.Kind), Word: statejson.Word(o), Summary: summaryOf(o, now), State: statejson.New(o.State, now),
	}
	for i, e := range o.Entries {
		p := Place{
			State: "waiting", ID: e.ID, Session: e.Session, Kind: string(e.Kind), Owner: e.Owner, Since: statejson.Time(e.Since),
			Token: token(e), Value: e.Value, Part: e.Part, Published: e.Published,
		}
		if i < o.Holding {
			p.State = "holder"
		}
		s.Queue = append(s.Queue, p)
	}
	return s
}
