package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// Options adjust a client. A nil *Options means all defaults.
type Options struct {
	// Prefix stands before the name of a lock in its key. Without one, those keys of the
	// database are listed as locks that this package has made. Defaults to none.
	Prefix string
	// Lease has the options that all clients of leases share.
	Lease recipes.LeaseOptions
}

// Open makes a client over one of Redis that you have: a *redis.Client, also one that
// follows Sentinels, or a *redis.ClusterClient. It stays open when the client is closed.
// Open sends nothing. It returns ErrInvalid for options that are out of range, and for a
// *redis.Ring, which gives a key to another server when one is away, and so a lock to a
// second holder.
//
// Set ContextTimeoutEnabled in the client's options: otherwise a request that was given
// up keeps its connection for the client's ReadTimeout.
func Open(client redis.UniversalClient, opts *Options) (*recipes.LeaseClient, error) {
	return open(client, opts, false)
}

func open(client redis.UniversalClient, opts *Options, owned bool) (*recipes.LeaseClient, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			return nil, &recipes.InvalidError{Field: "client", Problem: "is nil"}
		}
	case *redis.ClusterClient:
		if c == nil {
			return nil, &recipes.InvalidError{Field: "client", Problem: "is nil"}
		}
	default:
		return nil, &recipes.InvalidError{Field: "client", Problem: "is neither a *redis.Client nor a *redis.ClusterClient"}
	}
	return recipes.NewLeaseClient(&store{newNode(client, newLayout(o.Prefix), owned)}, &o.Lease)
}

// A store implements driver.Leaser and driver.ReleaseWatcher.
type store struct{ node *node }

var (
	_ driver.Leaser         = (*store)(nil)
	_ driver.ReleaseWatcher = (*store)(nil)
)

func (s *store) Engine() string { return "redis" }
func (s *store) Close() error   { return s.node.close() }

func (s *store) Acquire(ctx context.Context, want driver.Lease, ttl time.Duration) (driver.Lease, error) {
	return s.node.take(ctx, acquire, want, ttl)
}

func (s *store) Renew(ctx context.Context, l driver.Lease, ttl time.Duration) error {
	return s.node.renew(ctx, l, ttl)
}

func (s *store) Release(ctx context.Context, l driver.Lease) error {
	return s.node.release(ctx, l, false)
}

func (s *store) List(ctx context.Context, scope driver.Scope) ([]driver.Lease, error) {
	return s.node.list(ctx, scope)
}

func (s *store) Releases(ctx context.Context, name string) (<-chan struct{}, error) {
	return s.node.listener.watch(ctx, s.node.layout.channel(name))
}
