package console

import (
	"maps"
	"slices"

	"github.com/a-h/templ"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

// kindView is a kind as it is shown: by a word and by a shape.
type kindView struct {
	Word  text
	Shape string // the ID of the shape, see kindShapes
}

func newKindView(kind recipes.Kind) kindView {
	v := kindView{Word: newText(string(kind)), Shape: "kind-lock"}
	if slices.Contains(recipes.Kinds(), kind) {
		v.Shape = "kind-" + string(kind)
	}
	return v
}

// kindsModel is the links that filter the list by kind.
type kindsModel []kindLink

// A kindLink leads to the list of one kind, or of all.
type kindLink struct {
	Kind    string // "" for all
	Name    string // for people
	Shape   string // "" for all
	Count   int
	Href    templ.SafeURL
	Current bool
}

// newKindsModel has a link for all objects, one for all locks if these are of several
// kinds, and one for each kind that there is, or that is wanted.
func newKindsModel(s site, count tally, query listQuery) kindsModel {
	link := func(kind recipes.Kind, name, shape string, n int) kindLink {
		return kindLink{
			Kind: string(kind), Name: name, Shape: shape, Count: n, Current: query.kind == kind,
			Href: templ.SafeURL(s.query(query.of(kind))),
		}
	}
	model := kindsModel{link("", "All", "", count.objects)}
	locks, kinds := 0, 0
	for kind, n := range count.kinds {
		if isLock(kind) {
			locks, kinds = locks+n, kinds+1
		}
	}
	if locks > 0 && (kinds > 1 || count.kinds[recipes.KindLock] > 0) || query.kind == recipes.KindLock {
		model = append(model, link(recipes.KindLock, "locks", "kind-lock", locks))
	}
	for _, kind := range kindOrder(count.kinds) {
		if n := count.kinds[kind]; kind != recipes.KindLock && (n > 0 || kind == query.kind) {
			view := newKindView(kind)
			model = append(model, link(kind, view.Word.Shown, view.Shape, n))
		}
	}
	return model
}

// current is the value of aria-current.
func current(is bool) string {
	if is {
		return "true"
	}
	return "false"
}

// kindOrder is the order in which kinds are shown: first those that are known.
func kindOrder(present map[recipes.Kind]int) []recipes.Kind {
	kinds := recipes.Kinds()
	for _, kind := range slices.Sorted(maps.Keys(present)) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// A meter pictures how much of a whole there is: as marks of which some are filled, or
// as a bar if they are many.
type meter struct {
	Full, Whole int
}

// maxMarks is how many marks a meter has at the most.
const maxMarks = 12

func (m meter) marks() []bool {
	if m.Whole > maxMarks || m.Whole < 1 {
		return nil
	}
	marks := make([]bool, m.Whole)
	for i := range min(max(m.Full, 0), m.Whole) {
		marks[i] = true
	}
	return marks
}

// A share is a part of a bar of 100 units.
type share struct {
	Class    string
	X, Width string
	Title    string
}

// shares divides a bar among amounts, each of which is seen if it is not zero.
func shares(classes []string, amounts []int) []share {
	total := 0
	for _, n := range amounts {
		total += n
	}
	var all []share
	x := 0.0
	for i, n := range amounts {
		if n <= 0 {
			continue
		}
		width := 100 * float64(n) / float64(total)
		all = append(all, share{classes[i], decimal(x), decimal(width), termtext.Escape(classes[i])})
		x += width
	}
	return all
}
