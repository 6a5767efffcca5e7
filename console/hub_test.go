package console

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testHub is a hub with one live backend that nothing watches, so that tests say
// what it sees and when.
type testHub struct {
	*hub
	t   *testing.T
	b   *backend
	now time.Time
}

func newTestHub(t *testing.T) *testHub {
	h := &testHub{t: t, now: noon}
	h.hub = newHub([]Backend{{Name: "etcd", Client: client(t, newScript("etcd"))}}, site{}, func() time.Time { return h.now })
	t.Cleanup(h.stop)
	h.b = h.backends[0]
	h.synced(h.b)
	return h
}

// hold says that a lock has the given entries, the first of which became the
// holder now, if that was seen.
func (h *testHub) hold(name string, seen bool, ids ...string) {
	lock := recipes.Object{Kind: recipes.KindMutex, Name: name, Holding: min(1, len(ids))}
	for i, id := range ids {
		lock.Entries = append(lock.Entries, recipes.Entry{
			ID: id, Kind: "mutex", Owner: recipes.Owner{Program: "prog-" + id, Host: "web-1", PID: 40 + i},
			Since: noon.Add(-time.Hour), Token: uint64(100 + i), Session: "s" + id,
		})
	}
	switch {
	case seen:
		lock.HeldSince = h.now
	case len(ids) > 0:
		lock.HeldSince = lock.Entries[0].Since
	}
	h.set(h.b, lock)
}

// changed are the locks of an update, latest change first.
func changed(u update) []string {
	var names []string
	for _, c := range u.rows {
		names = append(names, c.object.Name)
	}
	return names
}

func changes(h *hub, revision uint64) update {
	u, _ := h.since(view{}, revision)
	return u
}

func TestHubReplaysWhatChanged(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	for _, name := range []string{"a", "b", "c"} {
		h.hold(name, true, "1")
	}
	base := h.revision
	require.True(t, changes(h.hub, base).empty())

	h.hold("a", true, "1", "2")
	h.hold("c", true)
	h.hold("a", true, "2")
	u := changes(h.hub, base)
	require.False(t, u.whole)
	require.Equal(t, []string{"a", "c"}, changed(u), "each lock once, however often it changed")
	require.NotContains(t, string(u.rows[1].row().message), "html", "a lock that is free is a row that is gone")

	require.True(t, changes(h.hub, 0).whole, "a page that knows nothing gets everything")
	require.True(t, changes(h.hub, u.revision+1).whole, "a page from the future knows nothing")
	require.Equal(t, []string{"b", "a"}, changed(changes(h.hub, 0)), "everything has no free locks")
}

func TestHubRendersOnce(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	h.hold("a", true, "1")
	first, second := changes(h.hub, 0).rows[0].row(), h.current(view{}).rows[0].row()
	require.Same(t, &first.message[0], &second.message[0])
	require.Same(t, &first.html[0], &second.html[0])
	sum := func(u update) part { return u.parts[len(u.parts)-2] }
	one, two := sum(changes(h.hub, 0)).fragment(), sum(h.current(view{})).fragment()
	require.Same(t, &one.message[0], &two.message[0])
}

func TestHubForgetsFreeLocks(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	h.hold("kept", true, "1")
	early := h.revision
	for i := range 3 * maxGone {
		name := fmt.Sprint("passing-", i)
		h.hold(name, true, "1")
		h.hold(name, true)
	}
	require.Len(t, h.slots, maxGone+1)
	require.Equal(t, maxGone+1, h.order.Len())
	require.Equal(t, maxGone, h.gone.Len())

	u := changes(h.hub, early)
	require.True(t, u.whole, "what was forgotten can't be replayed")
	require.Equal(t, []string{"kept"}, changed(u))
	late := h.revision
	h.hold("kept", true)
	require.False(t, changes(h.hub, late).whole)
}

func TestHubIgnoresWhatIsNotNew(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	h.hold("a", true, "1")
	before := h.revision
	h.hold("a", true, "1")
	h.hold("never", true)
	h.synced(h.b)
	require.Equal(t, before, h.revision)
}

