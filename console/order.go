package console

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockctl/lockctl/recipes"
)

// A column is one that the list can be sorted by. The script sorts by the same
// keys, which rows have as attributes.
type column struct {
	ID, Title string
	Falling   bool // begins with the largest
}

func columns() []column {
	return []column{
		{ID: "name", Title: "Name"},
		{ID: "kind", Title: "Kind"},
		{ID: "backend", Title: "Backend"},
		{ID: "holder", Title: "Holder, state"},
		{ID: "held", Falling: true},
		{ID: "queue", Title: "Waiting", Falling: true},
	}
}

// An order is how the list is sorted: by a column, and which way.
type order struct {
	column  string // an ID; "" is "name"
	reverse bool   // against the column's natural direction
}

// readOrder reads "held" or "-held". What it can't read is the default.
func readOrder(query string) order {
	name, reverse := strings.CutPrefix(query, "-")
	for _, c := range columns() {
		if c.ID == name {
			return order{name, reverse}
		}
	}
	return order{column: "name"}
}

func (o order) String() string {
	if o.reverse {
		return "-" + o.column
	}
	return o.column
}

// direction is what aria-sort says of a column.
func (o order) direction(c column) string {
	switch {
	case c.ID != o.column:
		return "none"
	case c.Falling != o.reverse:
		return "descending"
	}
	return "ascending"
}

// isDefault reports whether it is the order of a list that was asked for none.
func (o order) isDefault() bool { return o.column == "" || o == order{column: "name"} }

// sort sorts objects; those that are equal come by name and then backend.
func (o order) sort(cards []*card) {
	slices.SortFunc(cards, func(a, b *card) int {
		by := o.compare(a, b)
		if o.reverse {
			by = -by
		}
		return cmp.Or(by, compareText(a.object.Name, b.object.Name), cmp.Compare(a.key, b.key))
	})
}

func (o order) compare(a, b *card) int {
	switch o.column {
	case "backend":
		return compareText(a.backend.Name, b.backend.Name)
	case "kind":
		return compareText(string(a.object.Kind), string(b.object.Kind))
	case "holder":
		return cmp.Compare(a.holder(), b.holder())
	case "held":
		return cmp.Compare(sinceKey(a.object), sinceKey(b.object))
	case "queue":
		return cmp.Compare(len(b.object.Waiters()), len(a.object.Waiters()))
	}
	return compareText(a.object.Name, b.object.Name)
}

// sinceKey is what objects are sorted by as their ages: the moment, or for those without
// one the greatest whole number of JavaScript, so that they come last.
func sinceKey(o recipes.Object) int64 {
	at := sinceOf(o)
	if at.IsZero() {
		return 1<<53 - 1
	}
	return at.UnixMilli()
}

func compareText(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) }

// sortKey is what holders are sorted by.
func (o ownerView) sortKey() string {
	return strings.ToLower(strings.Join([]string{o.Program.Shown, o.Foreign.Shown, o.Label.Shown, o.Host.Shown, o.PID}, " "))
}

// class is what the column is called in the stylesheet.
func (c column) class() string { return c.ID }
