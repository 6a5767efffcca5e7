package recipes

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Filter selects objects. The zero value selects all.
type Filter struct {
	// Kinds are the kinds to select; KindLock stands for all kinds of locks. Defaults
	// to all kinds.
	Kinds []Kind
	// Name selects the objects called exactly so.
	Name string
	// Prefix selects those whose names begin with it. Give either Name or Prefix.
	Prefix string
}

func (f Filter) validate() error {
	if problem := textProblem(f.Prefix, driver.MaxName); problem != "" {
		return &InvalidError{Field: "Filter.Prefix", Problem: problem}
	}
	if f.Name == "" {
		return nil
	}
	if f.Prefix != "" {
		return &InvalidError{Field: "Filter.Prefix", Problem: "is given beside Name"}
	}
	return validateName(f.Name)
}

// spaces are where the kinds are stored.
func spaces(kinds []Kind) []string {
	var spaces []string
	for _, kind := range kinds {
		for _, space := range kind.spaces() {
			if !slices.Contains(spaces, space) {
				spaces = append(spaces, space)
			}
		}
	}
	return spaces
}

// scope covers what is selected of a space, or with "" of all.
func (f Filter) scope(space string) driver.Scope {
	switch {
	case f.Name == "":
		return driver.Scope{Space: space, Name: f.Prefix, Prefix: true}
	case space == "" || parted(space):
		return driver.Scope{Space: space, Name: f.Name, Prefix: true}
	}
	return driver.Scope{Space: space, Name: f.Name}
}

// has reports whether the object is selected. Its name is known to have the prefix.
func (f Filter) has(o Object) bool {
	if f.Name != "" && o.Name != f.Name {
		return false
	}
	return len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, func(kind Kind) bool {
		return kind == o.Kind || kind == KindLock && o.Kind.Family() == KindLock
	})
}

// Objects returns the objects that the filter selects, sorted by name and then by
// kind: what has entries, or is stored. Locks made with MutexOptions.Path are not among
// them, nor are the values of work items. Each queue of the service is as of one moment,
// not all as of the same.
//
// It needs no session. It reads all that the objects are made of: one read on etcd, or
// with Kinds or Name one for each space that they can be in, one to three for each kind;
// and on ZooKeeper one for each space, queue and entry. It returns ErrUnavailable,
// ErrDenied, ErrClosed, ErrInvalid or the context's error.
func (c *Client) Objects(ctx context.Context, filter Filter) ([]Object, error) {
	if err := filter.validate(); err != nil {
		return nil, err
	}
	within := spaces(filter.Kinds)
	switch {
	case within != nil:
	case filter.Name == "":
		within = []string{""}
	default: // of a name there is little, whatever else there is
		within = spaces(Kinds())
	}
	p := newPicture(partOf, filter)
	p.apply(driver.Event{Type: driver.Reset})
	for _, space := range within {
		entries, err := c.list(ctx, filter.scope(space))
		if err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
		for _, e := range entries {
			p.apply(driver.Event{Type: driver.Put, Entry: e})
		}
	}
	p.apply(driver.Event{Type: driver.Synced})
	return p.objects(), nil
}

// Lock returns the lock called name, whatever its kind; it has no entries if nobody
// wants it. Of a semaphore it has no State. It is one read, of the queue alone. Errors
// are those of Objects.
func (c *Client) Lock(ctx context.Context, name string) (Object, error) {
	if err := validateName(name); err != nil {
		return Object{}, err
	}
	entries, err := c.list(ctx, driver.Scope{Space: driver.SpaceLock, Name: name})
	if err != nil {
		return Object{}, fmt.Errorf("look at lock %q: %w", name, err)
	}
	lock := &lockModel{}
	for _, e := range entries {
		lock.put(e, "")
	}
	return lock.look(name), nil
}

func (c *Client) list(ctx context.Context, scope driver.Scope) ([]driver.Entry, error) {
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	entries, err := c.store.List(ctx, scope)
	return entries, fault(err)
}
