package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync"

	"github.com/a-h/templ"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

// A card is one object as it was at one revision. It never changes; what is rendered
// from it is rendered when it is first wanted, once.
type card struct {
	key      string
	revision uint64
	backend  backendView
	object   recipes.Object
	holds    holds
	stale    bool // its backend was lost at this revision

	search func() string   // what the filter looks at
	holder func() string   // what it is sorted by as its holder
	row    func() fragment // in the list
	detail func() fragment // on its own page
}

// A fragment is a piece of a page: as it stands in the first page, and as the
// message that puts it into pages that are open.
type fragment struct {
	html    []byte
	message json.RawMessage
}

// cardKey names an object among all backends, in plain ASCII: a name need not even
// be UTF-8 if another program made it. The key stays while the kind of a lock changes.
func cardKey(backend string, o recipes.Object) string {
	return url.QueryEscape(backend) + "/" + string(o.Kind.Family()) + "/" + url.QueryEscape(o.Name)
}

func newCard(h *hub, key string, revision uint64, at backendView, o recipes.Object, record holds, stale bool) *card {
	c := &card{key: key, revision: revision, backend: at, object: o, holds: record, stale: stale}
	c.search = sync.OnceValue(func() string { return searchText(c) })
	c.holder = sync.OnceValue(func() string { return newObjectView(c, h.now()).holder() })
	c.row = sync.OnceValue(func() fragment {
		if o.Gone() {
			return fragment{message: encode(rowMessage{Key: key})}
		}
		html := render(objectRow(newRowModel(h.site, c, h.now())))
		return fragment{html: html, message: encode(rowMessage{Key: key, HTML: string(html)})}
	})
	c.detail = sync.OnceValue(func() fragment { return partFragment("object", objectDetail(newDetailModel(c, h.now()))) })
	return c
}

// part is the card as a part of its own page.
func (c *card) part() part { return part{id: "object", revision: c.revision, fragment: c.detail} }

// A part is a piece of a page that is there once, and replaced as a whole.
type part struct {
	id       string
	revision uint64
	fragment func() fragment
}

func newPart(revision uint64, id string, content templ.Component) part {
	return part{id, revision, sync.OnceValue(func() fragment { return partFragment(id, content) })}
}

// newStatus makes the parts that show the state of the backends.
func newStatus(revision uint64, backends []backendView) []part {
	return []part{
		newPart(revision, "alerts", alerts(backends)),
		newPart(revision, "backends", backendList(backends)),
		newPart(revision, "empty", emptyList(backends)),
	}
}

func partFragment(id string, content templ.Component) fragment {
	html := render(content)
	return fragment{html: html, message: encode(partMessage{ID: id, HTML: string(html)})}
}

func render(content templ.Component) []byte {
	var b bytes.Buffer
	if err := content.Render(context.Background(), &b); err != nil {
		panic(err) // a buffer takes everything, and this context never ends
	}
	return b.Bytes()
}

// raw writes what was rendered, and so escaped, before.
func raw(html []byte) templ.Component { return templ.Raw(string(html)) }

// searchText is what the filter looks at: the names of everything and everyone, in
// lower case.
func searchText(c *card) string {
	const maxEntries, maxLength = 50, 4000
	o := c.object
	words := []string{termtext.Escape(o.Name), newKindView(o.Kind).Word.Whole, c.backend.Name, c.backend.Engine}
	for _, e := range o.Entries[:min(maxEntries, len(o.Entries))] {
		words = append(words, ownerOf(e).words()...)
		words = append(words, termtext.Escape(e.Session), termtext.Escape(e.Part))
	}
	if w, ok := writtenOf(o.State); ok {
		words = append(words, ownerText(w.By).words()...)
	}
	if s, ok := o.State.(recipes.QueueState); ok {
		for _, item := range s.Items[:min(maxEntries, len(s.Items))] {
			words = append(words, termtext.Escape(item.ID))
		}
	}
	if c.stale {
		words = append(words, "stale")
	}
	return strings.ToLower(clip(strings.Join(words, " "), maxLength))
}

// matches reports whether the object is of the kind, "" being all, and has all words of
// the query.
func (c *card) matches(kind recipes.Kind, query string) bool {
	if !ofKind(c.object.Kind, kind) {
		return false
	}
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(c.search(), word) {
			return false
		}
	}
	return true
}

// ofKind reports whether objects of the kind are wanted.
func ofKind(kind, wanted recipes.Kind) bool {
	return wanted == "" || kind == wanted || wanted == recipes.KindLock && isLock(kind)
}

func isLock(kind recipes.Kind) bool { return kind.Family() == recipes.KindLock }
