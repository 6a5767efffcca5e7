package driver

import (
	"context"
	"errors"
	"strings"
	"time"
)

// The errors that an engine reports by wrapping them.
var (
	// ErrGone says that an entry is not in its queue any more, by the word of the
	// service. Leave and Ahead return it.
	ErrGone = errors.New("entry is gone")

	// ErrSessionOver says that the service has ended the session, so that none of
	// its entries exist. Any method of a Session may return it.
	ErrSessionOver = errors.New("session is over")

	// ErrDenied says that the service refused the credentials, or that they do not
	// permit the call. Trying again does not help.
	ErrDenied = errors.New("access denied")

	// ErrRefused says that the service has answered that it can't do the request,
	// such as for want of space: it was not done and will not be. Trying again does
	// not help until something else changes. Swap and Update return it.
	ErrRefused = errors.New("refused")

	// ErrConflict says that a register is not as the caller of Swap believed.
	ErrConflict = errors.New("register has changed")

	// ErrClosed says that the store, or the client under it, was closed.
	ErrClosed = errors.New("closed")
)

// A Store is one client's access to one linearizable service.
// All its methods may be called at the same time.
type Store interface {
	// Engine is the name that people know the service by: "etcd", "zookeeper".
	// It is shown, and never compared.
	Engine() string

	// Connect opens a new session and returns when the service has confirmed it.
	// The context bounds the opening only, not the life of the session.
	// A store has one session at a time: recipes calls Connect again only after
	// the previous session is over, or its Close was called.
	Connect(ctx context.Context) (Session, error)

	// List returns the entries in scope, each queue's in order of revision, the
	// queues in any order. It is linearizable: what a call to Enter or Leave that
	// returned before List began has done is seen.
	List(ctx context.Context, scope Scope) ([]Entry, error)

	// Watch reports the entries in scope and each change to them until the
	// context ends, whose error it then returns. It calls sink from one goroutine
	// at a time, in this order: Reset, a Put for each entry, Synced, then Puts and
	// Deletes as they happen. Intermediate states may be left out, the final state
	// may not. When changes could have been missed it starts over with Reset; when
	// the service cannot be reached it calls sink with Lost and goes on trying.
	// It returns other errors only when trying again cannot help.
	Watch(ctx context.Context, scope Scope, sink func(Event)) error

	// Swap makes, replaces or removes the value of a register: a queue with at most
	// one entry, which belongs to no session. old is that entry as List, Watch or
	// Swap returned it, or one with Queue alone if there is none; a nil value
	// removes it. It returns the new entry, whose Revision is larger than that of
	// any earlier value, also after the register was removed and made again.
	//
	// It returns ErrConflict if the register is not as old says, with the entry that is
	// there instead, as of a moment after Swap was called: with Queue alone if there is
	// none, and the zero Entry if the engine does not know. After ErrRefused the value was not
	// written. After any other error it may or may not have been, now or within moments.
	Swap(ctx context.Context, old Entry, value []byte) (Entry, error)

	// Close ends what the store itself has opened, after its session was closed.
	// It does not close a client that the user handed in.
	Close() error
}

// A Session is what the service regards as one living client. Its entries
// exist as long as it does. All its methods may be called at the same time.
type Session interface {
	Life
	Line

	// Close removes every entry that the session still has and frees what the
	// engine keeps for it. It ends the session on the service too, unless that
	// belongs to a client handed in by the user. nil means that the service has
	// confirmed it, or that the session was over. After an error the engine keeps
	// nothing running all the same, and Close may be called again. No other method
	// is called after Close.
	Close(ctx context.Context) error
}

// Life is a session's being alive.
type Life interface {
	// ID names the session as the service's own tools show it.
	ID() string

	// TTL is how long the session surely lasts after the start of a successful
	// Renew, or of the Connect that made it. It is already reduced by whatever the
	// service may deduct, and constant for the life of the session.
	TTL() time.Duration

	// Done is closed when the engine knows that the service has ended the
	// session. It may stay open when the service cannot be reached: deadlines do
	// not depend on it.
	Done() <-chan struct{}

	// Renew proves to the service that the session is alive, and to the caller
	// that the service knew it to be at some moment after the call began. A Renew
	// that fails otherwise than with ErrSessionOver has proved nothing.
	Renew(ctx context.Context) error
}

// Line is a session's part in queues.
type Line interface {
	// Enter adds an entry with the given value to the end of a queue. It returns
	// the entry, and the entry directly ahead of it if there is one, both as of
	// one moment after the entry was made. Of the one ahead only Queue and ID are
	// set where the engine has not read it.
	//
	// Enter settles lost replies by the entry's identity. It returns an error only
	// when it knows that the entry does not exist and never will, or when its
	// context has ended. Recipes calls it with a context that ends with the
	// session; whatever Enter has left undecided then is for Close to remove.
	Enter(ctx context.Context, queue Queue, value []byte) (own Entry, ahead *Entry, err error)

	// Ahead returns the entry directly ahead of own, or nil if own is the first.
	// It returns ErrGone if own is not in the queue.
	Ahead(ctx context.Context, own Entry) (*Entry, error)

	// Await returns when the entry is gone from its queue, or has another Version
	// than the given one. It sends nothing while it waits, and is woken by this
	// entry alone. It may return early; the caller looks in any case. It does not
	// watch the session.
	Await(ctx context.Context, other Entry) error

	// Update replaces the value of the own entry, which keeps its place and its
	// Revision. It returns the entry as it is now, ErrGone, or ErrRefused. When the reply
	// was lost it may return that error; doing it again does no harm.
	Update(ctx context.Context, own Entry, value []byte) (Entry, error)

	// Leave removes own if it is still the entry that Enter made, and never
	// another. It returns ErrGone if the service says that it was not there. When
	// the reply was lost it may return that error: recipes then calls it again,
	// and knows what ErrGone means after a call whose outcome is unknown.
	//
	// It removes an entry of another session too, if that came from List.
	Leave(ctx context.Context, own Entry) error
}

