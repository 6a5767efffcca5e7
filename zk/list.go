package zk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// readers bounds the requests in flight of one List or Watch.
const readers = 16

// List implements driver.Store.
func (s *store) List(ctx context.Context, scope driver.Scope) ([]driver.Entry, error) {
	return insist(ctx, func() ([]driver.Entry, error) {
		l, err := s.ready(ctx)
		if err != nil {
			return nil, err
		}
		entries, err := s.list(ctx, l, scope)
		return entries, resumable(err)
	})
}

// errNoAnswer says that no server answered within ConnectTimeout.
var errNoAnswer = errors.New("no answer")

// ready returns a link whose server has caught up with the leader, which makes
// what is read from it linearizable.
func (s *store) ready(ctx context.Context) (l *link, err error) {
	err = s.promptly(ctx, func(ctx context.Context) error {
		l, err = insist(ctx, func() (*link, error) {
			l, err := s.link(ctx, false)
			if err == nil {
				err = l.sync(ctx)
			}
			return l, resumable(err)
		})
		return err
	})
	return l, err
}

// promptly bounds a request. Without servers a connection keeps requests for as long as
// it takes; a caller without a deadline is better served with an error.
func (s *store) promptly(ctx context.Context, request func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.opts.Client.ConnectTimeout)
	defer cancel()
	err := request(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = fmt.Errorf("%w within %v: %w", errNoAnswer, s.opts.Client.ConnectTimeout, err)
	}
	return err
}

func (s *store) list(ctx context.Context, l *link, scope driver.Scope) ([]driver.Entry, error) {
	queues, err := s.queues(ctx, l, scope)
	if err != nil {
		return nil, err
	}
	all := make([][]driver.Entry, len(queues))
	err = each(ctx, len(queues), func(ctx context.Context, i int) (err error) {
		dir, err := s.dir(queues[i])
		if err != nil {
			return err
		}
		all[i], err = l.queue(ctx, queues[i], dir, scope.First)
		if scope.Prefix && errors.Is(err, driver.ErrDenied) {
			return nil // another application's; see the package's comment
		}
		return err
	})
	return slices.Concat(all...), err
}

// queues lists the queues in scope.
func (s *store) queues(ctx context.Context, l *link, scope driver.Scope) ([]driver.Queue, error) {
	if !scope.Prefix {
		return []driver.Queue{{Space: scope.Space, Name: scope.Name, Raw: scope.Raw}}, nil
	}
	spaces := []string{scope.Space}
	if scope.Space == "" {
		list, err := l.children(ctx, s.space(""))
		if err != nil {
			return nil, none(err)
		}
		spaces = list.names
	}
	all := make([][]driver.Queue, len(spaces))
	err := each(ctx, len(spaces), func(ctx context.Context, i int) error {
		list, err := l.children(ctx, s.space(spaces[i]))
		if scope.Space == "" && errors.Is(err, driver.ErrDenied) {
			return nil // another application's
		}
		all[i] = queuesOf(list.names, spaces[i], scope)
		return none(err)
	})
	return slices.Concat(all...), err
}

// none takes it for no error that a node does not exist.
func none(err error) error {
	if errors.Is(err, gozk.ErrNoNode) {
		return nil
	}
	return err
}

// space is the node that has the queues of a space; that of "" is the root.
func (s *store) space(name string) string {
	if name == "" {
		return s.opts.Root
	}
	return s.opts.Root + "/" + name
}

// queuesOf picks the queues in scope from among the children of a space. Children
// that are not an escaped name are not ours.
func queuesOf(children []string, space string, scope driver.Scope) []driver.Queue {
	var queues []driver.Queue
	for _, element := range children {
		name, err := driver.Unescape(element)
		if q := (driver.Queue{Space: space, Name: name}); err == nil && scope.Has(q) {
			queues = append(queues, q)
		}
	}
	return queues
}

// queue reads the entries of one queue, as they were at one moment: while nodes
// go away between the listing and the reading, it lists again. After a few times
// it leaves it at that; what it returns then existed, if not all at once.
func (l *link) queue(ctx context.Context, q driver.Queue, dir string, first bool) ([]driver.Entry, error) {
	known := map[string]driver.Entry{}
	for try := 0; ; try++ {
		list, err := l.children(ctx, dir)
		if errors.Is(err, gozk.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		line := contenders(list.names)
		if ambiguous(line) {
			first = false // their order is known when they were read
		}
		if first {
			line = line[:min(1, len(line))]
		}
		entries, whole, err := l.entries(ctx, q, dir, line, known)
		if err != nil || whole || try >= 3 && len(entries) > 0 {
			return entries, err
		}
	}
}

// entries reads those of the contenders that are not known yet, which it adds to
// known, and returns those that exist in the order of their creation. It returns
// false if some don't.
func (l *link) entries(ctx context.Context, q driver.Queue, dir string, line []contender, known map[string]driver.Entry) ([]driver.Entry, bool, error) {
	var mu sync.Mutex
	entries := make([]driver.Entry, 0, len(line))
	err := each(ctx, len(line), func(ctx context.Context, i int) error {
		mu.Lock()
		entry, ok := known[line[i].name]
		mu.Unlock()
		if !ok {
			n, err := l.get(ctx, dir+"/"+line[i].name)
			if errors.Is(err, gozk.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			entry = entryOf(q, line[i].name, n)
		}
		mu.Lock()
		defer mu.Unlock()
		known[entry.ID] = entry
		entries = append(entries, entry)
		return nil
	})
	slices.SortFunc(entries, func(a, b driver.Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	return entries, len(entries) == len(line), err
}

// byCreation orders contenders whose numbers don't tell their order. Those that
// have gone in the meantime are left out.
func (l *link) byCreation(ctx context.Context, dir string, line []contender) ([]contender, error) {
	err := each(ctx, len(line), func(ctx context.Context, i int) error {
		stat, err := l.stat(ctx, dir+"/"+line[i].name)
		switch {
		case errors.Is(err, gozk.ErrNoNode):
			return nil
		case err != nil:
			return err
		}
		line[i].czxid = stat.Czxid
		return nil
	})
	line = slices.DeleteFunc(line, func(c contender) bool { return c.czxid == 0 })
	slices.SortFunc(line, func(a, b contender) int { return cmp.Compare(a.czxid, b.czxid) })
	return line, err
}

// each calls f for 0 to n-1, some at a time, and returns the first error.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	room := make(chan struct{}, readers)
	for i := range n {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			if err := f(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
