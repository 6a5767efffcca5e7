package zk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A queueView is what a watcher's worker has seen of one queue.
type queueView struct {
	link  *link
	queue driver.Queue
	dir   string

	seen  map[string]*seenEntry // by name
	fired chan struct{}         // has a value when an entry's watch has fired
}

// A seenEntry is an entry as it was read, with the watch that fires when it is so
// no more.
type seenEntry struct {
	entry driver.Entry
	watch *watch
	stop  func() bool // the watch may outlast the view, and then says nothing to it
}

func newQueueView(l *link, q driver.Queue, dir string) *queueView {
	return &queueView{link: l, queue: q, dir: dir, seen: map[string]*seenEntry{}, fired: make(chan struct{}, 1)}
}

// read returns the entries of the queue in order, and a channel that is closed
// when there are others. That one of them has changed is told by fired. Entries
// whose watches have not fired are not read again.
//
// While entries go away between the listing and the reading it lists again, as link.queue
// does: a value that is replaced is never not there.
func (v *queueView) read(ctx context.Context) ([]driver.Entry, <-chan struct{}, error) {
	for try := 0; ; try++ {
		entries, changed, whole, err := v.readOnce(ctx)
		if err != nil || whole || try >= 3 && len(entries) > 0 {
			return entries, changed, err
		}
		select {
		case <-changed: // it will be, by what has gone
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// readOnce lists and reads. It reports whether all that was listed is there.
func (v *queueView) readOnce(ctx context.Context) (entries []driver.Entry, changed <-chan struct{}, whole bool, err error) {
	names, changed, err := v.link.watches.children(ctx, v.dir)
	if err != nil {
		return nil, nil, false, err
	}
	line := contenders(names)
	present := make(map[string]bool, len(line))
	var unread []string
	for _, c := range line {
		present[c.name] = true
		if s := v.seen[c.name]; s == nil || s.watch.over.Err() != nil {
			unread = append(unread, c.name)
		}
	}
	for name := range v.seen {
		if !present[name] {
			v.forget(name)
		}
	}
	if err := v.look(ctx, unread); err != nil {
		return nil, nil, false, err
	}
	entries = make([]driver.Entry, 0, len(v.seen))
	for _, s := range v.seen {
		entries = append(entries, s.entry)
	}
	slices.SortFunc(entries, func(a, b driver.Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	return entries, changed, len(entries) == len(line), nil
}

// look reads entries, of which some may have gone.
func (v *queueView) look(ctx context.Context, names []string) error {
	var mu sync.Mutex
	return each(ctx, len(names), func(ctx context.Context, i int) error {
		n, w, err := v.link.watches.entry(ctx, v.dir+"/"+names[i])
		gone := errors.Is(err, gozk.ErrNoNode)
		if err != nil && !gone {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		v.forget(names[i])
		if gone {
			return nil
		}
		v.seen[names[i]] = &seenEntry{
			entry: entryOf(v.queue, names[i], n), watch: w, stop: context.AfterFunc(w.over, v.poke),
		}
		return nil
	})
}

// poke says that a watch has fired.
func (v *queueView) poke() {
	select {
	case v.fired <- struct{}{}:
	default:
	}
}

func (v *queueView) forget(name string) {
	if s := v.seen[name]; s != nil {
		s.stop()
		delete(v.seen, name)
	}
}

// clear lets go of the watches, which stay until they fire.
func (v *queueView) clear() {
	for name := range v.seen {
		v.forget(name)
	}
}
