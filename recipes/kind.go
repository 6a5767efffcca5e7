package recipes

import (
	"strings"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Kind says what an Object is: the recipe that made it. It is a word of up to 64
// letters, digits and characters of "-_.~:@+,=".
type Kind string

// maxKind is the greatest length of a kind, in bytes.
const maxKind = 64

// plain reports whether the kind is a word as it should be. Other programs may write
// others.
func (k Kind) plain() bool {
	return k != "" && len(k) <= maxKind && driver.Escape(string(k)) == string(k)
}

// The kinds of objects. MutexOptions.Kind makes more kinds of locks.
const (
	// KindLock is a lock of which no more is known: nobody wants it, or what holds it
	// says no kind, or none of a lock. In a Filter it stands for all kinds of locks.
	KindLock          Kind = "lock"
	KindMutex         Kind = "mutex"
	KindRWMutex       Kind = "rwmutex"
	KindSemaphore     Kind = "semaphore"
	KindElection      Kind = "election" // of package election
	KindJob           Kind = "job"      // of package job
	KindGroup         Kind = "group"
	KindQueue         Kind = "queue"
	KindRegister      Kind = "register"
	KindCounter       Kind = "counter"
	KindLatch         Kind = "latch"
	KindBarrier       Kind = "barrier"
	KindDoubleBarrier Kind = "double-barrier"
	KindOnce          Kind = "once"
	KindPartition     Kind = "partition"
	KindLimiter       Kind = "limiter" // of package ratelimit
)

// Kinds returns the kinds of this package and of packages election, job and ratelimit, KindLock first
// and the kinds of locks before the others.
func Kinds() []Kind {
	return []Kind{
		KindLock, KindMutex, KindRWMutex, KindSemaphore, KindElection, KindJob, KindGroup, KindPartition, KindQueue,
		KindRegister, KindCounter, KindLatch, KindBarrier, KindDoubleBarrier, KindOnce, KindLimiter,
	}
}

// Family is the kind that stands for all that share their names with k: KindLock for
// every kind of lock, and for any other kind that kind. Of one name there is one
// object of each family.
func (k Kind) Family() Kind {
	switch k {
	case KindGroup, KindPartition, KindQueue, KindRegister, KindCounter, KindLatch, KindBarrier, KindDoubleBarrier, KindOnce, KindLimiter:
		return k
	}
	return KindLock
}

// spaces are where the parts of objects of the kind are stored.
func (k Kind) spaces() []string {
	switch k {
	case KindLock:
		return []string{driver.SpaceLock, driver.SpaceLimit, driver.SpaceJob}
	case KindSemaphore:
		return []string{driver.SpaceLock, driver.SpaceLimit}
	case KindJob:
		return []string{driver.SpaceLock, driver.SpaceJob}
	case KindGroup:
		return []string{driver.SpaceGroup}
	case KindPartition:
		return []string{driver.SpacePartition, driver.SpaceShard}
	case KindQueue:
		return []string{driver.SpaceItem, driver.SpaceClaim, driver.SpaceTurn}
	case KindRegister:
		return []string{driver.SpaceRegister}
	case KindCounter:
		return []string{driver.SpaceCounter}
	case KindLatch:
		return []string{driver.SpaceLatch}
	case KindBarrier:
		return []string{driver.SpaceBarrier}
	case KindDoubleBarrier:
		return []string{driver.SpaceDoubleBarrier, driver.SpaceRound}
	case KindOnce:
		return []string{driver.SpaceOnce, driver.SpaceResult}
	case KindLimiter:
		return []string{driver.SpaceRate}
	}
	return []string{driver.SpaceLock}
}

// familyOf is the family of the objects that a space belongs to, "" if what is in it
// is nobody's to see.
func familyOf(space string) Kind {
	switch space {
	case driver.SpaceLock, driver.SpaceLimit, driver.SpaceJob:
		return KindLock
	case driver.SpaceGroup:
		return KindGroup
	case driver.SpacePartition, driver.SpaceShard:
		return KindPartition
	case driver.SpaceItem, driver.SpaceClaim, driver.SpaceTurn:
		return KindQueue
	case driver.SpaceRegister:
		return KindRegister
	case driver.SpaceCounter:
		return KindCounter
	case driver.SpaceLatch:
		return KindLatch
	case driver.SpaceBarrier:
		return KindBarrier
	case driver.SpaceDoubleBarrier, driver.SpaceRound:
		return KindDoubleBarrier
	case driver.SpaceOnce, driver.SpaceResult:
		return KindOnce
	case driver.SpaceRate:
		return KindLimiter
	}
	return ""
}

// An objectKey names an object among all of a client's.
type objectKey struct {
	family Kind
	name   string
}

// A locator says which object a queue of the service is a part of, and which part.
// Of a queue that is nobody's to see it returns no object.
type locator func(q driver.Queue) (key objectKey, part string, ok bool)

// partOf is the locator of objects as people know them.
func partOf(q driver.Queue) (objectKey, string, bool) {
	family := familyOf(q.Space)
	if !parted(q.Space) { // other programs' names can have anything
		return objectKey{family, q.Name}, "", family != ""
	}
	name, part, found := strings.Cut(q.Name, driver.PartSeparator)
	return objectKey{family, name}, part, found
}

// parted reports whether the queues of a space are parts of objects.
func parted(space string) bool {
	return space == driver.SpaceItem || space == driver.SpaceClaim || space == driver.SpaceOnce || space == driver.SpaceShard
}

// itself is the locator that takes each queue for an object of its own.
func itself(q driver.Queue) (objectKey, string, bool) { return objectKey{name: q.Name}, "", true }
