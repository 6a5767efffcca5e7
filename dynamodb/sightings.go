package dynamodb

import (
	"maps"
	"sync"
	"time"
)

const (
	sightingsKept = 1000                // before those are dropped that are old
	oldSighting   = 24 * 30 * time.Hour // nobody looks at that lock any more
)

// Sightings are what was seen of locks that others hold, and since when it has not
// changed, by the clock of this process. That is how it is known that a lease has expired:
// DynamoDB has no clock to ask.
type sightings struct {
	mu   sync.Mutex
	all  map[string]sighting // by name
	most int                 // as many as there are before those are dropped that are old
}

type sighting struct {
	owner, version string
	first, last    time.Time
}

// left is for how long the item's holder may still be there. It is called after the item
// was read, so that the time counts from after what was read was written.
func (s *sightings) left(i item) time.Duration {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.all[i.name]
	if !ok || before.version != i.version || before.owner != i.owner {
		if !ok && len(s.all) >= s.most {
			maps.DeleteFunc(s.all, func(_ string, other sighting) bool { return now.Sub(other.last) > oldSighting })
			s.most = max(sightingsKept, 2*len(s.all))
		}
		before = sighting{i.owner, i.version, now, now}
	}
	before.last = now
	s.all[i.name] = before
	if i.lease == 0 {
		return maxLease
	}
	return i.lease - now.Sub(before.first)
}

// has reports whether another was seen to have the lock.
func (s *sightings) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.all[name]
	return ok
}

// forget drops what is known of a lock.
func (s *sightings) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}
