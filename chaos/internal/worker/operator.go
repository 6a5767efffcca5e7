//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/recipes"
)

// An operator comes to a lock every now and then, and its holders keep it for so long that
// it finds one.
const (
	shortestAbsence = 200 * time.Millisecond
	longestAbsence  = time.Second
	longestWork     = 300 * time.Millisecond
)

// endure is a round with a lock that operators ask for and break. It gives the lock back
// when it is asked to.
func (l *loop) endure(ctx context.Context, m *recipes.Mutex) {
	l.hold(ctx, history.Event{Kind: history.Seized, Name: m.Name()}, m.Lock, func(hold *recipes.Hold, e history.Event) {
		l.fencedWrite(hold.Context(), e)
		working, done := context.WithTimeout(hold.Context(), time.Duration(1+l.rand.Int64N(int64(longestWork))))
		defer done()
		select {
		case <-working.Done():
		case <-hold.Asked():
		}
	})
}

// operate is a round of an operator, who looks at a lock and then asks its holders to
// release it, or takes it, or a place in line, away from someone.
func (l *loop) operate(ctx context.Context, name string) {
	l.pause(ctx, shortestAbsence, longestAbsence)
	e, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Operator, Name: name})
	defer cancel()
	lock, err := l.client.Lock(waiting, name)
	if n := len(lock.Entries); err == nil && n > 0 {
		why := fmt.Sprintf("%s/%d", l.config.Proc, e.Op)
		entry := lock.Entries[l.rand.IntN(n)]
		if l.one(2) {
			entry = lock.Entries[0]
		}
		if e.What = history.Asking; l.one(2) {
			l.log.Add(e)
			err = l.client.Ask(waiting, name, why)
		} else {
			e.What, e.Token, e.ID = history.Breaking, entry.Token, entry.Owner.Label
			l.log.Add(e)
			err = l.client.Break(waiting, name, entry, why)
		}
		if errors.Is(err, recipes.ErrConflict) { // there was nothing to break any more
			e.Token, err = 0, nil
		}
	}
	if err != nil {
		l.failed(ctx, e, err)
		return
	}
	e.What = history.Granted
	l.log.Add(e)
}
