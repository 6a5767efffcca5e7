package main

import (
	"context"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockctl/lockctl/election"
)

// lockctlElection is a candidate of ours, which resigns as soon as it leads.
func lockctlElection(dial dialer) func(ctx context.Context, c *crew, at site) (turn, error) {
	return func(ctx context.Context, c *crew, at site) (turn, error) {
		client, err := dial(ctx, at, sessionTTL)
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, client.Close)
		e, err := election.New(client, at.name, nil)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, granted func()) error {
			lead, err := e.Campaign(ctx, "")
			if err != nil {
				return err
			}
			granted()
			return lead.Resign(ctx)
		}, nil
	}
}

func concurrencyElection(_ context.Context, c *crew, at site) (turn, error) {
	client, err := dialEtcd(c, at)
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTTL/time.Second)))
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, session.Close)
	e := concurrency.NewElection(session, "/concurrency/"+at.name)
	return func(ctx context.Context, granted func()) error {
		if err := e.Campaign(ctx, ""); err != nil {
			return err
		}
		granted()
		return e.Resign(ctx)
	}, nil
}
