package console

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

const (
	maxShown  = 80   // characters of an untrusted text in a table
	maxTitle  = 1000 // characters of the whole of it
	maxQueue  = 200  // entries that a lock's page lists
	maxPips   = 6    // marks that picture a queue in the list
	maxSparks = 64   // finished holds that the chart shows
)

// site makes the addresses of the console's pages.
type site struct{ base string }

func (s site) list() string { return s.base + "/" }

func (s site) object(backend string, o recipes.Object) string {
	return s.base + "/object?backend=" + url.QueryEscape(backend) + "&kind=" + url.QueryEscape(string(o.Kind)) +
		"&name=" + readable(o.Name)
}

func (s site) socket() string { return s.base + "/socket" }

// query is the address of a list.
func (s site) query(l listQuery) string {
	if values := l.values(); len(values) > 0 {
		return s.list() + "?" + values.Encode()
	}
	return s.list()
}

// A listQuery is what a list was asked for.
type listQuery struct {
	text  string       // words that its objects have
	kind  recipes.Kind // "" for all
	order order
	whole bool // without a limit
}

func readQuery(get func(string) string) listQuery {
	l := listQuery{text: clip(strings.TrimSpace(get("q")), 200), order: readOrder(get("sort")), whole: get("show") == "all"}
	if kind := get("kind"); len(kind) <= maxKind && termtext.Escape(kind) == kind {
		l.kind = recipes.Kind(kind)
	}
	return l
}

func (l listQuery) values() url.Values {
	values := url.Values{}
	set := func(name, value string) {
		if value != "" {
			values.Set(name, value)
		}
	}
	set("q", l.text)
	set("kind", string(l.kind))
	if !l.order.isDefault() {
		set("sort", l.order.String())
	}
	if l.whole {
		set("show", "all")
	}
	return values
}

// of is the query for objects of a kind.
func (l listQuery) of(kind recipes.Kind) listQuery {
	l.kind, l.whole = kind, false
	return l
}

// by is the query in the order by a column, or in the reverse of that.
func (l listQuery) by(c column) listQuery {
	l.order = order{column: c.ID, reverse: c.ID == l.order.column && !l.order.reverse}
	return l
}

// all is the query without a limit.
func (l listQuery) all() listQuery {
	l.whole = true
	return l
}

// readable is url.QueryEscape, except that slashes, which names often have and
// queries may, stay as they are.
func readable(name string) string {
	return strings.ReplaceAll(url.QueryEscape(name), "%2F", "/")
}

// backendView is a backend as it is shown.
type backendView struct {
	Name   string
	Engine string
	State  state
	Since  time.Time
	Error  string // with stateLost
}

type summaryModel struct {
	tally
	Longest *card // the lock that is held for longest, or nil
}

// A text is an untrusted text made fit to be shown: the whole of it is for the
// tooltip, if it does not fit.
type text struct {
	Shown string
	Whole string
}

func newText(raw string) text {
	whole := termtext.Escape(raw)
	return text{Shown: clip(whole, maxShown), Whole: clip(whole, maxTitle)}
}

func (t text) empty() bool { return t.Shown == "" }

// ownerView says who an entry belongs to.
type ownerView struct {
	Program text
	Label   text
	User    text
	Host    text
	PID     string
	Foreign text // what another program wrote, instead of all others
	Other   bool // it was another program
}

func ownerOf(e recipes.Entry) ownerView {
	if e.Kind == "" {
		return ownerView{Other: true, Foreign: newText(string(e.Value[:min(len(e.Value), maxTitle)]))}
	}
	return ownerText(e.Owner)
}

func ownerText(owner recipes.Owner) ownerView {
	o := ownerView{
		Program: newText(owner.Program), Label: newText(owner.Label), User: newText(owner.User), Host: newText(owner.Host),
	}
	if owner.PID != 0 {
		o.PID = strconv.Itoa(owner.PID)
	}
	return o
}

func (o ownerView) words() []string {
	return []string{o.Program.Whole, o.Label.Whole, o.User.Whole, o.Host.Whole + ":" + o.PID, o.Foreign.Whole}
}

// rowModel is an object in the list.
type rowModel struct {
	Key     string
	Href    string
	Name    text
	Kind    kindView
	Backend backendView
	Object  objectView
	Since   time.Time // see sinceOf
	Waiters int
	Token   string // "" for none
	Stale   bool

	Turn     string // changes when the lock changes hands
	Search   string // what the filter looks at
	Holder   string // what rows are sorted by, as SinceKey
	SinceKey string
}

func newRowModel(s site, c *card, now time.Time) rowModel {
	o := c.object
	r := rowModel{
		Key: c.key, Href: s.object(c.backend.Name, o), Name: newText(o.Name), Kind: newKindView(o.Kind),
		Backend: c.backend, Object: newObjectView(c, now), Since: sinceOf(o), SinceKey: strconv.FormatInt(sinceKey(o), 10),
		Waiters: len(o.Waiters()), Stale: c.stale, Holder: c.holder(), Search: c.search(),
	}
	if isLock(o.Kind) && len(o.Entries) > 0 {
		r.Token, r.Turn = token(o.Entries[0]), url.QueryEscape(o.Entries[0].ID)
	}
	return r
}

// sinceOf is since when a lock is held, or when what is stored was written; zero where
// neither is known.
func sinceOf(o recipes.Object) time.Time {
	w, _ := writtenOf(o.State)
	switch {
	case !isLock(o.Kind):
		return w.At
	case len(o.Entries) > 0:
		return o.HeldSince
	}
	return time.Time{}
}

// class is what the row is called in the stylesheet.
func (r rowModel) class() string { return staleClass(r.Stale) }

func staleClass(stale bool) string {
	if stale {
		return "stale"
	}
	return ""
}

// telling reports whether the backend's name says which engine it is.
func (b backendView) telling() bool {
	return strings.Contains(strings.ToLower(b.Name), strings.ToLower(b.Engine))
}

// token is the entry's fencing token, "" for a lock that has none.
func token(e recipes.Entry) string {
	if e.Token == 0 {
		return ""
	}
	return strconv.FormatUint(e.Token, 10)
}

// A spark is one bar of the chart of finished holds, in the units of its view box.
type spark struct {
	X, Y, Height string
	Title        string
}

const sparkHeight = 32

func (m detailModel) sparks() []spark {
	recent := m.Holds.recent[max(0, len(m.Holds.recent)-maxSparks):]
	var longest time.Duration
	for _, d := range recent {
		longest = max(longest, d)
	}
	bars := make([]spark, 0, len(recent))
	for i, d := range recent {
		height := 1.0
		if longest > 0 {
			height = max(1, sparkHeight*float64(d)/float64(longest))
		}
		bars = append(bars, spark{
			X: strconv.Itoa(5 * i), Y: fmt.Sprintf("%.1f", sparkHeight-height),
			Height: fmt.Sprintf("%.1f", height), Title: span(d),
		})
	}
	return bars
}

func (m detailModel) sparkBox() string { return fmt.Sprintf("0 0 %d %d", 5*maxSparks, sparkHeight) }

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// unknown reports whether there are backends that the picture lacks.
func unknown(backends []backendView) []backendView {
	var lacking []backendView
	for _, b := range backends {
		if b.State != stateLive {
			lacking = append(lacking, b)
		}
	}
	return lacking
}

// word is the state for people.
func (b backendView) word() string {
	if b.State == stateLost {
		return "unreachable"
	}
	return string(b.State)
}
