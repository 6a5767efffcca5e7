package recipes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// requestsAtOnce bounds the requests of a member that are under way, to take shards
	// and to give them up. It does not bound for how many shards it waits.
	requestsAtOnce = 32
	// movesAtOnce bounds how many shards are without work at a time because they are
	// handed over: of many the last are worked on until it is their turn.
	movesAtOnce = 32
)

// errReassigned is the cause of the end of work on a shard that goes to another.
var errReassigned = fmt.Errorf("the shard is assigned to another member: %w", context.Canceled)

// memberNote is what the entries of a partition publish: those of members, and those
// of members that own or want a shard.
type memberNote struct {
	Member  string `json:"member"`
	Shards  int    `json:"shards"`            // of the partition, as far as the member knows
	Weight  int    `json:"weight,omitempty"`  // with members
	Leaving bool   `json:"leaving,omitempty"` // it wants no shards any more
}

// readMemberNote reads what an entry publishes. What is not ours gives ok == false.
func readMemberNote(published json.RawMessage) (n memberNote, ok bool) {
	err := json.Unmarshal(published, &n)
	return n, err == nil && n.Shards > 0
}

// A shardWork is what a member does with each of its shards.
type shardWork func(ctx context.Context, shard *Shard) error

// A partitionMember is a caller of Run from its joining to the end of its session, or
// of the call. The goroutine that calls run has all of it; tenures only read.
type partitionMember struct {
	partition  *Partition
	work       shardWork
	note       memberNote
	membership *Membership
	claim      template      // of its entries in the queues of shards
	room       chan struct{} // has a value for each request under way
	turns      chan struct{} // has a value for each shard that is without work

	begin    time.Time      // it asks for shards from here on
	seen     bool           // the membership was seen by the watch
	missing  bool           // and is not any more
	agreed   bool           // on the number of shards
	others   bool           // there are other members, who stay
	owners   []string       // by shard: the name of the member that it is assigned to
	mine     []bool         // by shard: that is this one
	tenures  []*tenure      // by shard, nil for none
	running  int            // how many there are
	finished chan *tenure   // those whose goroutines are about to end
	handing  sync.WaitGroup // goroutines that hand shards over
}

// join makes a member of the caller.
func (p *Partition) join(ctx context.Context, work shardWork) (*partitionMember, error) {
	m := &partitionMember{
		partition: p, work: work, note: memberNote{Member: p.opts.Member, Shards: p.shards, Weight: p.opts.Weight},
		room: make(chan struct{}, requestsAtOnce), turns: make(chan struct{}, movesAtOnce), finished: make(chan *tenure),
		owners: make([]string, p.shards), mine: make([]bool, p.shards), tenures: make([]*tenure, p.shards),
	}
	if m.note.Member == "" {
		m.note.Member = rand.Text()
	}
	shows, err := publication("PartitionOptions.Member", memberNote{Member: m.note.Member, Shards: p.shards})
	if err != nil {
		return nil, err
	}
	m.claim = newTemplate(kindShard, "", p.client.opts.Owner).publishing(shows)
	if m.membership, err = p.group.Join(ctx, m.note); err != nil {
		return nil, err
	}
	m.begin = time.Now().Add(p.opts.Settle / 2)
	return m, nil
}

// A sighting is what the watch of the members shows, or why it has ended.
type sighting struct {
	members []Member
	err     error
}

// run owns shards until ctx ends, the membership is lost or something is wrong, and
// returns when all work has stopped.
func (m *partitionMember) run(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	sightings := make(chan sighting)
	var watch sync.WaitGroup
	watch.Go(func() {
		for members, err := range m.partition.group.Watch(watching) {
			select {
			case sightings <- sighting{members, err}:
			case <-watching.Done():
				return
			}
		}
	})
	err := m.follow(ctx, sightings)
	if left := m.end(ctx, err, sightings); err == nil {
		err = left
	}
	stop()
	watch.Wait()
	return err
}

// follow has the member own what is assigned to it. It returns nil when ctx ends.
func (m *partitionMember) follow(ctx context.Context, sightings <-chan sighting) error {
	check := time.NewTimer(lookAgain)
	defer check.Stop()
	for {
		var err error
		select {
		case s := <-sightings:
			if err = s.err; err == nil {
				err = m.see(s.members)
			}
		case t := <-m.finished:
			m.forget(t)
			err = t.err
		case <-check.C:
		case <-m.membership.Context().Done():
		case <-ctx.Done():
			return nil
		}
		switch {
		case m.membership.Context().Err() != nil:
			return context.Cause(m.membership.Context())
		case err != nil:
			return err
		case m.missing:
			if err := m.lookFor(ctx); err != nil {
				return err
			}
		}
		next := m.arrange(ctx, time.Now())
		if m.missing {
			next = min(next, lastPause)
		}
		check.Reset(next)
	}
}

// lookFor finds out what became of the membership.
func (m *partitionMember) lookFor(ctx context.Context) error {
	hold := m.membership.hold
	ctx, cancel := context.WithTimeout(ctx, hold.session.drv.TTL()/renewPart)
	defer cancel()
	_, why := hold.session.missing(ctx, m.partition.name, hold.entry)
	return why
}

