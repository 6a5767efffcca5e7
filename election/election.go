package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lockctl/lockctl/recipes"
)

// retryPause is the time before a read is repeated that the service did not answer.
const retryPause = 100 * time.Millisecond

// maxValue is the greatest size of a proclaimed value, in bytes.
const maxValue = 8 << 10

// ErrNoLeader says that there is no leader at present. Leader returns it.
var ErrNoLeader = errors.New("no leader")

// ErrResigned is the cause of the end of a lead that was given up. It is a
// context.Canceled too.
var ErrResigned = fmt.Errorf("resigned: %w", context.Canceled)

// Options adjust a candidate. A nil *Options means all defaults.
type Options struct {
	// Label is shown beside the owner, at most 256 bytes. Defaults to the label of
	// the client's owner.
	Label string
	// Priority lets candidates of a higher one be elected first, once the leader has
	// gone. It never deposes a leader. Whoever comes first in line and sees a
	// candidate of a higher priority waiting goes to the end of the line, so
	// candidates of the same priority can pass each other then. Defaults to 0.
	Priority int
}

// An Election is one candidate's, or observer's, access to an election. It is made
// by New, sends nothing until it is used, and needs no closing. All methods may be
// called at the same time. Most callers want Run and Observe.
type Election struct {
	client   client
	name     string
	priority int
	ordered  bool // candidates stand in line, and are seen there
	mutex    recipes.Locker[*recipes.Hold]
}

// client is what an election needs of a client, besides the lock.
type client interface {
	Lock(ctx context.Context, name string) (recipes.Object, error)
	Watch(ctx context.Context, filter recipes.Filter) iter.Seq2[recipes.Change, error]
}

// New makes an election called name, by the rules of Client.Mutex. A nil opts means
// all defaults. It returns ErrInvalid when the name or an option is out of range.
func New(c *recipes.Client, name string, opts *Options) (*Election, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	mutex, err := c.Mutex(name, &recipes.MutexOptions{
		Label: o.Label, Kind: recipes.KindElection, Publish: candidacy{Priority: o.Priority},
	})
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	return &Election{client: c, name: name, priority: o.Priority, ordered: true, mutex: mutex}, nil
}

// NewOnLeases makes an election on a store of leases, such as a database. It is as one
// made by New, but for this: candidates are elected in any order, and are not seen
// before, and observers ask the store from time to time, so that they may miss a leader
// that was quick. It returns ErrInvalid too for a Priority, which such a store can't
// heed.
func NewOnLeases(c *recipes.LeaseClient, name string, opts *Options) (*Election, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Priority != 0 {
		return nil, fmt.Errorf("election: %w", &recipes.InvalidError{Field: "Options.Priority", Problem: "can't be heeded by a store of leases"})
	}
	mutex, err := c.Mutex(name, &recipes.LeaseMutexOptions{Label: o.Label, Kind: recipes.KindElection, Publish: candidacy{}})
	if err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	return &Election{client: c, name: name, mutex: mutex}, nil
}

// Name is the name of the election.
func (e *Election) Name() string { return e.name }

// A Leader is who leads an election.
type Leader struct {
	Term  uint64        // the fencing token: larger than every earlier leader's
	Value string        // what it has proclaimed last
	Owner recipes.Owner // who it says it is
	// Session is the session that it leads in, as the service's own tools show it.
	Session string
	// Since is when it was elected, by its own clock.
	Since time.Time
}

// candidacy is what a candidate's entry publishes.
type candidacy struct {
	Priority int      `json:"priority,omitempty"`
	Lead     *leading `json:"lead,omitempty"` // once it has been elected
}

// leading is what a leader's entry publishes. Term is there because an entry can
// look older to others than to who made it.
type leading struct {
	Term  uint64    `json:"term,string"`
	Value string    `json:"value"`
	Since time.Time `json:"since"`
}

// Leader asks who leads: ErrNoLeader if nobody does. It is a linearizable read,
// which needs no session: who leads since before the call is seen. Other errors are
// ErrUnavailable, ErrDenied, ErrClosed and the context's.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	lock, err := e.client.Lock(ctx, e.name)
	if err != nil {
		return Leader{}, fmt.Errorf("election %q: %w", e.name, err)
	}
	leader, ok := LeaderOf(lock)
	if !ok {
		return Leader{}, fmt.Errorf("election %q: %w", e.name, ErrNoLeader)
	}
	return leader, nil
}

// Campaign waits in line until it is elected, and leads with the value, at most
// 8 KiB of UTF-8, proclaimed. The context bounds the waiting, not the lead.
//
// When the context ends, the place in line is given up and the error matches the
// context's. Campaign returns ErrLost when the session ends or the place is removed
// by someone else, ErrInvalid for the value, and otherwise the errors of
// recipes.Mutex.Lock. With the context of a lead in the same election it returns
// ErrDeadlock.
//
// It costs the writes and reads of a Lock, one read of the line and one write more.
func (e *Election) Campaign(ctx context.Context, value string) (*Lead, error) {
	if err := checkValue(value); err != nil {
		return nil, err
	}
	for {
		hold, err := e.mutex.Lock(ctx)
		if err != nil {
			return nil, fmt.Errorf("election %q: %w", e.name, err)
		}
		outranked, err := e.outranked(ctx, hold)
		switch {
		case err != nil:
		case outranked: // step behind them
			if err := hold.Unlock(ctx); err != nil {
				return nil, fmt.Errorf("election %q: let a higher priority pass: %w", e.name, err)
			}
			continue
		default:
			lead := newLead(e, hold)
			if err = lead.publish(ctx, value); err == nil {
				return lead, nil
			}
		}
		_ = hold.Unlock(ended()) // goes on in the background
		return nil, fmt.Errorf("election %q: not elected: %w", e.name, err)
	}
}

// outranked reports whether a candidate of a higher priority waits. It rides out
// failures of the service for as long as the hold lasts.
func (e *Election) outranked(ctx context.Context, hold *recipes.Hold) (bool, error) {
	for e.ordered {
		lock, err := e.client.Lock(ctx, e.name)
		switch {
		case err == nil:
			return slices.ContainsFunc(lock.Waiters(), func(waiter recipes.Entry) bool {
				return readCandidacy(waiter).Priority > e.priority
			}), nil
		case hold.Context().Err() != nil:
			return false, context.Cause(hold.Context())
		case ctx.Err() != nil || !passing(err):
			return false, err
		}
		pause(ctx, retryPause)
	}
	return false, nil
}

func checkValue(value string) error {
	switch {
	case len(value) > maxValue:
		return &recipes.InvalidError{Field: "value", Problem: fmt.Sprintf("is %d bytes long, more than %d", len(value), maxValue)}
	case !utf8.ValidString(value):
		return &recipes.InvalidError{Field: "value", Problem: "is not valid UTF-8"}
	}
	return nil
}

// ended is a context for what is to go on in the background.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
