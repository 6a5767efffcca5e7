package recipes

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// A ShardOwner is who owns a shard, as others see it. Member, Owner, Since and Next
// were written by other processes: treat them as untrusted.
type ShardOwner struct {
	Shard   int
	Member  string    // the name of the member that owns it
	Session string    // the session it lives in, as the service's own tools show it
	Owner   Owner     // who it says it is
	Since   time.Time // when it asked for the shard, by its own clock
	// Token is the fencing token, 0 if nobody owns the shard; only Shard is set then.
	Token uint64
	// Next is the name of the member that waits for the shard, "" if none does.
	Next string
}

// Owners returns who owns each shard, in order. Each is as of one moment, not all as
// of the same. It needs no session, and costs one read on etcd, and one and a few for
// each shard on ZooKeeper.
//
// It returns ErrConflict if there are owners with another number of shards,
// ErrUnavailable, ErrDenied or ErrClosed.
func (p *Partition) Owners(ctx context.Context) ([]ShardOwner, error) {
	entries, err := p.client.list(ctx, p.scope())
	if err != nil {
		return nil, fmt.Errorf("partition %q: %w", p.name, err)
	}
	queues := map[string][]Entry{}
	for _, e := range entries {
		queues[e.Queue.Name] = append(queues[e.Queue.Name], readEntry(e))
	}
	owners := p.nobody()
	for name, queue := range queues {
		owner, ok, err := p.owner(name, queue)
		if err != nil {
			return nil, err
		}
		if ok {
			owners[owner.Shard] = owner
		}
	}
	return owners, nil
}

// Watch yields who owns each shard, in order, and then each shard whose owner, or
// whose next one, is another. A consumer that is slower than the changes gets the
// latest state of each shard and not every one in between; the final state is never
// missed, whatever happens to the connection. While the service can't be reached it
// yields nothing.
//
// It ends as Client.Watch does, and with ErrConflict if there are owners with another
// number of shards. It needs no session, and costs the service one watch on etcd, and
// one for each shard and each of those who own it or wait for it on ZooKeeper. Members
// need no such watch.
func (p *Partition) Watch(ctx context.Context) iter.Seq2[ShardOwner, error] {
	return func(yield func(ShardOwner, error) bool) {
		shown := p.nobody() // before synced, what is to be shown
		synced := false
		for change, err := range p.client.follow(ctx, p.scope()) {
			var owner ShardOwner
			var ok bool
			switch {
			case err != nil:
				err = fmt.Errorf("partition %q: %w", p.name, err)
			case change.Kind == ObjectChanged:
				owner, ok, err = p.owner(change.Object.Name, change.Object.Entries)
			}
			var fresh []ShardOwner
			switch {
			case err != nil:
				yield(ShardOwner{}, err)
				return
			case change.Kind == WatchSynced && !synced:
				synced = true
				fresh = shown
			case ok:
				if synced && !owner.same(shown[owner.Shard]) {
					fresh = []ShardOwner{owner}
				}
				shown[owner.Shard] = owner
			}
			for _, owner := range fresh {
				if !yield(owner, nil) {
					return
				}
			}
		}
	}
}

func (o ShardOwner) same(other ShardOwner) bool {
	return o.Token == other.Token && o.Next == other.Next
}

// nobody is the shards without owners.
func (p *Partition) nobody() []ShardOwner {
	owners := make([]ShardOwner, p.shards)
	for shard := range owners {
		owners[shard].Shard = shard
	}
	return owners
}

// owner reads the queue of a shard. What is no shard of the partition gives ok ==
// false.
func (p *Partition) owner(name string, queue []Entry) (owner ShardOwner, ok bool, err error) {
	shard, ok := p.shardOf(name)
	owner.Shard = shard
	for i, e := range queue {
		n, ours := readMemberNote(e.Published)
		switch {
		case ours && n.Shards != p.shards:
			return owner, false, fmt.Errorf("partition %q: %w: it has %d shards, not %d", p.name, ErrConflict, n.Shards, p.shards)
		case i == 0:
			owner.Member, owner.Session, owner.Owner, owner.Since, owner.Token = n.Member, e.Session, e.Owner, e.Since, e.Token
		case i == 1:
			owner.Next = n.Member
		}
	}
	return owner, ok && shard < p.shards, nil
}

// A PartitionMember is what an entry of a partition, as Client.Objects and Client.Watch
// show it, says of the member that it is of. Another process wrote it: treat it as
// untrusted.
type PartitionMember struct {
	Name    string // the name by which shards are assigned
	Shards  int    // how many the partition has, as far as the member knows
	Weight  int    // of the member's own entry; 0 for those of its shards
	Leaving bool   // it wants no shards any more
}

// PartitionMemberOf reads an entry of a partition: a member's, or that of the owner of a
// shard or who waits for one. Other entries give ok == false.
func PartitionMemberOf(e Entry) (m PartitionMember, ok bool) {
	n, ok := readMemberNote(e.Published)
	return PartitionMember{Name: n.Member, Shards: n.Shards, Weight: n.Weight, Leaving: n.Leaving}, ok
}
