package recipes

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A model puts an object together from its parts, as a list or a watch tells of them.
// To have a new recipe seen, give it a Kind, and a model if none of these fits.
type model interface {
	// put takes in an entry that is new or has changed. part is what partOf says.
	put(e driver.Entry, part string)
	// remove takes in that an entry is gone.
	remove(q driver.Queue, part, id string)
	// look returns the object as it is now, which does not change any more.
	look(name string) Object
	// empty reports whether no part is known. Parts come and go in any order, so an
	// object that is not there yet, or not any more, may have some.
	empty() bool
}

// newModel makes the model of a family, or with "" that of a queue by itself.
func newModel(family Kind) model {
	switch family {
	case KindGroup:
		return &groupModel{}
	case KindPartition:
		return &partitionModel{shards: map[string]*queue{}}
	case KindQueue:
		return newQueueModel()
	case KindRegister, KindCounter:
		return &valueModel{kind: family, read: readRegisterState}
	case KindLatch:
		return &valueModel{kind: family, read: readLatchState}
	case KindBarrier:
		return &valueModel{kind: family, read: readBarrierState}
	case KindLimiter:
		return &valueModel{kind: family, read: readLimiterState}
	case KindDoubleBarrier:
		return &roundModel{}
	case KindOnce:
		return &onceModel{keys: map[string]*queue{}}
	}
	return &lockModel{alone: family == ""}
}

// A queue is the picture of one queue, kept in order. The slices that it hands
// out stay as they are: entries are added behind the end of what was handed out,
// and whatever else changes is copied first, once.
type queue struct {
	entries []Entry
	lent    bool // entries were handed out
}

func readEntry(e driver.Entry) Entry {
	entry := Entry{ID: e.ID, Session: e.Session, Since: e.Created, Token: token(e), stored: e}
	if n, ok := readNote(e.Value); ok {
		entry.Kind, entry.Owner, entry.Since = n.Kind, n.Owner, n.Since
		entry.Shared, entry.Published = n.Mode == modeShared, n.Published
		entry.quota, entry.Permits = n.quota, n.Permits
	} else {
		entry.Value = e.Value
	}
	return entry
}

// put adds an entry in order, or replaces the one with its ID.
func (q *queue) put(entry Entry) {
	same := func(e Entry) bool { return e.ID == entry.ID }
	if i := slices.IndexFunc(q.entries, same); i >= 0 {
		q.unshare()
		q.entries[i] = entry
		return
	}
	i := len(q.entries)
	for i > 0 && q.entries[i-1].Token > entry.Token {
		i--
	}
	if i == len(q.entries) {
		q.entries = append(q.entries, entry)
		return
	}
	q.unshare()
	q.entries = slices.Insert(q.entries, i, entry)
}

func (q *queue) unshare() {
	if q.lent {
		q.entries, q.lent = slices.Clone(q.entries), false
	}
}

func (q *queue) remove(id string) {
	i := slices.IndexFunc(q.entries, func(e Entry) bool { return e.ID == id })
	switch {
	case i < 0:
	case i == 0:
		q.entries = q.entries[1:]
	default:
		q.unshare()
		q.entries = slices.Delete(q.entries, i, i+1)
	}
}

// lend hands the entries out.
func (q *queue) lend() []Entry {
	q.lent = true
	return q.entries[:len(q.entries):len(q.entries)]
}

// A cell is the picture of a register: what was made of its value. Where a write is
// one entry that goes and one that comes, both may show for a moment.
type cell[T any] struct {
	values []cellValue[T] // the latest last
}

type cellValue[T any] struct {
	id       string
	revision uint64
	value    T
}

func (c *cell[T]) put(e driver.Entry, value T) {
	c.remove(e.ID)
	c.values = append(c.values, cellValue[T]{e.ID, e.Revision, value})
	slices.SortFunc(c.values, func(a, b cellValue[T]) int { return cmp.Compare(a.revision, b.revision) })
}

func (c *cell[T]) remove(id string) {
	c.values = slices.DeleteFunc(c.values, func(v cellValue[T]) bool { return v.id == id })
}

// latest is the present value, the zero value if there is none.
func (c *cell[T]) latest() (value T) {
	if n := len(c.values); n > 0 {
		value = c.values[n-1].value
	}
	return value
}

func (c *cell[T]) empty() bool { return len(c.values) == 0 }

// readStored reads a register's value into a value of the recipe's. What can't be read
// leaves that as it is.
func readStored[T any](e driver.Entry) (value T, written Written) {
	var env envelope
	written.Version = e.Revision
	if json.Unmarshal(e.Value, &env) == nil {
		written.By, written.At = env.By, env.At
		if json.Unmarshal(env.Value, &value) != nil {
			value = *new(T)
		}
	}
	return value, written
}

func readRegisterState(e driver.Entry) State {
	value, written := readStored[json.RawMessage](e)
	return RegisterState{written, value}
}

