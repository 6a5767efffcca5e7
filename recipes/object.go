package recipes

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// An Object is what can be seen of one lock, group, queue, register, or whatever else
// a recipe has made, at one moment. Client.Objects lists objects, Client.Watch follows
// them. What is in it was written by other processes: treat it as untrusted text. It is
// shared with others: do not change it.
type Object struct {
	// Kind is the recipe. That of a lock is the kind of the first entry, so it can
	// change while the lock is the same one.
	Kind Kind
	Name string
	// Entries are those who take part, as long as they live: first the Holders, who
	// have what they came for, then the Waiters, each in order.
	Entries []Entry
	// Holding is how many of the entries are holders.
	Holding int
	// HeldSince is since when the present holder of a lock holds it. Watch reports the
	// moment at which it saw the lock change hands, by the local clock. Before it saw
	// that, and from Objects and Lock, it is when the holder joined the queue, which is
	// earlier if it had to wait. It is zero for other kinds.
	HeldSince time.Time
	// State is what is stored beside the entries: a SemaphoreState, JobState, QueueState,
	// RegisterState (of a register or a counter), LatchState, BarrierState,
	// DoubleBarrierState, OnceState or LimiterState. It is nil for other kinds, and where nothing is
	// stored.
	State State
}

// Key names the object among all of a client's. It stays the same while the kind of a
// lock changes.
func (o Object) Key() string { return string(o.Kind.Family()) + "/" + o.Name }

// Gone reports whether there is nothing of the object: nobody takes part, and nothing is
// stored.
func (o Object) Gone() bool { return len(o.Entries) == 0 && o.State == nil }

// Holders are the entries that hold the lock: the first, and if that is shared those
// behind it that are shared too, or if it is a semaphore's those behind it that have
// their permits as well. Of a group they are all members, of a queue the workers that
// have an item, of a double barrier those inside, and of a Once those who run the
// operation of a key.
func (o Object) Holders() []Entry { return o.Entries[:o.Holding] }

// Waiters are the entries that wait: for the lock, for an item, for the round to begin,
// or for the operation of their key to be done.
func (o Object) Waiters() []Entry { return o.Entries[o.Holding:] }

// An Entry is one who takes part in an object, as seen from outside.
// Everything in it but ID, Session and Token was written by another process:
// treat it as untrusted text.
type Entry struct {
	ID      string    // names the entry within its object
	Session string    // the session it lives in, as the service's own tools show it
	Kind    Kind      // the recipe that made it; "" for another program's entry
	Part    string    // the item of a queue that it works on, the key of a Once that it is for, or the shard of a partition
	Shared  bool      // it holds together with other shared entries
	Permits int       // how many of a semaphore's permits it takes; 0 for other kinds
	Owner   Owner     // who it says it is
	Since   time.Time // when it joined the queue, by its own clock or else the service's
	// Token is the fencing token of the holder, or what it will be at the least
	// once the entry holds the lock; it is below the tokens of all entries behind.
	Token uint64
	// Published is what the entry's owner shows, as JSON, nil for nothing: see
	// Hold.Publish. Of a group's member it is the metadata.
	Published json.RawMessage
	// Value is what another program wrote, for entries whose Kind is "".
	Value []byte

	quota  quota
	stored driver.Entry
}

// A Role says what part an entry has in its object.
type Role string

// The roles of entries. A Kind has one for holders, and may have one for waiters.
const (
	RoleHolder Role = "holder" // holds the lock, or is first in line for an election
	RoleMember Role = "member" // is in the group or the partition
	RoleOwner  Role = "owner"  // owns the shard
	RoleInside Role = "inside" // is in the round of the double barrier
	RoleWorker Role = "worker" // works on the item, or runs the operation of the key
	RoleWaiter Role = "waiter"
)

// Role is the part that the entry with that index has.
func (o Object) Role(i int) Role {
	if i >= o.Holding {
		return RoleWaiter
	}
	switch o.Kind.Family() {
	case KindGroup:
		return RoleMember
	case KindPartition:
		if o.Entries[i].Part != "" {
			return RoleOwner
		}
		return RoleMember
	case KindDoubleBarrier:
		return RoleInside
	case KindQueue, KindOnce:
		return RoleWorker
	}
	return RoleHolder
}

// Summary says in one line how the object is, at that time of day, for people. Who
// waits is not in it. It has texts of other processes as they wrote them.
func (o Object) Summary(now time.Time) string {
	switch {
	case o.State != nil:
		return o.State.summary(o, now)
	case o.Kind == KindGroup:
		return count(len(o.Entries), "member")
	case o.Kind.Family() == KindLock && len(o.Entries) > 0:
		return o.held()
	case o.Kind.Family() == KindLock:
		return "free"
	case o.Gone():
		return "gone"
	case o.Kind == KindPartition:
		return o.divided()
	}
	return o.busy()
}

// held says who holds a lock.
func (o Object) held() string {
	verb := "held by "
	if o.Entries[0].Shared {
		verb = "shared by "
	}
	return verb + o.others()
}

// others names the first entry and counts the other holders.
func (o Object) others() string {
	who := o.Entries[0].Owner.String()
	if o.Entries[0].Kind == "" {
		who = "another program"
	}
	if o.Holding > 1 {
		who += fmt.Sprintf(" and %d more", o.Holding-1)
	}
	return who
}

// divided counts the members of a partition, and the shards that they own.
func (o Object) divided() string {
	members := 0
	for i := range o.Holding {
		if o.Role(i) == RoleMember {
			members++
		}
	}
	return fmt.Sprintf("%s, %s owned", count(members, "member"), count(o.Holding-members, "shard"))
}

// busy counts the holders of an object that has nothing stored.
func (o Object) busy() string {
	if o.Kind == KindDoubleBarrier {
		return fmt.Sprintf("%d inside", o.Holding)
	}
	return fmt.Sprintf("%d running", o.Holding)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
