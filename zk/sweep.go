package zk

import (
	"context"
	"errors"

	gozk "github.com/go-zookeeper/zk"
)

// abandon sweeps, in the background, after attempts of a session that is over.
func (s *session) abandon(undecided []*attempt) {
	for _, a := range undecided {
		s.store.sweeps.start(func() {
			_, _ = insist(s.store.ctx, func() (struct{}, error) { // Close reports what takes too long
				return struct{}{}, resumable(s.store.sweep(s.store.ctx, a))
			})
		})
	}
}

// sweep removes the node that an attempt on the user's connection has made, if it
// has made one, whatever session the connection has by now. It waits for the
// attempt's last request to be answered: from then on nothing new comes of it.
func (s *store) sweep(ctx context.Context, a *attempt) error {
	if a.pending != nil {
		select {
		case m := <-a.pending:
			a.pending <- m // for the next one to ask
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l, err := s.link(ctx, false)
	if err != nil {
		return err
	}
	if err := l.sync(ctx); err != nil {
		return err
	}
	paths, err := l.made(ctx, a)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if err := l.delete(ctx, p); err != nil && !errors.Is(err, gozk.ErrNoNode) {
			return err
		}
	}
	return nil
}
