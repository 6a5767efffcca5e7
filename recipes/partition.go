package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	kindShard = "shard"

	maxShards     = 4096
	maxWeight     = 100
	defaultSettle = time.Second

	// shardSeparator is between a partition's name and the number of a shard.
	// Neither can contain it, so that no partition has another's shards below its
	// prefix.
	shardSeparator   = driver.PartSeparator
	maxPartitionName = driver.MaxName - len(shardSeparator) - len("4095")
)

// PartitionOptions adjust a Partition. A nil *PartitionOptions means all defaults.
type PartitionOptions struct {
	// Member is the name by which shards are assigned to the caller, at most 256
	// bytes of UTF-8 without control characters. With one that outlasts a restart,
	// such as that of a host, a member that comes back gets the shards that it had.
	// Of several members of one name the first to join gets the shards and the others
	// stand by. Defaults to a new name for each Run.
	Member string
	// Weight is how large a share of the shards the caller is to have, in proportion
	// to the weights of the others: 1 to 100. Defaults to 1.
	Weight int
	// Settle is for how long a shard has to be another member's before the caller
	// gives it up, so that a member which joins and leaves at once moves nothing. The
	// caller itself begins to ask for shards half of it after it has joined, so that
	// those who start together share at once. Shards of a member that leaves or dies
	// are asked for without delay. Defaults to 1 s.
	Settle time.Duration
	// OnError is told of what Run gets over by itself: errors of the work, and the
	// loss of the session or of the service. It is called by several goroutines at the
	// same time, and must return soon. Defaults to none.
	OnError func(err error)
}

func (o *PartitionOptions) withDefaults() (PartitionOptions, error) {
	var opts PartitionOptions
	if o != nil {
		opts = *o
	}
	if opts.Weight == 0 {
		opts.Weight = 1
	}
	if opts.Settle == 0 {
		opts.Settle = defaultSettle
	}
	if opts.OnError == nil {
		opts.OnError = func(error) {}
	}
	if problem := textProblem(opts.Member, maxText); problem != "" {
		return opts, &InvalidError{Field: "PartitionOptions.Member", Problem: problem}
	}
	if opts.Weight < 1 || opts.Weight > maxWeight {
		return opts, &InvalidError{Field: "PartitionOptions.Weight", Problem: fmt.Sprintf("is %d, not between 1 and %d", opts.Weight, maxWeight)}
	}
	if opts.Settle < 0 {
		return opts, &InvalidError{Field: "PartitionOptions.Settle", Problem: "is negative"}
	}
	return opts, nil
}

// A Partition divides shards, which are numbered from 0, among its members. Each
// member runs the work on the shards that it owns. It is made by Client.Partition,
// sends nothing until it is used, and needs no closing. All methods may be called at
// the same time. Most callers want Run and ShardOf.
//
//	err := p.Run(ctx, func(ctx context.Context, shard *recipes.Shard) error {
//		return consume(ctx, shard.Index(), shard.Token())
//	})
//
// # Guarantees
//
//   - A shard has one owner at a time: it is a lock, with the guarantees of one. The
//     context of the work ends before another can own the shard, and Token is larger
//     than that of every earlier owner.
//   - A shard is given up only when the work on it has returned, however long that
//     takes. Only the loss of the session does not wait for it.
//   - Every member computes the same assignment, by rendezvous hashing. A member that
//     joins takes shards and no other shard moves; the shards of one that leaves or
//     dies are divided among the others and no other shard moves.
//   - Work on a shard that moves is told to stop only when the next owner waits for
//     the shard. It is without an owner from when its work stops until the release has
//     woken that one, and few of many at a time. A shard whose next owner lives but
//     can't take it stays where it is.
//   - Members with another number of shards are refused.
//
// # Non-guarantees
//
//   - Shares are equal on average only: of n shards among m members each has n/m, give
//     or take the square root of that. Have many times more shards than members.
//   - A shard of a member that dies is without an owner until its session is over.
//   - A member that is paused can go on working on a shard after it was given to
//     another. Let what it writes to check the Token.
//   - The number of shards can't be changed while there are members.
//
// # Costs
//
// A member that joins makes one commit and one watch, of the members and not of
// shards; leaving makes two. Each shard that moves costs two commits, one to ask for
// it and one to give it up, a look at its queue, and wakes its next owner alone.
// Nothing else is sent, other than what keeps the session and the watch alive.
type Partition struct {
	client *Client
	name   string
	shards int
	opts   PartitionOptions
	group  *Group
}