// see finds out which shards are assigned to the member.
//
// A member asks for shards when it has seen nobody ahead of it, in the order of
// joining, with another number of shards. Nobody can come in ahead of it later. A
// view that shows a member shows all who joined before it and are still there, and a
// member is there until its work has stopped. So of any two who own shards the later
// has seen the earlier, and they agree.
//
// If it is the first in line who has another number, the member is refused. If it is
// one in between, that one will be.
func (m *partitionMember) see(members []Member) error {
	var present []memberNote // who have the same number of shards
	var first memberNote     // of all
	own, others := -1, 0     // the place in present, and how many ahead have another number
	for _, o := range members {
		n, ok := readMemberNote(o.Meta)
		if !ok {
			continue
		}
		if first.Shards == 0 {
			first = n
		}
		switch {
		case n.Shards == m.note.Shards:
			if o.ID == m.membership.ID() {
				own = len(present)
			}
			present = append(present, n)
		case own < 0:
			others++
		}
	}
	switch {
	case own < 0:
		m.missing = m.seen // or else the watch has still to show it
		return nil
	}
	m.seen, m.missing = true, false
	m.agreed = m.agreed || others == 0
	switch {
	case m.agreed:
		m.allot(present, own)
	case first.Shards != m.note.Shards:
		return fmt.Errorf("%w: there are members with %d shards, not %d", ErrConflict, first.Shards, m.note.Shards)
	}
	return nil
}

// allot works out who owns what, for the member at the given place. Of several of one
// name the first has the shards.
func (m *partitionMember) allot(present []memberNote, own int) {
	var candidates []candidate
	var names []string
	me := -1
	m.others = false
	for i, n := range present {
		if n.Leaving {
			continue
		}
		m.others = m.others || i != own
		if slices.Contains(names, n.Member) {
			continue
		}
		if i == own {
			me = len(candidates)
		}
		candidates = append(candidates, newCandidate(m.partition.name, n.Member, n.Weight))
		names = append(names, n.Member)
	}
	if len(candidates) == 0 { // they all leave, and so does this one
		return
	}
	for shard, owner := range assign(m.partition.shards, candidates) {
		m.owners[shard], m.mine[shard] = names[owner], owner == me
	}
}

// arrange asks for the shards that are assigned to the member, and hands over those
// that have been another's for long enough. It returns the time after which there may
// be more to do.
func (m *partitionMember) arrange(ctx context.Context, now time.Time) time.Duration {
	next := lookAgain
	early := m.begin.Sub(now)
	if early > 0 {
		next = early
	}
	for shard, mine := range m.mine {
		t := m.tenures[shard]
		switch {
		case t == nil:
			if mine && early <= 0 {
				m.start(ctx, shard)
			}
		case t.ctx.Err() != nil: // it will be asked for when this tenure has finished
		case mine:
			t.keep()
		case !t.owned.Load():
			t.cancel(errReassigned)
		default:
			next = min(next, t.pass(m.owners[shard], now))
		}
	}
	return next
}

// start asks for a shard, and then works on it, in a goroutine.
func (m *partitionMember) start(ctx context.Context, shard int) {
	t := &tenure{member: m, shard: shard, done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	m.tenures[shard] = t
	m.running++
	go t.run() // ends with its context and the work, which end waits for
}

func (m *partitionMember) forget(t *tenure) {
	m.tenures[t.shard] = nil
	m.running--
}

// end gives up all shards and leaves. Others are told before that the member is about
// to, so that they wait for its shards; but it stays in line until no work runs, so
// that nobody comes to own shards of another number meanwhile.
func (m *partitionMember) end(ctx context.Context, why error, sightings <-chan sighting) error {
	timeout := m.partition.client.opts.CloseTimeout
	tell, stop := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer stop()
	if m.running > 0 {
		m.handing.Go(func() {
			n := m.note
			n.Leaving = true
			_ = m.membership.Update(tell, n) // without it they learn of it when it has left
		})
	}
	m.giveUp(ctx, why, sightings)
	stop()
	m.handing.Wait()
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return m.membership.Leave(leave)
}

// giveUp ends all tenures and waits for them. If ctx has ended, and there are others,
// each shard is worked on until another member waits for it, for a while.
func (m *partitionMember) giveUp(ctx context.Context, why error, sightings <-chan sighting) {
	limit := time.NewTimer(min(m.partition.opts.Settle, m.partition.client.opts.CloseTimeout))
	defer limit.Stop()
	gently := why == nil && m.others
	if why == nil {
		why = context.Cause(ctx)
	}
	for _, t := range m.tenures {
		switch {
		case t == nil:
		case gently && t.owned.Load():
			t.handTo("", why)
		default:
			t.cancel(why)
		}
	}
	for m.running > 0 {
		select {
		case t := <-m.finished:
			m.forget(t)
			continue
		case s := <-sightings:
			if s.err == nil && m.see(s.members) == nil && m.others {
				continue
			}
		case <-limit.C:
		}
		for _, t := range m.tenures {
			if t != nil {
				t.cancel(why)
			}
		}
	}
}
