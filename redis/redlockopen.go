package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockctl/lockctl/recipes"
)

const (
	leastNodes    = 3
	defaultDrift  = 0.01
	defaultTTL    = 15 * time.Second // that of recipes.LeaseOptions
	clientsMargin = 8                // recipes lets a hold end this part of its TTL early
)

// RedlockOptions adjust a client of Redlock. A nil *RedlockOptions means all defaults.
type RedlockOptions struct {
	Options
	// NodeTimeout is how long one node may take to answer a request for a lock, or to
	// renew it. Defaults to a tenth of the TTL.
	NodeTimeout time.Duration
	// Drift is by how much the clocks of nodes and client may run apart, as a part of the
	// time that passes; 2 ms are added to it. It comes off the TTL, so that the two must
	// be an eighth of that at the most. Defaults to 0.01.
	Drift float64
}

func (o *RedlockOptions) withDefaults() (RedlockOptions, error) {
	var opts RedlockOptions
	if o != nil {
		opts = *o
	}
	if opts.Drift == 0 {
		opts.Drift = defaultDrift
	}
	ttl := opts.Lease.TTL
	if ttl == 0 {
		ttl = defaultTTL
	}
	if opts.Drift < 0 || ttl > 0 && driftOf(ttl, opts.Drift) > ttl/clientsMargin {
		return opts, &recipes.InvalidError{Field: "RedlockOptions.Drift", Problem: fmt.Sprintf("is not from 0 to an eighth of the TTL of %v, with 2 ms", ttl)}
	}
	if opts.NodeTimeout < 0 || opts.NodeTimeout > ttl/4 {
		return opts, &recipes.InvalidError{Field: "RedlockOptions.NodeTimeout", Problem: fmt.Sprintf("is not from 0 to a quarter of the TTL of %v", ttl)}
	}
	return opts, nil
}

// OpenRedlock makes a client of Redlock over three or more servers that know nothing of each
// other: a lock is whose key is on a majority of them. The servers must not be replicas of each
// other, and their clients stay open when this one is closed. It sends nothing. It returns
// ErrInvalid for options that are out of range, and for too few servers.
//
// A lock is granted if a majority has confirmed within the TTL less what clocks may have
// drifted, and ends at its holder after seven eighths of the TTL from before the first
// request, unless a majority confirms a renewal. Keys of attempts that failed, or came late,
// are removed.
//
// Its holds have no fencing tokens. It is safe as long as the clocks of nodes and client run
// at about the same rate, none is set, no client is paused unnoticed, and a node that has
// lost its data stays away for the longest TTL. Many don't agree that these can be relied
// on: read docs/redlock.md before you choose it.
func OpenRedlock(clients []*redis.Client, opts *RedlockOptions) (*recipes.UnfencedClient, error) {
	_, client, err := openRedlock(clients, opts, false)
	return client, err
}

func openRedlock(clients []*redis.Client, opts *RedlockOptions, owned bool) (*redlock, *recipes.UnfencedClient, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	if len(clients) < leastNodes {
		return nil, nil, &recipes.InvalidError{Field: "clients", Problem: fmt.Sprintf("are %d: Redlock needs %d servers at the least", len(clients), leastNodes)}
	}
	layout := newLayout(o.Prefix)
	nodes := make([]*node, len(clients))
	for i, c := range clients {
		if c == nil || slices.Contains(clients[:i], c) {
			return nil, nil, &recipes.InvalidError{Field: "clients", Problem: "have one that is nil, or there twice"}
		}
		nodes[i] = newNode(c, layout, owned)
	}
	leaser := newRedlock(nodes, o.Drift, o.NodeTimeout)
	client, err := recipes.NewUnfencedClient(leaser, &o.Lease)
	return leaser, client, err
}

// DialRedlock connects to the servers of a Redlock by a URL, such as
// "redlock://a:6379,b:6379,c:6379/0?ttl=15s", with the parameters of Dial but for master,
// cluster and those of Sentinels. With redlocks:// or tls=true the connections use TLS.
//
// It returns when a majority has answered, or ErrInvalid for a URL or options that are out
// of range, ErrDenied or ErrUnavailable.
func DialRedlock(ctx context.Context, rawURL string, opts *RedlockOptions) (*recipes.UnfencedClient, error) {
	t, err := readTarget(rawURL, "redlock")
	if err != nil {
		return nil, err
	}
	var o RedlockOptions
	if opts != nil {
		o = *opts
	}
	t.applyCommon(&o.Options)
	for i, s := range t.Servers {
		if slices.Contains(t.Servers[:i], s) {
			return nil, invalid("names the server %s twice", s)
		}
	}
	clients := make([]*redis.Client, len(t.Servers))
	for i, addr := range t.Servers {
		clients[i] = t.server(addr)
	}
	leaser, client, err := openRedlock(clients, &o, true)
	if err != nil {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	if err := leaser.greet(ctx, connectTimeout(&o.Options)); err != nil {
		return nil, errors.Join(fmt.Errorf("redlock at %s: %w", strings.Join(t.Servers, ","), err), client.Close())
	}
	return client, nil
}

// greet returns when a majority has answered. Its errors are those of recipes.
func (r *redlock) greet(ctx context.Context, timeout time.Duration) error {
	return greeted(r.majority(ctx, timeout, func(ctx context.Context, n *node) error {
		_, err := ask(ctx, n, func(ctx context.Context) (string, error) { return n.client.Ping(ctx).Result() })
		return err
	}, nil, r.counted))
}
