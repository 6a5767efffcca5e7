package recipes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// script is a service whose watch reports what a test says.
type script struct {
	driver.Store
	events []driver.Event
}

func (s *script) Engine() string { return "script" }
func (s *script) Close() error   { return nil }

func (s *script) Watch(ctx context.Context, _ driver.Scope, sink func(driver.Event)) error {
	for _, ev := range s.events {
		sink(ev)
	}
	<-ctx.Done()
	return ctx.Err()
}

// shown are the objects that a watch of the events ends up with, in lines.
func shown(t *testing.T, events []driver.Event) string {
	t.Helper()
	end := putOf(driver.SpaceCounter, "~end", "v", 1<<20, "{}")
	c, err := recipes.NewClient(&script{events: append(events, end)}, nil)
	require.NoError(t, err)
	defer c.Close()
	objects := map[string]string{}
	for change, err := range c.Watch(context.Background(), recipes.Filter{}) {
		require.NoError(t, err)
		o := change.Object
		if o.Name == "~end" {
			break // of the events; objects that changed with it are reported before
		}
		if change.Kind == recipes.ObjectChanged {
			objects[o.Key()] = fmt.Sprintf("%s %s: %s", o.Kind, o.Name, o.Summary(time.Now()))
			for i, e := range o.Entries {
				objects[o.Key()] += fmt.Sprintf(" %s %s %s;", o.Role(i), e.Part, e.ID)
			}
			if o.Gone() {
				delete(objects, o.Key())
			}
		}
	}
	var lines []string
	for _, line := range objects {
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func putOf(space, name, id string, revision uint64, value string) driver.Event {
	return driver.Event{Type: driver.Put, Entry: driver.Entry{
		Queue: driver.Queue{Space: space, Name: name}, ID: id, Revision: revision, Version: revision, Value: []byte(value),
	}}
}

func removalOf(ev driver.Event) driver.Event {
	return driver.Event{Type: driver.Delete, Entry: driver.Entry{Queue: ev.Entry.Queue, ID: ev.Entry.ID}}
}

// TestPartsInAnyOrder has the parts of objects come in any order, as they do from
// queues that are watched one by one, and go again.
func TestPartsInAnyOrder(t *testing.T) {
	t.Parallel()
	const note = `{"kind":%q,"program":"p","since":"2026-03-01T12:00:00Z"}`
	stored := func(value string) string {
		return fmt.Sprintf(`{"id":"x","by":{"program":"p"},"at":"2026-03-01T12:00:00Z","value":%s}`, value)
	}
	worker, runner := fmt.Sprintf(note, "queue"), fmt.Sprintf(note, "once")
	for want, parts := range map[string][]driver.Event{
		"queue q: 1 ready, 1 taken worker 1 c; waiter  t;": {
			putOf(driver.SpaceItem, "q\x001", "v1", 5, `{"priority":1,"value":1}`),
			putOf(driver.SpaceItem, "q\x002", "v2", 6, `{"value":2}`),
			putOf(driver.SpaceClaim, "q\x001", "c", 7, worker), putOf(driver.SpaceTurn, "q", "t", 8, worker),
		},
		"once o: 1 running, 2 recorded worker k a; waiter k b;": {
			putOf(driver.SpaceOnce, "o\x00k", "a", 5, runner), putOf(driver.SpaceOnce, "o\x00k", "b", 6, runner),
			putOf(driver.SpaceResult, "o", "v", 7, stored(`[{"key":"i","value":1},{"key":"j","value":2}]`)),
		},
		"double-barrier d: round 4, 1 of 2 inside inside  b; waiter  c;": {
			putOf(driver.SpaceRound, "d", "v", 9, stored(`{"count":2,"number":4,"members":["a","b"],"quit":["e"]}`)),
			putOf(driver.SpaceDoubleBarrier, "d", "b", 6, worker), putOf(driver.SpaceDoubleBarrier, "d", "c", 7, worker),
			putOf(driver.SpaceDoubleBarrier, "d", "e", 8, worker),
		},
		"semaphore s: 2 of 2 permits held by p and 1 more holder  a; holder  b;": {
			putOf(driver.SpaceLimit, "s", "v", 5, stored("2")),
			putOf(driver.SpaceLock, "s", "a", 6, `{"kind":"semaphore","permits":1,"limit":2,"program":"p","since":"2026-03-01T12:00:00Z"}`),
			putOf(driver.SpaceLock, "s", "b", 7, `{"kind":"semaphore","permits":1,"limit":2,"program":"p","since":"2026-03-01T12:00:00Z"}`),
		},
		"job j: held by p holder  a; waiter  b;": {
			putOf(driver.SpaceJob, "j", "v", 5, stored(`{"schedule":"@every 1m0s"}`)),
			putOf(driver.SpaceLock, "j", "a", 6, `{"kind":"job","program":"p"}`), putOf(driver.SpaceLock, "j", "b", 7, `{"kind":"job","program":"p"}`),
		},
		"job j: nobody runs it": {putOf(driver.SpaceJob, "j", "v", 5, stored(`{"schedule":"@every 1m0s"}`))},
		"register r: 3": {
			putOf(driver.SpaceRegister, "r", "v2", 6, stored("2")), putOf(driver.SpaceRegister, "r", "v3", 7, stored("3")),
		},
	} {
		random := rand.New(rand.NewPCG(1, uint64(len(want))))
		shuffle := func(events []driver.Event) {
			random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		}
		for range 20 {
			shuffle(parts)
			events := append([]driver.Event{{Type: driver.Reset}, {Type: driver.Synced}}, parts...)
			require.Equal(t, want, shown(t, events))
			shuffle(parts)
			for _, part := range parts {
				events = append(events, removalOf(part))
			}
			require.Empty(t, shown(t, events))
		}
	}
}

// TestStrangeParts has what other programs may leave where recipes keep theirs.
func TestStrangeParts(t *testing.T) {
	t.Parallel()
	odd := `{"kind":"queue","program":"p"}`
	require.Equal(t, "lock l: held by p holder  a;", shown(t, []driver.Event{putOf(driver.SpaceLock, "l", "a", 5, odd)}))
	require.Equal(t, "lock l: held by another program holder  a;", shown(t, []driver.Event{putOf(driver.SpaceLock, "l", "a", 5, "10.0.0.9")}))
	require.Equal(t, "register r: a value that can't be read", shown(t, []driver.Event{putOf(driver.SpaceRegister, "r", "a", 5, "{")}))
	require.Equal(t, "queue q: 1 dead", shown(t, []driver.Event{putOf(driver.SpaceItem, "q\x001", "a", 5, "?")}))
	require.Equal(t, "lock l\x00: held by p holder  a;", shown(t, []driver.Event{putOf(driver.SpaceLock, "l\x00", "a", 5, odd)}))
	for _, kind := range []string{"two words", "\\u202e", strings.Repeat("x", 65), "ü"} {
		ev := putOf(driver.SpaceLock, "l", "a", 5, fmt.Sprintf(`{"kind":"%s","program":"p"}`, kind))
		require.Equal(t, "lock l: held by p holder  a;", shown(t, []driver.Event{ev}))
	}
	for _, nobodys := range []driver.Event{
		putOf(driver.SpaceItem, "q", "a", 5, `{"value":1}`),
		putOf(driver.SpaceInbox, "session", "a", 5, odd), putOf("another", "x", "a", 5, odd),
		{Type: driver.Put, Entry: driver.Entry{Queue: driver.Queue{Raw: "/raw"}, ID: "a", Value: []byte(odd)}},
	} {
		require.Empty(t, shown(t, []driver.Event{nobodys}))
	}
}

// TestItemsWithoutValues looks for the values of work items in what is shown of them.
func TestItemsWithoutValues(t *testing.T) {
	t.Parallel()
	c, err := recipes.NewClient(&script{events: []driver.Event{
		putOf(driver.SpaceItem, "q\x001", "v", 5, `{"value":"secret"}`), {Type: driver.Synced},
	}}, nil)
	require.NoError(t, err)
	defer c.Close()
	for change, err := range c.Watch(context.Background(), recipes.Filter{Name: "q"}) {
		require.NoError(t, err)
		text, err := json.Marshal(change.Object)
		require.NoError(t, err)
		require.Contains(t, string(text), `"ID":"1"`)
		require.NotContains(t, string(text), "secret")
		break
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range recipes.Kinds() {
		family := kind.Family()
		require.Contains(t, recipes.Kinds(), family)
		require.Equal(t, family, family.Family())
	}
	require.Equal(t, recipes.KindLock, recipes.Kind("boss").Family())
}