// Partition makes a partition called name of a number of shards, 1 to 4096, on which
// all members must agree. The name has 1 to 507 bytes, otherwise the rules of
// Client.Mutex apply; partitions have names of their own. A nil opts means all
// defaults. It sends nothing, and returns ErrInvalid when the name, the number or an
// option is out of range.
func (c *Client) Partition(name string, shards int, opts *PartitionOptions) (*Partition, error) {
	group, err := c.Group(name)
	if err != nil {
		return nil, err
	}
	group.queue.Space = driver.SpacePartition
	if len(name) > maxPartitionName {
		return nil, &InvalidError{Field: "name", Problem: fmt.Sprintf("is %d bytes long, more than %d", len(name), maxPartitionName)}
	}
	if shards < 1 || shards > maxShards {
		return nil, &InvalidError{Field: "shards", Problem: fmt.Sprintf("is %d, not between 1 and %d", shards, maxShards)}
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Partition{client: c, name: name, shards: shards, opts: o, group: group}, nil
}

// Name is the name of the partition.
func (p *Partition) Name() string { return p.name }

// Shards is how many shards there are.
func (p *Partition) Shards() int { return p.shards }

// ShardOf is the shard that a key belongs to, the same in every process and version:
// the first eight bytes of the key's SHA-256, big-endian, modulo the number of shards.
func (p *Partition) ShardOf(key string) int { return shardOf(key, p.shards) }

// queue is where those are who want a shard.
func (p *Partition) queue(shard int) driver.Queue {
	return driver.Queue{Space: driver.SpaceShard, Name: p.name + shardSeparator + strconv.Itoa(shard)}
}

// scope is all shards.
func (p *Partition) scope() driver.Scope {
	return driver.Scope{Space: driver.SpaceShard, Name: p.name + shardSeparator, Prefix: true}
}

// shardOf is the inverse of queue. What other programs may have put below the prefix
// gives ok == false.
func (p *Partition) shardOf(name string) (shard int, ok bool) {
	shard, err := strconv.Atoi(strings.TrimPrefix(name, p.name+shardSeparator))
	return shard, err == nil && shard >= 0 && p.queue(shard).Name == name
}

// A Shard is one shard that the caller owns, for as long as the context lasts that
// the work was given. All methods may be called at the same time.
type Shard struct {
	index int
	hold  *Hold
}

// Index is the number of the shard: 0 or more, and less than the number of shards.
func (s *Shard) Index() int { return s.index }

// Token is the fencing token: larger than that of every earlier owner of the shard,
// and never 0. See Hold.Token.
func (s *Shard) Token() uint64 { return s.hold.Token() }

// Deadline is the moment at which the shard is lost if no further renewal succeeds.
func (s *Shard) Deadline() time.Time { return s.hold.Deadline() }

// Run makes the caller a member, and runs work for each shard that it owns, in a
// goroutine for each, until ctx ends. The context that work gets ends when the shard
// is to go to another member, when it is lost with the session, or when Run ends;
// context.Cause is a *LostError for a loss. Work has to stop then, and return: until
// it has, the shard is kept, unless it is lost.
//
// When work returns an error while it owns the shard, OnError is told, and work is
// called again, with the same Shard, after a pause that grows from 100 ms to 10 s.
// When it returns nil, it is not called again, and the shard is kept without work
// until it moves. To have a member that can't do its work let others do it, end ctx.
//
// When ctx ends, others learn at once that the member is about to leave. Work on a
// shard is told to stop when another member waits for the shard; at once if there is
// no other; and after Settle, or CloseTimeout if that is shorter, in any case. Run
// returns when all work has, with an error that matches the cause of ctx.
//
// When the session is lost, the contexts of all shards end before others can own
// them. When all work has stopped, Run joins again, and goes on. It rides out that
// the service can't be reached. It returns only errors that trying again can't help:
// ErrConflict if a member that joined earlier has another number of shards, ErrDenied,
// ErrInvalid and ErrClosed. Closing the client loses its shards at once, whatever
// still drains: end Run before.
//
// Run may be called more than once, also at the same time: each call is a member.
func (p *Partition) Run(ctx context.Context, work func(ctx context.Context, shard *Shard) error) error {
	if work == nil {
		return &InvalidError{Field: "work", Problem: "is nil"}
	}
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		m, err := p.join(ctx, work)
		if err == nil {
			err = m.run(ctx)
			backoff = firstPause
		}
		switch {
		case ctx.Err() != nil:
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = errors.Join(cause, err)
			}
			return fmt.Errorf("partition %q: %w", p.name, err)
		case !passing(err):
			return fmt.Errorf("partition %q: %w", p.name, err)
		}
		p.opts.OnError(fmt.Errorf("partition %q: %w", p.name, err))
		pause(ctx, jitter(backoff))
	}
}
