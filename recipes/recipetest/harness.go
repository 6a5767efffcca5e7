package recipetest

import (
	"testing"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// A Server is a running service with an engine on it, as the suite needs it.
// Whatever its methods start they end with the test's Cleanup; whatever goes
// wrong fails the test.
type Server interface {
	// Open makes a client. The suite closes it.
	Open(t testing.TB, o Options) *recipes.Client

	// Link makes a connection to the service that can be disturbed, to be used by
	// one client through Options.Link.
	Link(t testing.TB) Link

	// Expire ends a session as the service does when its TTL has passed. It does
	// not tell the client, beyond what the service itself tells it.
	Expire(t testing.TB, sessionID string)

	// Restart stops the service, waits until it is down, and starts it again on
	// the same address with the same data. Sessions survive if the service lets them.
	Restart(t testing.TB)

	// Cost returns what the service has done so far for all clients, whoever opened
	// them. The suite looks at differences, on a server that nobody else uses.
	Cost(t testing.TB) Cost

	// Foreign puts something into the queue of the lock that is not an entry of any
	// lock, if the service allows such things there.
	Foreign(t testing.TB, root, name string)

	// Reap removes what the service keeps for the empty queue of the lock, as a
	// service that cleans up by itself may do at any time.
	Reap(t testing.TB, root, name string)

	// Remove deletes the first entry of the lock's queue behind its owner's back.
	Remove(t testing.TB, root, name string)

	// Left lists what is stored below the root that is there only while someone
	// holds, waits or has a session: keys, ephemeral nodes, leases.
	Left(t testing.TB, root string) []string
}

// A Guarder is a Server whose engine can make a write to the service itself depend
// on holds. The tests of that are skipped on a Server that is none.
type Guarder interface {
	// GuardedWrite writes the value somewhere in the service, in one request that is
	// guarded by all of the holds, and reports whether it was written. It fails the
	// test if the request fails for another reason than that a hold is over.
	GuardedWrite(t testing.TB, value string, holds ...*recipes.Hold) bool
}

// Options say what client the suite wants.
type Options struct {
	Root  string        // where the client keeps its locks; each test has its own
	TTL   time.Duration // of its session
	Label string        // of its owner
	Link  Link          // to connect through; nil means directly
}

// A Link is a connection to the service that can be disturbed.
type Link interface {
	// StallRequests, StallReplies and StallBoth stop the traffic that way. Nothing
	// is lost: it goes on with Resume.
	StallRequests()
	StallReplies()
	StallBoth()
	Resume()
	// LoseReply delivers the next request, loses its reply and breaks the
	// connection.
	LoseReply()
	// Cut breaks the connection.
	Cut()
}

// Cost is what a service did.
type Cost struct {
	Commits  int // writes, by the service's own count where it has one
	Reads    int // read requests
	Watches  int // requests to watch, where they are not reads
	Renewals int // keep-alives of sessions and of watches, of whatever kind
	Events   int // notifications sent to clients
	Other    int // all other requests
}

// Sub returns the difference.
func (c Cost) Sub(before Cost) Cost {
	return Cost{
		Commits:  c.Commits - before.Commits,
		Reads:    c.Reads - before.Reads,
		Watches:  c.Watches - before.Watches,
		Renewals: c.Renewals - before.Renewals,
		Events:   c.Events - before.Events,
		Other:    c.Other - before.Other,
	}
}

// Limits say what one operation may cost on an engine.
type Limits struct {
	CycleCommits int // an uncontended Lock and Unlock
	CycleReads   int
	WakeReads    int // from a release to the next grant
	TurnReads    int // of each turn, of two clients that take turns as fast as they can
	ViewWatches  int // one Client.Watch of all objects; 0 for one that grows with them
}
