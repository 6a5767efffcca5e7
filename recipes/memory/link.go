package memory

import (
	"context"
	"errors"
	"sync"
)

// errCut is what a request reports whose reply will not come.
var errCut = errors.New("connection to the memory server was cut")

// A Link is the connection between a client and a Server, for tests that disturb
// it. The zero value is a link that works. All methods may be called at the same
// time.
type Link struct {
	mu       sync.Mutex
	changed  chan struct{} // closed at each change, then replaced
	requests bool          // stalled
	replies  bool          // stalled
	lose     bool          // the next reply
	cuts     int
}

// StallRequests keeps requests from reaching the server until Resume.
func (l *Link) StallRequests() { l.set(func() { l.requests = true }) }

// StallReplies keeps replies and notifications from reaching the client until
// Resume.
func (l *Link) StallReplies() { l.set(func() { l.replies = true }) }

// StallBoth stalls both ways until Resume.
func (l *Link) StallBoth() { l.set(func() { l.requests, l.replies = true, true }) }

// Resume ends all stalls; what has waited goes on.
func (l *Link) Resume() { l.set(func() { l.requests, l.replies = false, false }) }

// LoseReply has the next request carried out and its reply lost.
func (l *Link) LoseReply() { l.set(func() { l.lose = true }) }

// Cut fails every request that waits.
func (l *Link) Cut() { l.set(func() { l.cuts++ }) }

func (l *Link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// wait returns when the link is not stalled that way.
func (l *Link) wait(ctx context.Context, stalled *bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for cuts := l.cuts; *stalled; {
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if l.cuts != cuts {
			return errCut
		}
	}
	return ctx.Err()
}

// call carries out a request over the link.
func (l *Link) call(ctx context.Context, request func()) error {
	if err := l.wait(ctx, &l.requests); err != nil {
		return err
	}
	request()
	if err := l.wait(ctx, &l.replies); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lose {
		l.lose = false
		return errCut
	}
	return nil
}
