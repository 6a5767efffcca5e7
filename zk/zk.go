package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/internal/backendurl"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// Open makes a client over the user's own connection, which keeps its session
// and stays open when the client is closed; the client removes its entries then.
// It asks the service for one node, so that an error shows now: ErrUnavailable,
// ErrDenied, ErrInvalid or the context's. See Options.TTL for what it must be. A
// nil opts means all defaults; TLS is not used.
func Open(ctx context.Context, user *gozk.Conn, opts *Options) (*recipes.Client, error) {
	if user == nil {
		return nil, invalid("conn", "is nil")
	}
	o, err := opts.withDefaults(DefaultOpenTTL)
	if err != nil {
		return nil, err
	}
	if o.DisconnectIsLoss {
		return nil, invalid("Options.DisconnectIsLoss", "is only for Dial: a user's connection does not tell")
	}
	return open(ctx, newStore(&conn{zk: user}, nil, o), o, "connection")
}

// Dial makes a client from a URL: zk://host:port,host:port/root?ttl=15s, with
// the parameters user, password-file, tls, cacert, cert, key and server-name.
// The servers are tried in random order. What opts sets goes before what the URL
// says. A user's password is read from password-file or from the environment's
// LOCKCTL_PASSWORD. Errors are those of Open, within ClientOptions.ConnectTimeout.
func Dial(ctx context.Context, url string, opts *Options) (*recipes.Client, error) {
	u, err := backendurl.Parse(url, scheme, defaultPort)
	if err != nil {
		return nil, err
	}
	o, err := fromURL(u, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, newStore(nil, u.Servers, o), o, strings.Join(u.Servers, ","))
}

// open proves that the service answers and lets us in, and makes the client.
func open(ctx context.Context, s *store, o Options, where string) (*recipes.Client, error) {
	client, err := recipes.NewClient(s, &o.Client)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, o.Client.ConnectTimeout)
	defer cancel()
	if err := s.probe(ctx); err != nil {
		_ = client.Close() // the first error is the one to report
		kind := recipes.ErrUnavailable
		if errors.Is(err, driver.ErrDenied) {
			kind = recipes.ErrDenied
		}
		return nil, fmt.Errorf("zookeeper at %s: %w: %w", where, kind, err)
	}
	return client, nil
}
