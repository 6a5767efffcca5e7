package election

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// A Lead is an election that was won. It lasts until Resign, or until it is lost.
// Campaign makes leads; the zero value is of no use. All methods may be called at
// the same time.
//
// Do the work under Context, or in Go, and hand Term to whatever the leader changes.
type Lead struct {
	election *Election
	hold     *recipes.Hold
	since    time.Time

	ctx    context.Context // ends with the hold's, or when the lead is given up
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	working   int
	resigning bool
	drained   chan struct{} // closed when resigning and no work is left
}

func newLead(e *Election, hold *recipes.Hold) *Lead {
	l := &Lead{election: e, hold: hold, since: time.Now().UTC(), drained: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(hold.Context())
	return l
}

// Context ends when the lead is lost, before anyone else can be elected, or when
// Resign begins. context.Cause then is a *recipes.LostError or ErrResigned. It has
// the values of the context that Campaign was called with, and neither its deadline
// nor its cancellation.
func (l *Lead) Context() context.Context { return l.ctx }

// Term is the fencing token: larger than the term of every earlier leader, and
// never 0. See recipes.Hold.Token.
func (l *Lead) Term() uint64 { return l.hold.Token() }

// Deadline is the moment at which the lead is lost if no further renewal succeeds.
func (l *Lead) Deadline() time.Time { return l.hold.Deadline() }

// Owner is how the leader presents itself.
func (l *Lead) Owner() recipes.Owner { return l.hold.Owner() }

// Name is the name of the election.
func (l *Lead) Name() string { return l.election.name }

// SessionID is the id of the session that the lead lives in.
func (l *Lead) SessionID() string { return l.hold.SessionID() }

// Hold is the hold that the lead stands on, for what asks for one, such as
// etcd.Guard. Give the lead up with Resign: the hold's Unlock does not wait for work
// that Go has started.
func (l *Lead) Hold() *recipes.Hold { return l.hold }

// Proclaim replaces the value that others see. It returns nil when the service has
// confirmed it, at a moment at which the lead was held; ErrLost if the lead is lost,
// ErrResigned after Resign, ErrInvalid for the value, or ErrUnavailable, and then
// others may see either value until the next Proclaim that returns nil.
func (l *Lead) Proclaim(ctx context.Context, value string) error {
	if err := checkValue(value); err != nil {
		return err
	}
	if l.ctx.Err() != nil {
		return fmt.Errorf("election %q: proclaim: %w", l.election.name, context.Cause(l.ctx))
	}
	if err := l.publish(ctx, value); err != nil {
		return fmt.Errorf("election %q: proclaim: %w", l.election.name, err)
	}
	return nil
}

// publish writes into the entry that it leads.
func (l *Lead) publish(ctx context.Context, value string) error {
	return l.hold.Publish(ctx, candidacy{
		Priority: l.election.priority,
		Lead:     &leading{Term: l.Term(), Value: value, Since: l.since},
	})
}

// Go runs f in a goroutine under Context, and keeps the lead until f has returned:
// nobody else is elected before, unless the lead is lost. It reports false, and runs
// nothing, when the lead has ended.
func (l *Lead) Go(f func(ctx context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resigning || l.ctx.Err() != nil {
		return false
	}
	l.working++
	go func() { // ends with f, which is the caller's
		defer l.finish()
		f(l.ctx)
	}()
	return true
}

// finish ends one piece of work. The last one gives the lead up, if that waits.
func (l *Lead) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working--
	if l.resigning && l.working == 0 {
		close(l.drained)
		_ = l.hold.Unlock(ended()) // goes on in the background
	}
}

// stop ends the context and has the lead given up when no work is left.
func (l *Lead) stop(cause error) {
	l.cancel(cause)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.resigning {
		l.resigning = true
		if l.working == 0 {
			close(l.drained)
		}
	}
}

// Resign gives the lead up. The lead's context ends first; when everything that Go
// has started has returned, the entry is removed and the next candidate elected.
//
// It returns nil when the service has confirmed, and again when called again.
// It returns ErrLost if the lead was lost before. When ctx ends first, or had ended,
// it returns the context's error and the rest goes on in the background.
func (l *Lead) Resign(ctx context.Context) error {
	l.stop(ErrResigned)
	select {
	case <-l.drained:
	default:
		select {
		case <-l.drained:
		case <-ctx.Done():
			return fmt.Errorf("election %q: resign: work goes on and keeps the lead: %w", l.election.name, ctx.Err())
		}
	}
	if err := l.hold.Unlock(ctx); err != nil {
		return fmt.Errorf("election %q: resign: %w", l.election.name, err)
	}
	return nil
}
