package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

// Sequences that every terminal of the last decades knows.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeCursor  = "\x1b[H"
	clearRight  = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// A screen shows objects as a table that is drawn again when something changes.
type screen struct {
	app     *app
	backend backend
	objects map[string]recipes.Object // by key
	lost    error
	synced  bool
	dirty   bool // not drawn yet
	drawn   time.Time
}

func newScreen(a *app, b backend) *screen {
	fmt.Fprint(a.Stdout, enterScreen)
	return &screen{app: a, backend: b, objects: map[string]recipes.Object{}}
}

func (s *screen) change(c recipes.Change) error {
	switch {
	case c.Kind == recipes.WatchLost:
		s.lost = c.Err
	case c.Kind == recipes.WatchSynced:
		s.lost, s.synced = nil, true
	case c.Object.Gone():
		delete(s.objects, c.Object.Key())
	default:
		s.objects[c.Object.Key()] = c.Object
	}
	s.dirty = s.synced || s.lost != nil
	return nil
}

// tick draws what has changed. Ages grow, so something changes every second.
func (s *screen) tick(now time.Time) error {
	if !s.dirty && now.Sub(s.drawn) < time.Second {
		return nil
	}
	s.dirty, s.drawn = false, now
	width, height, err := term.GetSize(int(s.app.Stdout.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	_, err = fmt.Fprint(s.app.Stdout, homeCursor+strings.Join(s.lines(now, width, height), clearRight+"\n")+
		clearRight+clearBelow)
	return err
}

func (s *screen) close() { fmt.Fprint(s.app.Stdout, leaveScreen) }

// lines are what there is to see, cut to the size of the terminal.
func (s *screen) lines(now time.Time, width, height int) []string {
	state := "live"
	switch {
	case s.lost != nil:
		state = "UNREACHABLE, trying again: " + termtext.Escape(s.lost.Error())
	case !s.synced:
		state = "connecting"
	}
	title := fmt.Sprintf("%s  %s  %s  %s", termtext.Escape(s.backend.name()), now.UTC().Format("15:04:05 UTC"),
		count(len(s.objects), "object"), state)
	lines := []string{s.app.bold(termtext.Clip(title, width)), ""}

	objects := slices.Collect(maps.Values(s.objects))
	slices.SortFunc(objects, func(a, b recipes.Object) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	rows := max(height-len(lines)-1, 1) // the table's header takes one line
	more := ""
	if len(objects) > rows {
		more = fmt.Sprintf("… and %d more: watch a longer prefix", len(objects)-rows+1)
		objects = objects[:rows-1]
	}
	for _, line := range objectsTable(objects, now).Lines() {
		lines = append(lines, termtext.Clip(line, width))
	}
	if more != "" {
		lines = append(lines, termtext.Clip(more, width))
	}
	return lines
}
