package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// The pauses after work that failed.
const (
	firstWorkPause = 100 * time.Millisecond
	lastWorkPause  = 10 * time.Second
)

// stopsWithin is the time in which work is expected to stop. While it takes longer, it
// keeps no other shard from being handed over.
const stopsWithin = 20 * time.Millisecond

// A tenure is a member's having one shard, from before it asks for it until it has
// given it up.
type tenure struct {
	member *partitionMember
	shard  int

	ctx    context.Context // ends when the shard is to be given up
	cancel context.CancelCauseFunc
	owned  atomic.Bool   // it has been granted
	idle   atomic.Bool   // the work has stopped
	done   chan struct{} // closed when it is given up
	err    error         // set before that: why the member can't go on

	// Of the member's goroutine:
	foreign time.Time          // since when the shard is another's; zero while it is assigned to the member
	heir    string             // whose it is
	stay    context.CancelFunc // ends the handing over; nil while there is none
}

// run takes the shard, works on it until it is to be given up or is lost, and gives it
// up when the work has stopped.
func (t *tenure) run() {
	defer func() {
		t.cancel(nil)
		close(t.done)
		t.member.finished <- t
	}()
	hold, err := t.take()
	if err != nil {
		if t.ctx.Err() == nil {
			t.err = err
		}
		return
	}
	defer t.giveUp(hold) // also when the work ends its goroutine
	t.owned.Store(true)
	t.serve(hold)
}

// take waits until the shard is owned. What can pass is tried again, for as long as
// the membership is there.
func (t *tenure) take() (*Hold, error) {
	for backoff := firstPause; ; backoff = nextPause(backoff) {
		hold, err := t.enter()
		if err == nil || t.ctx.Err() != nil || !passing(err) || t.session().over() {
			return hold, err
		}
		t.report(err)
		pause(t.ctx, jitter(backoff))
	}
}

// enter takes a place in the shard's queue, in the session of the membership, and
// waits until it is the first. The waiting takes no room from the requests of others.
func (t *tenure) enter() (*Hold, error) {
	p := t.member.partition
	lock := &lockable{client: p.client, name: fmt.Sprintf("%s/%d", p.name, t.shard), queue: p.queue(t.shard), lockStyle: &p.client.style}
	if !t.roomy(t.ctx) {
		return nil, t.ctx.Err()
	}
	st, err := t.session().take(t.ctx, lock.name, lock.queue, t.member.claim.at(time.Now()))
	<-t.member.room
	if err != nil {
		return nil, err
	}
	if err := st.wait(t.ctx); err != nil {
		return nil, err
	}
	return st.grant(t.ctx, lock)
}

func (t *tenure) session() *session { return t.member.membership.hold.session }

// roomy waits until another request may be sent, after which a value has to be taken
// from room. It reports false when the context ends first.
func (t *tenure) roomy(ctx context.Context) bool {
	select {
	case t.member.room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// serve has the work done until the shard is to be given up or is lost, and returns
// when it has stopped.
func (t *tenure) serve(hold *Hold) {
	ctx, cancel := context.WithCancelCause(hold.Context())
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	shard := &Shard{index: t.shard, hold: hold}
	for backoff := firstWorkPause; ctx.Err() == nil; backoff = min(2*backoff, lastWorkPause) {
		began := time.Now()
		err := t.member.work(ctx, shard)
		if err == nil {
			<-ctx.Done()
			return
		}
		if !saysSo(ctx, err) {
			t.report(err)
		}
		if time.Since(began) > lastWorkPause {
			backoff = firstWorkPause // it had worked for a while
		}
		pause(ctx, jitter(backoff))
	}
}

// saysSo reports whether an error only says that the context has ended.
func saysSo(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// giveUp releases the shard, once the work has stopped. If the service does not confirm
// in time that goes on in the background.
func (t *tenure) giveUp(hold *Hold) {
	t.idle.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), t.member.partition.client.opts.CloseTimeout)
	defer cancel()
	if t.roomy(ctx) {
		defer func() { <-t.member.room }()
	}
	err := hold.Unlock(ctx)
	if lost := (*LostError)(nil); errors.As(err, &lost) && lost.Reason == LostBroken {
		t.report(err) // another may have owned it at the same time
	}
}

// keep has the member keep the shard.
func (t *tenure) keep() {
	t.foreign = time.Time{}
	if t.stay != nil {
		t.stay()
		t.stay = nil
	}
}

// pass hands the shard over to another member when it has been that one's, or a
// third's, for long enough. It returns how long that will yet take.
func (t *tenure) pass(heir string, now time.Time) time.Duration {
	if t.foreign.IsZero() {
		t.foreign = now
	}
	left := t.foreign.Add(t.member.partition.opts.Settle).Sub(now)
	switch {
	case left > 0:
		return left
	case t.stay == nil || t.heir != heir:
		t.handTo(heir, errReassigned)
	}
	return lookAgain
}

// handTo has the work stop, for the cause, when the heir waits for the shard, or
// anyone for an heir of "". It does not wait for that.
func (t *tenure) handTo(heir string, cause error) {
	if t.stay != nil {
		t.stay()
	}
	var ctx context.Context
	ctx, t.stay = context.WithCancel(t.ctx)
	t.heir = heir
	// It ends with the tenure, or with stay.
	t.member.handing.Go(func() {
		if !t.awaited(ctx, heir) {
			return
		}
		select {
		case t.member.turns <- struct{}{}:
			defer func() { <-t.member.turns }()
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		t.cancel(cause)
		timer := time.NewTimer(stopsWithin)
		defer timer.Stop()
		select {
		case <-t.done:
		case <-timer.C:
			if t.idle.Load() {
				<-t.done
			}
		}
	})
}

// awaited returns true when the heir waits for the shard. Until then the shard is
// better off with its owner. It returns false when the context ends.
func (t *tenure) awaited(ctx context.Context, heir string) bool {
	p := t.member.partition
	q := p.queue(t.shard)
	if heir == "" {
		pause(ctx, jitter(firstPause)) // others have only just been told
	}
	for backoff := firstPause; t.roomy(ctx); backoff = nextPause(backoff) {
		entries, err := p.client.list(ctx, driver.Scope{Space: q.Space, Name: q.Name})
		<-t.member.room
		if err != nil && !passing(err) { // it may not be known
			return ctx.Err() == nil
		}
		for i, e := range entries {
			if n, _ := readMemberNote(readEntry(e).Published); i > 0 && (heir == "" || n.Member == heir) {
				return true
			}
		}
		pause(ctx, jitter(backoff))
	}
	return false
}

// report tells of an error that the member gets over.
func (t *tenure) report(err error) {
	p := t.member.partition
	p.opts.OnError(fmt.Errorf("partition %q: shard %d: %w", p.name, t.shard, err))
}
