package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Group is a set of members that are alive, each with metadata: the instances of
// a service with their addresses, say. A member that dies leaves when its session
// is over. All methods may be called at the same time.
//
// Joining, an update and leaving are one commit each. A watch costs the service
// one watch, and an event for each change.
type Group struct {
	lockable
}

// Group makes a group called name, by the rules of Client.Mutex. It sends nothing.
// Groups have names of their own. It returns ErrInvalid for a bad name.
func (c *Client) Group(name string) (*Group, error) {
	l, err := c.lockable(name, nil)
	l.queue.Space = driver.SpaceGroup
	return &Group{l}, err
}

// Name is the name of the group.
func (g *Group) Name() string { return g.name }

// A Member is one member of a group as others see it. Owner, Since and Meta were
// written by another process: treat them as untrusted.
type Member struct {
	ID      string    // names this membership; joining again makes another
	Session string    // the session it lives in, as the service's own tools show it
	Owner   Owner     // who it says it is
	Since   time.Time // when it joined, by its own clock
	// Meta is whatever it wants others to know, as JSON; nil for nothing.
	Meta json.RawMessage
}

// Join makes the caller a member, with metadata that is stored as JSON of at most
// 64 KiB; nil means none. A client can join more than once. The context bounds the
// joining only.
//
// It returns ErrInvalid if the metadata can't be stored, ErrUnavailable when no
// session can be opened or the service does not answer before the context ends,
// ErrLost when the session ends, ErrDenied and ErrClosed.
func (g *Group) Join(ctx context.Context, meta any) (*Membership, error) {
	shows, err := publication("meta", meta)
	if err != nil {
		return nil, err
	}
	note := newTemplate(KindGroup, "", g.owner).publishing(shows)
	st, err := g.client.enter(ctx, g.name, g.queue, note.at(time.Now()))
	if err != nil {
		return nil, err
	}
	hold, err := st.grant(ctx, &g.lockable)
	if err != nil {
		return nil, err
	}
	return &Membership{hold}, nil
}

// Members returns the members in the order in which they joined, as of one moment.
// It needs no session. It returns ErrUnavailable, ErrDenied or ErrClosed.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	entries, err := g.client.list(ctx, driver.Scope{Space: g.queue.Space, Name: g.name})
	if err != nil {
		return nil, fmt.Errorf("group %q: %w", g.name, err)
	}
	members := make([]Member, 0, len(entries))
	for _, e := range entries {
		if m, ok := readMember(e); ok {
			members = append(members, m)
		}
	}
	return members, nil
}

// readMember reads a member's entry. Those of other programs give ok == false.
func readMember(e driver.Entry) (m Member, ok bool) {
	n, ok := readNote(e.Value)
	if !ok || n.Kind != KindGroup {
		return m, false
	}
	return Member{ID: e.ID, Session: e.Session, Owner: n.Owner, Since: n.Since, Meta: n.Published}, true
}

// Watch yields the members as they are, and again after each change: who joined,
// left, died, or has other metadata. A consumer that is slower than the changes
// gets the latest state and not every one in between; the final state is never
// missed, whatever happens to the connection. While the service can't be reached
// it yields nothing.
//
// The slices are in the order of joining and the consumer's to keep. The sequence
// ends as that of Client.Watch does.
func (g *Group) Watch(ctx context.Context) iter.Seq2[[]Member, error] {
	scope := driver.Scope{Space: g.queue.Space, Name: g.name}
	return func(yield func([]Member, error) bool) {
		var last, now []Member
		synced := false
		for change, err := range g.client.follow(ctx, scope) {
			if err != nil {
				yield(nil, fmt.Errorf("group %q: %w", g.name, err))
				return
			}
			first := change.Kind == WatchSynced && !synced
			switch change.Kind {
			case ObjectChanged:
				now = membersOf(change.Object.Entries)
			case WatchSynced:
				synced = true
			}
			if !synced || !first && slices.EqualFunc(last, now, sameMember) {
				continue
			}
			last = slices.Clone(now)
			if !yield(now, nil) {
				return
			}
		}
	}
}

func membersOf(queue []Entry) []Member {
	members := make([]Member, 0, len(queue))
	for _, e := range queue {
		if m, ok := readMember(e.stored); ok {
			members = append(members, m)
		}
	}
	return members
}

func sameMember(a, b Member) bool { return a.ID == b.ID && string(a.Meta) == string(b.Meta) }

// A Membership is the caller's own being a member, from Join to Leave. The zero
// value is of no use. All methods may be called at the same time.
type Membership struct {
	hold *Hold
}

// ID is the ID that others see in Member.
func (m *Membership) ID() string { return m.hold.entry.ID }

// Context ends when the membership is lost with its session, before others see it
// gone, or when Leave begins. See Hold.Context. A lost membership does not come
// back by itself: join again.
func (m *Membership) Context() context.Context { return m.hold.Context() }

// Deadline is when the membership is lost if no further renewal succeeds.
func (m *Membership) Deadline() time.Time { return m.hold.Deadline() }

// Update replaces the metadata; the place in the order stays. Updates at the same
// time are done one after the other. It returns ErrInvalid if the metadata can't be
// stored, ErrLost if the membership is over, or ErrUnavailable with the context's
// error if that ended first: it then may or may not have been done.
func (m *Membership) Update(ctx context.Context, meta any) error {
	shows, err := publication("meta", meta)
	if err != nil {
		return err
	}
	return m.hold.rewrite(ctx, "update the membership of", func(n *note) { n.Published = shows })
}

// Leave ends the membership. It is as Hold.Unlock.
func (m *Membership) Leave(ctx context.Context) error { return m.hold.Unlock(ctx) }
