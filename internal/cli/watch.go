package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

func (a *app) watchCommand() *cobra.Command {
	var exact bool
	var kinds kindsFlag
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Show locks, and everything else, as they change",
		Long: `Show the locks, groups, queues and whatever else exists whose names begin with PREFIX,
and every change to them, until interrupted. On a terminal it is a table that refreshes;
otherwise a line per change, and with -o json a JSON object per line. When the service
can't be reached it says so, goes on trying, and says when it has caught up.`,
		Example: `  lockctl watch
  lockctl watch jobs/ -o json | jq -r '.lock.holders[]?.host'
  lockctl watch --exact jobs/daily --kind lock`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if exact && len(args) == 0 {
				return usageError("--exact needs a name; see lockctl watch --help")
			}
			filter := recipes.Filter{Kinds: kinds, Prefix: argument(args)}
			if exact {
				filter.Name, filter.Prefix = filter.Prefix, ""
			}
			return untilInterrupted(cmd.Context(), func(ctx context.Context) error { return a.watch(ctx, filter) })
		},
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "only what is called exactly so")
	kinds.add(cmd)
	return cmd
}

// A viewer shows what a watch reports.
type viewer interface {
	// change shows one change. It is called from one goroutine.
	change(recipes.Change) error
	// tick is called every tickPause between changes.
	tick(now time.Time) error
	// close is called once, in the end.
	close()
}

// tickPause is the time between two looks at whether there is something to draw,
// so that a busy service does not make the terminal flicker.
const tickPause = 100 * time.Millisecond

// watch follows the objects until ctx ends.
func (a *app) watch(ctx context.Context, filter recipes.Filter) error {
	return a.withService(ctx, func(b backend, client service) error {
		v := a.newViewer(b, client.Engine())
		defer v.close()
		return follow(ctx, client, filter, v)
	})
}

func (a *app) newViewer(b backend, engine string) viewer {
	switch {
	case a.json():
		return &jsonViewer{app: a, backend: b, engine: engine}
	case isTerminal(a.Stdout):
		return newScreen(a, b)
	}
	return &lineViewer{app: a, backend: b, holders: map[string]string{}}
}

// follow hands the changes to the viewer. The watch runs in a goroutine that ends
// before follow returns.
func follow(ctx context.Context, client service, filter recipes.Filter, v viewer) error {
	ctx, cancel := context.WithCancel(ctx)
	changes, ended := make(chan recipes.Change), make(chan error, 1)
	go func() {
		defer close(changes)
		for change, err := range client.Watch(ctx, filter) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case changes <- change:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range changes { // until the watch has ended
		}
	}()
	ticker := time.NewTicker(tickPause)
	defer ticker.Stop()
	for {
		var err error
		select {
		case change, ok := <-changes:
			switch {
			case !ok && len(ended) > 0:
				return <-ended
			case !ok:
				return nil
			default:
				err = v.change(change)
			}
		case now := <-ticker.C:
			err = v.tick(now)
		}
		if err != nil {
			return err
		}
	}
}

// jsonViewer writes each change as a JSON object.
type jsonViewer struct {
	app     *app
	backend backend
	engine  string
}

func (v *jsonViewer) change(c recipes.Change) error {
	event := eventJSON{Time: time.Now().UTC(), Backend: v.backend.name(), Engine: v.engine}
	switch c.Kind {
	case recipes.ObjectChanged:
		object := newObjectJSON(v.backend, v.engine, c.Object)
		if isLock(c.Object) {
			event.Event, event.Lock = "lock", &object
		} else {
			event.Event, event.Object = "object", &object
		}
	case recipes.WatchSynced:
		event.Event = "synced"
	case recipes.WatchLost:
		event.Event, event.Error = "unreachable", fmt.Sprint(c.Err)
	default:
		return nil
	}
	return v.app.writeJSON(event)
}

func (v *jsonViewer) tick(time.Time) error { return nil }
func (v *jsonViewer) close()               {}

// lineViewer writes each change as a line of text.
type lineViewer struct {
	app     *app
	backend backend
	holders map[string]string // id of the holder's entry by lock, as last written
	synced  bool              // all is known as it was; from here on they change
	lost    bool
}

func (v *lineViewer) change(c recipes.Change) error {
	switch c.Kind {
	case recipes.WatchLost:
		if !v.lost {
			v.app.say("%s can't be reached, trying again: %v", v.backend.name(), c.Err)
		}
		v.lost = true
	case recipes.WatchSynced:
		if v.lost {
			v.app.say("%s is reached again", v.backend.name())
		}
		v.synced, v.lost = true, false
	case recipes.ObjectChanged:
		now := time.Now()
		text := ""
		if isLock(c.Object) {
			text = v.tell(c.Object)
		} else if text = summary(c.Object, now); len(c.Object.Waiters()) > 0 {
			text += fmt.Sprintf("  %d waiting", len(c.Object.Waiters()))
		}
		_, err := fmt.Fprintf(v.app.Stdout, "%s  %s  %s  %s\n", now.UTC().Format(lineTime),
			termtext.Escape(c.Object.Name), termtext.Escape(string(c.Object.Kind)), text)
		return err
	}
	return nil
}

// tell says how a lock is, and whether that is a new holder.
func (v *lineViewer) tell(lock recipes.Object) string {
	if len(lock.Entries) == 0 {
		if _, known := v.holders[lock.Name]; !known {
			return "free"
		}
		delete(v.holders, lock.Name)
		return "released"
	}
	holder := lock.Entries[0]
	verb := "acquired"
	if v.holders[lock.Name] == holder.ID || !v.synced {
		verb = "held"
	}
	v.holders[lock.Name] = holder.ID
	more := ""
	if n := len(lock.Holders()); n > 1 {
		more = fmt.Sprintf(" and %d more", n-1)
	}
	token := "no token"
	if holder.Token != 0 {
		token = "token " + tokenText(holder.Token)
	}
	return fmt.Sprintf("%s by %s%s  %s  %d waiting", verb, who(holder), more, token, len(lock.Waiters()))
}

func (v *lineViewer) tick(time.Time) error { return nil }
func (v *lineViewer) close()               {}
