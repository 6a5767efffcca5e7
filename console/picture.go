package console

import (
	"slices"

	"github.com/lockctl/lockctl/recipes"
)

// view is what a page shows: all objects, or one.
type view struct {
	backend backendView
	object  recipes.Object // Kind and Name alone; no name for all objects
}

func (v view) all() bool { return v.object.Name == "" }

func (v view) key() string { return cardKey(v.backend.Name, v.object) }

// update is what a viewer needs to be told: everything, or what has changed
// since the revision it knows. Its fragments are shared by all viewers.
type update struct {
	revision uint64
	whole    bool // there is more on the page than this says, and it is to go
	rows     []*card
	parts    []part
}

func (u update) empty() bool { return !u.whole && len(u.rows) == 0 && len(u.parts) == 0 }

// current returns all that the view shows.
func (h *hub) current(v view) update {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all(v)
}

// since returns what the view shows otherwise than at the given revision, and a
// channel that is closed with the next change. It walks over what has changed and
// nothing else. A revision that the hub can't go on from gives everything.
func (h *hub) since(v view, revision uint64) (update, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if revision < h.floor || revision > h.revision {
		return h.all(v), h.changed
	}
	u := update{revision: h.revision}
	if h.status[0].revision > revision {
		u.parts = append(u.parts, h.status...)
	}
	if !v.all() {
		if s := h.slots[v.key()]; s != nil && s.card.revision > revision {
			u.parts = append(u.parts, s.card.part())
		}
		return u, h.changed
	}
	for e := h.order.Back(); e != nil; e = e.Prev() {
		c := e.Value.(*slot).card
		if c.revision <= revision {
			break
		}
		u.rows = append(u.rows, c)
	}
	if len(u.rows) > 0 {
		u.parts = append(u.parts, h.summary()...)
	}
	return u, h.changed
}

func (h *hub) all(v view) update {
	u := update{revision: h.revision, whole: true, parts: slices.Clone(h.status)}
	if !v.all() {
		u.parts = append(u.parts, h.lookup(v).part())
		return u
	}
	for e := h.order.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*slot).card; !c.object.Gone() {
			u.rows = append(u.rows, c)
		}
	}
	u.parts = append(u.parts, h.summary()...)
	return u
}

// lookup returns the card of the view's object, which may be one that is not there.
func (h *hub) lookup(v view) *card {
	if s := h.slots[v.key()]; s != nil {
		return s.card
	}
	return newCard(h, v.key(), h.revision, v.backend, v.object, holds{}, false)
}

// tally counts what there is now.
func (h *hub) tally() tally {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count.clone()
}

// states returns the backends as they are now.
func (h *hub) states() []backendView {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.views()
}

// backend returns the backend of that name.
func (h *hub) backend(name string) (backendView, bool) {
	for _, b := range h.states() {
		if b.Name == name {
			return b, true
		}
	}
	return backendView{}, false
}