func TestHubMarksWhatMayBeOutOfDate(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	h.hold("a", true, "1")
	h.hold("b", true, "1")
	h.hold("free", true, "1")
	h.hold("free", true)
	base := h.revision

	h.lose(h.b, errors.New("no\x1b[31m route"))
	u := changes(h.hub, base)
	require.ElementsMatch(t, []string{"a", "b"}, changed(u))
	require.Contains(t, string(u.rows[0].row().html), `class="stale"`)
	require.Contains(t, string(u.parts[0].fragment().html), `no\x1b[31m route`)
	require.Equal(t, stateLost, h.states()[0].State)
	again := h.revision
	h.lose(h.b, errors.New("no\x1b[31m route"))
	require.Equal(t, again, h.revision, "no news")

	h.hold("a", true, "2") // told while the watch catches up
	h.synced(h.b)
	u = changes(h.hub, again)
	require.ElementsMatch(t, []string{"a", "b"}, changed(u))
	for _, c := range u.rows {
		require.NotContains(t, string(c.row().html), "stale")
	}
	require.Equal(t, stateLive, h.states()[0].State)
}

func TestHubDropsWhatANewWatchDoesNotFind(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	h.hold("a", true, "1")
	h.hold("b", true, "1")
	h.lose(h.b, errors.New("denied"))
	h.b.seen = map[string]bool{} // as a new watch begins
	h.hold("b", true, "1")
	h.synced(h.b)
	require.Equal(t, []string{"b"}, changed(h.current(view{})))
	require.Equal(t, 1, h.count.held)
}

func TestHubSummary(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	h.hold("older", true, "1", "2", "3")
	h.now = noon.Add(time.Minute)
	h.hold("newer", true, "1", "2")
	html := string(h.summary()[0].fragment().html)
	require.Contains(t, html, `<dt>Locks held</dt><dd class="num">2</dd>`)
	require.Contains(t, html, `<dt>Waiting</dt><dd class="num">3</dd>`)
	require.Contains(t, html, `name=older"`)
	h.hold("older", true)
	html = string(h.summary()[0].fragment().html)
	require.Contains(t, html, `<dt>Waiting</dt><dd class="num">1</dd>`)
	require.Contains(t, html, `name=newer"`)
}

func TestHubRecordsHoldsThatItSaw(t *testing.T) {
	t.Parallel()
	h := newTestHub(t)
	record := func() holds {
		return h.slots[cardKey("etcd", recipes.Object{Kind: recipes.KindMutex, Name: "a"})].card.holds
	}
	wait := func(d time.Duration) { h.now = h.now.Add(d) }

	h.hold("a", false, "1", "2") // it was held before the watch began
	wait(time.Hour)
	h.hold("a", true, "2")
	require.Zero(t, record().count, "its begin was not seen")
	wait(3 * time.Second)
	h.hold("a", true, "3", "4")
	require.Equal(t, []time.Duration{3 * time.Second}, record().recent)
	wait(time.Second)
	h.hold("a", true)
	require.Equal(t, []time.Duration{3 * time.Second, time.Second}, record().recent)

	wait(time.Second)
	h.hold("a", true, "5")
	require.Equal(t, 2, record().count, "the record outlives the lock's being free")
	h.lose(h.b, errors.New("away"))
	wait(time.Minute)
	h.hold("a", true, "6")
	h.synced(h.b)
	require.Equal(t, 2, record().count, "nobody knows when it ended")
}

func TestHoldsQuantiles(t *testing.T) {
	t.Parallel()
	var none holds
	require.Zero(t, none.mean())
	require.Zero(t, none.quantile(0.5))

	var h holds
	for i := range 300 {
		h = h.add(time.Duration(i+1) * time.Millisecond)
	}
	require.Equal(t, 300, h.count)
	require.Len(t, h.recent, maxHolds)
	require.Equal(t, 173*time.Millisecond, h.recent[0])
	require.Equal(t, 236500*time.Microsecond, h.mean())
	require.Equal(t, 236*time.Millisecond, h.quantile(0.5))
	require.Equal(t, 299*time.Millisecond, h.quantile(0.99))
	require.Equal(t, 300*time.Millisecond, h.quantile(1))

	one := none.add(-time.Second)
	require.Zero(t, one.quantile(0.99), "a clock that was set back makes no negative hold")
}