// An Advancer is a Session that can wait and look in one: after what was ahead is
// gone it knows what is ahead then, without a request. With other sessions Await
// and then Ahead do the same.
type Advancer interface {
	// Advance waits for ahead, as Await does, and returns what is directly ahead of
	// own then, or nil if own is the first. As with Ahead, own was in the queue at
	// some moment after ahead was gone, and the error is ErrGone if it was not. It may
	// return early, with an entry that is still there.
	Advance(ctx context.Context, own, ahead Entry) (*Entry, error)
}

// A Queue names a queue: either by Space and Name, laid out under the store's
// root, or by a Raw path of the service that others use too.
type Queue struct {
	Space string // the family of recipes, such as SpaceLock
	Name  string // the name as the user wrote it
	Raw   string // a path of the service, taken as it is; Space and Name are then empty
}

// The spaces of package recipes. Each recipe has names of its own, but for those
// that are held exclusively or shared under one name.
const (
	SpaceLock     = "lock"     // of Mutex, RWMutex, Semaphore
	SpaceRegister = "register" // of Register
	SpaceCounter  = "counter"  // registers with the numbers of counters
	SpaceLimit    = "limit"    // registers with the limits of semaphores
	SpaceLatch    = "latch"    // registers with the counts of latches
	SpaceBarrier  = "barrier"  // registers with a value while a barrier is set
	SpaceGroup    = "group"    // of Group
	SpaceOnce     = "once"     // those who run operations of a Once, by the key as its part
	SpaceResult   = "result"   // registers with the results of those
	SpaceJob      = "job"      // registers with what package job remembers of its jobs
	SpaceRate     = "rate"     // registers with the limiters of package ratelimit

	SpaceItem  = "item"  // registers with the items of a Queue, each a part of it
	SpaceClaim = "claim" // who works on an item, by the same name
	SpaceTurn  = "turn"  // who waits for an item, by the name of the Queue

	SpaceInbox = "inbox" // what is asked of a session, under the session's ID

	SpaceDoubleBarrier = "double-barrier" // who is inside, and who waits to be
	SpaceRound         = "round"          // registers with the rounds of double barriers

	SpacePartition = "partition" // the members of a Partition
	SpaceShard     = "shard"     // who has a shard, by the name of the Partition and the number
)

// PartSeparator is between a name as the user wrote it and the name of a part of
// that, where a recipe has a queue for each part. Names can't contain it, so those of
// the parts begin with the name that they belong to, and with no other.
const PartSeparator = "\x00"

// A Scope selects queues of a space: the one called Name or, with Prefix, all
// whose names begin with it. With Prefix and an empty Space it selects those of all
// spaces. With Raw it is that one queue.
type Scope struct {
	Space  string
	Name   string
	Prefix bool
	Raw    string
	First  bool // for List: only the first entry of each queue is wanted; more is allowed
	Lazy   bool // for Watch: nothing is sent while nothing happens, so a break that nobody tells of may go unnoticed
}

// Has reports whether the queue is in scope.
func (s Scope) Has(q Queue) bool {
	if s.Raw != "" || q.Raw != "" {
		return s.Raw == q.Raw
	}
	if s.Prefix {
		return (s.Space == q.Space || s.Space == "") && strings.HasPrefix(q.Name, s.Name)
	}
	return s.Space == q.Space && s.Name == q.Name
}

// An Entry is one place in a queue.
type Entry struct {
	Queue Queue

	// ID names the entry within its queue. It is never used for a second entry.
	ID string

	// Revision is the version of the service at which the entry was made: etcd's
	// create revision, ZooKeeper's czxid. It orders the queue. An entry just made
	// may carry a later revision of the service instead, provided that no other
	// entry of the queue could have been made in between.
	Revision uint64

	// Version is the version of the service at which the value was last written.
	// It begins as Revision, or the revision that Revision stands for.
	Version uint64

	// Token is the fencing token of an entry that stands for a lease, see Leaser. It
	// is 0 for one in a queue, whose token is made from its Revision.
	Token uint64

	// Session is the ID of the session that the entry belongs to, "" if unknown or
	// none.
	Session string

	// Value is what was given to Enter; for an entry that another program made,
	// whatever it wrote. It is nil where the engine has not read it.
	Value []byte

	// Created is when the service made the entry, by its clock, where it tells.
	Created time.Time

	// Handle is for the engine that made the value; nobody else looks at it.
	Handle any
}

// An EventType says what an Event reports.
type EventType int

// The types of events, see Store.Watch.
const (
	Reset  EventType = iota + 1 // forget all entries; the ones that exist follow
	Put                         // an entry is new or has changed
	Delete                      // an entry is gone; only Queue and ID are set
	Synced                      // all that existed since the last Reset were reported
	Lost                        // the service can't be reached; what is known may be out of date
)

// An Event is one message of Store.Watch.
type Event struct {
	Type  EventType
	Entry Entry
	Err   error // with Lost: what happened
}