func readLatchState(e driver.Entry) State {
	s, written := readStored[latchState](e)
	return LatchState{written, s.Total, s.Left}
}

func readBarrierState(e driver.Entry) State {
	_, written := readStored[struct{}](e)
	return BarrierState{written}
}

func readJobState(e driver.Entry) State {
	record, written := readStored[json.RawMessage](e)
	return JobState{written, record}
}

func readLimiterState(e driver.Entry) State {
	record, written := readStored[json.RawMessage](e)
	return LimiterState{written, record}
}

func readSemaphoreState(e driver.Entry) State {
	limit, written := readStored[int](e)
	return SemaphoreState{written, limit}
}

func readOnceState(e driver.Entry) State {
	results, written := readStored[[]struct {
		Key string `json:"key"`
	}](e)
	s := OnceState{Written: written}
	for _, r := range results {
		s.Keys = append(s.Keys, r.Key)
	}
	return s
}

// A valueModel is that of a register.
type valueModel struct {
	kind Kind
	read func(e driver.Entry) State
	cell cell[State]
}

func (m *valueModel) put(e driver.Entry, _ string)               { m.cell.put(e, m.read(e)) }
func (m *valueModel) remove(_ driver.Queue, _ string, id string) { m.cell.remove(id) }
func (m *valueModel) look(name string) Object {
	return Object{Kind: m.kind, Name: name, State: m.cell.latest()}
}
func (m *valueModel) empty() bool { return m.cell.empty() }

// A groupModel is that of a group: whoever is there is a member.
type groupModel struct{ members queue }

func (m *groupModel) put(e driver.Entry, _ string)               { m.members.put(readEntry(e)) }
func (m *groupModel) remove(_ driver.Queue, _ string, id string) { m.members.remove(id) }
func (m *groupModel) look(name string) Object {
	members := m.members.lend()
	return Object{Kind: KindGroup, Name: name, Entries: members, Holding: len(members)}
}
func (m *groupModel) empty() bool { return len(m.members.entries) == 0 }

// A partitionModel is that of a partition: its members, and a queue for each shard.
type partitionModel struct {
	members queue
	shards  map[string]*queue
}

func (m *partitionModel) put(e driver.Entry, part string) {
	entry := readEntry(e)
	if e.Queue.Space == driver.SpacePartition {
		m.members.put(entry)
		return
	}
	entry.Part = part
	putInto(m.shards, part, entry)
}

func (m *partitionModel) remove(q driver.Queue, part, id string) {
	if q.Space == driver.SpacePartition {
		m.members.remove(id)
	} else {
		removeFrom(m.shards, part, id)
	}
}

// look has the members first, and then who owns each shard.
func (m *partitionModel) look(name string) Object {
	owners, waiting := firstOfEach(m.shards)
	slices.SortFunc(owners, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(len(a.Part), len(b.Part)), cmp.Compare(a.Part, b.Part)) // they are numbers
	})
	o := Object{Kind: KindPartition, Name: name, Entries: slices.Concat(m.members.entries, owners, waiting)}
	o.Holding = len(o.Entries) - len(waiting)
	return o
}

func (m *partitionModel) empty() bool { return len(m.members.entries) == 0 && len(m.shards) == 0 }

// firstOfEach divides the entries of several queues: who is the first, and who waits
// behind, each by their tokens.
func firstOfEach(queues map[string]*queue) (first, waiting []Entry) {
	for _, q := range queues {
		first = append(first, q.entries[0])
		waiting = append(waiting, q.entries[1:]...)
	}
	slices.SortFunc(first, byToken)
	slices.SortFunc(waiting, byToken)
	return first, waiting
}

// A lockModel is that of a lock: a queue, and the limit if it is a semaphore's, or what
// is remembered if it is a job's.
type lockModel struct {
	alone bool // it is a queue by itself, whatever its space
	queue queue
	limit cell[State]
	job   cell[State]

	headID string
	since  time.Time // when headID was seen to become first; zero if that was not seen
}

func (m *lockModel) put(e driver.Entry, _ string) {
	switch {
	case m.alone:
		m.queue.put(readEntry(e))
	case e.Queue.Space == driver.SpaceLimit:
		m.limit.put(e, readSemaphoreState(e))
	case e.Queue.Space == driver.SpaceJob:
		m.job.put(e, readJobState(e))
	default:
		m.queue.put(readEntry(e))
	}
}

func (m *lockModel) remove(q driver.Queue, _ string, id string) {
	switch {
	case m.alone:
		m.queue.remove(id)
	case q.Space == driver.SpaceLimit:
		m.limit.remove(id)
	case q.Space == driver.SpaceJob:
		m.job.remove(id)
	default:
		m.queue.remove(id)
	}
}

