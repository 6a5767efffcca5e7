package recipes

import (
	"slices"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A queueModel is that of a work queue: its items, the claims on them, and the line of
// workers. What it keeps of an item does not have the value.
type queueModel struct {
	stored map[string]*cell[*ItemInfo] // by ID, without the workers
	claims map[string]*queue           // by ID
	line   queue

	// The items as they were last put together, by ID and in order. What was handed
	// out of the order is not changed any more.
	items   map[string]*ItemInfo
	ordered []*ItemInfo
	lent    bool
}

func newQueueModel() *queueModel {
	return &queueModel{stored: map[string]*cell[*ItemInfo]{}, claims: map[string]*queue{}, items: map[string]*ItemInfo{}}
}

func (m *queueModel) put(e driver.Entry, id string) {
	switch e.Queue.Space {
	case driver.SpaceTurn:
		m.line.put(readEntry(e))
		return
	case driver.SpaceClaim:
		entry := readEntry(e)
		entry.Part = id
		putInto(m.claims, id, entry)
	default:
		rec := readRecord(e)
		m.item(e, id, &rec)
		return
	}
	m.arrange(id)
}

// item takes in the entry of an item as it was read.
func (m *queueModel) item(e driver.Entry, id string, rec *itemRecord) {
	c := m.stored[id]
	if c == nil {
		c = &cell[*ItemInfo]{}
		m.stored[id] = c
	}
	c.put(e, rec.info(id))
	m.arrange(id)
}

func (m *queueModel) remove(q driver.Queue, part, id string) {
	switch q.Space {
	case driver.SpaceTurn:
		m.line.remove(id)
		return
	case driver.SpaceClaim:
		removeFrom(m.claims, part, id)
	default:
		if c := m.stored[part]; c != nil {
			if c.remove(id); len(c.values) == 0 {
				delete(m.stored, part)
			}
		}
	}
	m.arrange(part)
}

// arrange puts an item together anew, in its place.
func (m *queueModel) arrange(id string) {
	if m.lent {
		m.ordered, m.lent = slices.Clone(m.ordered), false
	}
	if old := m.items[id]; old != nil {
		i, _ := slices.BinarySearchFunc(m.ordered, old, (*ItemInfo).compare)
		m.ordered = slices.Delete(m.ordered, i, i+1)
		delete(m.items, id)
	}
	stored := m.stored[id]
	if stored == nil {
		return
	}
	item := *stored.latest()
	if claims := m.claims[id]; claims != nil {
		worker := claims.entries[0].Owner
		item.Worker = &worker
	}
	i, _ := slices.BinarySearchFunc(m.ordered, &item, (*ItemInfo).compare)
	m.ordered = slices.Insert(m.ordered, i, &item)
	m.items[id] = &item
}

func (m *queueModel) look(name string) Object {
	o := Object{Kind: KindQueue, Name: name}
	for _, item := range m.ordered {
		if item.Worker != nil {
			o.Entries = append(o.Entries, m.claims[item.ID].entries[0])
		}
	}
	o.Holding = len(o.Entries)
	o.Entries = append(o.Entries, m.line.entries...)
	if len(m.ordered) > 0 || len(o.Entries) > 0 {
		m.lent = true
		o.State = QueueState{m.ordered[:len(m.ordered):len(m.ordered)]}
	}
	return o
}

func (m *queueModel) empty() bool {
	return len(m.stored) == 0 && len(m.claims) == 0 && len(m.line.entries) == 0
}