// turn notes who is first now, and since when if that was seen to change.
func (m *lockModel) turn(now time.Time) {
	id := ""
	if len(m.queue.entries) > 0 {
		id = m.queue.entries[0].ID
	}
	if id != m.headID {
		m.headID, m.since = id, now
	}
}

// succeed takes over what an earlier picture knows of a holder that is first still.
func (m *lockModel) succeed(earlier *lockModel) {
	if earlier.headID == m.headID {
		m.since = earlier.since
	}
}

func (m *lockModel) look(name string) Object {
	o := Object{Name: name, Entries: m.queue.lend(), HeldSince: m.since, State: m.limit.latest()}
	o.Kind, o.Holding = m.kind(), holdersOf(o.Entries)
	if job := m.job.latest(); job != nil && (o.Kind == KindJob || o.State == nil) {
		o.State = job
	}
	if o.HeldSince.IsZero() && len(o.Entries) > 0 {
		o.HeldSince = o.Entries[0].Since
	}
	return o
}

func (m *lockModel) empty() bool {
	return len(m.queue.entries) == 0 && m.limit.empty() && m.job.empty()
}

// kind is that of the first entry, unless that says what a lock can't be.
func (m *lockModel) kind() Kind {
	switch {
	case len(m.queue.entries) > 0:
		if kind := m.queue.entries[0].Kind; kind.plain() && kind.Family() == KindLock {
			return kind
		}
	case !m.job.empty():
		return KindJob
	case !m.limit.empty():
		return KindSemaphore
	}
	return KindLock
}

// holdersOf is how many of a lock's entries hold it.
func holdersOf(queue []Entry) int {
	n := min(1, len(queue))
	if n > 0 && queue[0].Permits > 0 {
		return max(1, admitted(queue))
	}
	for n > 0 && n < len(queue) && queue[n-1].Shared && queue[n].Shared {
		n++
	}
	return n
}

// A roundModel is that of a double barrier.
type roundModel struct {
	queue  queue
	rounds cell[*storedRounds]
}

type storedRounds struct {
	rounds
	written Written
}

func readRounds(e driver.Entry) *storedRounds {
	r, written := readStored[rounds](e)
	return &storedRounds{r, written}
}

func (m *roundModel) put(e driver.Entry, _ string) {
	if e.Queue.Space == driver.SpaceRound {
		m.rounds.put(e, readRounds(e))
	} else {
		m.queue.put(readEntry(e))
	}
}

func (m *roundModel) remove(q driver.Queue, _ string, id string) {
	if q.Space == driver.SpaceRound {
		m.rounds.remove(id)
	} else {
		m.queue.remove(id)
	}
}

// look leaves out those who have given up and are about to leave.
func (m *roundModel) look(name string) Object {
	o := Object{Kind: KindDoubleBarrier, Name: name}
	var round rounds
	if s := m.rounds.latest(); s != nil {
		round = s.rounds
		o.State = DoubleBarrierState{s.written, s.Count, s.Number}
	}
	var waiting []Entry
	for _, e := range m.queue.entries {
		switch {
		case slices.Contains(round.Members, e.ID):
			o.Entries = append(o.Entries, e)
		case !slices.Contains(round.Quit, e.ID):
			waiting = append(waiting, e)
		}
	}
	o.Holding = len(o.Entries)
	o.Entries = append(o.Entries, waiting...)
	return o
}

func (m *roundModel) empty() bool { return len(m.queue.entries) == 0 && m.rounds.empty() }

// A onceModel is that of a Once: a queue for each key, and the results.
type onceModel struct {
	keys    map[string]*queue
	results cell[State]
}

func (m *onceModel) put(e driver.Entry, part string) {
	if e.Queue.Space == driver.SpaceResult {
		m.results.put(e, readOnceState(e))
		return
	}
	entry := readEntry(e)
	entry.Part = part
	putInto(m.keys, part, entry)
}

func (m *onceModel) remove(q driver.Queue, part, id string) {
	if q.Space == driver.SpaceResult {
		m.results.remove(id)
	} else {
		removeFrom(m.keys, part, id)
	}
}

func (m *onceModel) look(name string) Object {
	running, waiting := firstOfEach(m.keys)
	return Object{
		Kind: KindOnce, Name: name, State: m.results.latest(),
		Entries: slices.Concat(running, waiting), Holding: len(running),
	}
}

func (m *onceModel) empty() bool { return len(m.keys) == 0 && m.results.empty() }

func byToken(a, b Entry) int { return cmp.Compare(a.Token, b.Token) }

// putInto adds an entry to one of several queues, which are never empty.
func putInto(queues map[string]*queue, part string, entry Entry) {
	q := queues[part]
	if q == nil {
		q = &queue{}
		queues[part] = q
	}
	q.put(entry)
}

func removeFrom(queues map[string]*queue, part, id string) {
	if q := queues[part]; q != nil {
		if q.remove(id); len(q.entries) == 0 {
			delete(queues, part)
		}
	}
}
