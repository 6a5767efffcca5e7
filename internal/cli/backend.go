package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockctl/lockctl/dynamodb"
	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/redis"
	"github.com/lockctl/lockctl/sqldb"
	"github.com/lockctl/lockctl/sqldb/mysql"
	"github.com/lockctl/lockctl/sqldb/postgres"
	"github.com/lockctl/lockctl/sqldb/sqlite"
	"github.com/lockctl/lockctl/zk"
)

const (
	// devAddress is where "lockctl dev" serves etcd. The port is not etcd's own, so
	// that dev neither clashes with an etcd nor is mistaken for one.
	devAddress     = "127.0.0.1:23790"
	defaultBackend = "etcd://" + devAddress

	// answerTimeout bounds what a person waits for an answer of the service.
	answerTimeout = 5 * time.Second
)

// dialOptions are what every engine's Dial is given. Zero values mean what the
// URL says, or the engine's default.
type dialOptions struct {
	ttl    time.Duration
	owner  recipes.Owner
	leases bool // a store of leases will do
}

func (o dialOptions) client() recipes.ClientOptions {
	return recipes.ClientOptions{Owner: o.owner, ConnectTimeout: answerTimeout}
}

func (o dialOptions) lease() recipes.LeaseOptions {
	return recipes.LeaseOptions{TTL: o.ttl, Client: o.client()}
}

// A service is a client of a backend, as far as all backends have it: a
// *recipes.Client, or one of a store of leases.
type service interface {
	Engine() string
	Owner() recipes.Owner
	Lock(ctx context.Context, name string) (recipes.Object, error)
	Objects(ctx context.Context, filter recipes.Filter) ([]recipes.Object, error)
	Watch(ctx context.Context, filter recipes.Filter) iter.Seq2[recipes.Change, error]
	Close() error
}

var (
	_ service = (*recipes.Client)(nil)
	_ service = (*recipes.LeaseClient)(nil)
	_ service = (*recipes.UnfencedClient)(nil)
)

// An engine connects to a kind of backend.
type engine struct {
	dial   func(ctx context.Context, url string, o dialOptions) (service, error)
	leases bool // it is a store of leases
}

// engines are the services that lockctl can use, by the scheme of their URLs.
func engines() map[string]engine {
	oneRedis := engine{leases: true, dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
		logging.Disable() // errors are told as such, and by who can tell what they mean
		return opened(redis.Dial(ctx, url, &redis.Options{Lease: o.lease()}))
	}}
	redlock := engine{leases: true, dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
		logging.Disable() // errors are told as such, and by who can tell what they mean
		return opened(redis.DialRedlock(ctx, url, &redis.RedlockOptions{Options: redis.Options{Lease: o.lease()}}))
	}}
	return map[string]engine{
		"etcd": {dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
			return opened(etcd.Dial(ctx, url, &etcd.Options{TTL: o.ttl, Client: o.client()}))
		}},
		"zk": {dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
			return opened(zk.Dial(ctx, url, &zk.Options{TTL: o.ttl, Client: o.client()}))
		}},
		"postgres": {leases: true, dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
			return opened(postgres.Dial(ctx, url, &postgres.Options{Options: sqldb.Options{Lease: o.lease()}}))
		}},
		"mysql": {leases: true, dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
			return opened(mysql.Dial(ctx, url, &sqldb.Options{Lease: o.lease()}))
		}},
		"sqlite": {leases: true, dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
			return opened(sqlite.Dial(ctx, url, &sqldb.Options{Lease: o.lease()}))
		}},
		"dynamodb": {leases: true, dial: func(ctx context.Context, url string, o dialOptions) (service, error) {
			return opened(dynamodb.Dial(ctx, url, &dynamodb.Options{Lease: o.lease()}))
		}},
		"redis": oneRedis, "rediss": oneRedis, "redlock": redlock, "redlocks": redlock,
	}
}

// opened is the client, or nil with an error: not a service that is a nil client.
func opened[C service](client C, err error) (service, error) {
	if err != nil {
		return nil, err
	}
	return client, nil
}

// A backend is a service that the user named, or the default one.
type backend struct {
	url       string
	engine    engine
	isDefault bool
}

// oneBackend is the backend of a command that uses one.
func (a *app) oneBackend() (backend, error) {
	all, err := a.allBackends()
	if err != nil {
		return backend{}, err
	}
	if len(all) > 1 {
		return backend{}, usageError("--backend is given %d times; only console takes several", len(all))
	}
	return all[0], nil
}

func (a *app) allBackends() ([]backend, error) {
	urls := a.backends
	if env := a.env("LOCKCTL_BACKEND"); len(urls) == 0 && env != "" {
		urls = []string{env}
	}
	isDefault := len(urls) == 0
	if isDefault {
		urls = []string{defaultBackend}
	}
	var all []backend
	for _, u := range urls {
		e, err := engineOf(u)
		if err != nil {
			return nil, err
		}
		all = append(all, backend{url: u, engine: e, isDefault: isDefault})
	}
	return all, nil
}

// engineOf finds the engine of a URL. What else the URL says is not repeated in
// the error: it could be a password.
func engineOf(backendURL string) (engine, error) {
	known := engines()
	scheme := schemeOf(backendURL)
	if e, ok := known[scheme]; ok {
		return e, nil
	}
	schemes := slices.Sorted(maps.Keys(known))
	last := len(schemes) - 1
	return engine{}, usageError("backend URL must begin with %s: or %s:", strings.Join(schemes[:last], ":, "), schemes[last])
}

func schemeOf(backendURL string) string {
	scheme, _, _ := strings.Cut(backendURL, ":")
	return scheme
}

// name is the backend's URL as it can be shown: without parameters.
func (b backend) name() string {
	name, _, _ := strings.Cut(b.url, "?")
	if u, err := url.Parse(name); err == nil && u.User != nil {
		name = u.Scheme + "://" + u.Host + u.Path
	}
	return name
}

// open connects to the backend. The error says what to start if nothing answers
// at the default address.
func (b backend) open(ctx context.Context, o dialOptions) (service, error) {
	client, err := b.engine.dial(ctx, b.url, o)
	switch {
	case err == nil:
		return client, nil
	case b.isDefault && errors.Is(err, recipes.ErrUnavailable) && ctx.Err() == nil:
		return nil, &exit{exitUnavailable, fmt.Errorf("nothing answers at %s, the default backend: "+
			"start a server with \"lockctl dev\", or name yours with --backend or LOCKCTL_BACKEND", b.name())}
	}
	return nil, err
}

// openClient is open for what needs more than locks.
func (b backend) openClient(ctx context.Context, o dialOptions) (*recipes.Client, error) {
	if b.engine.leases {
		return nil, usageError("%s has locks only: this needs etcd or ZooKeeper", b.name())
	}
	s, err := b.open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.(*recipes.Client), nil
}

// withClient opens the one backend, for what needs more than locks, runs f and closes
// the client.
func (a *app) withClient(ctx context.Context, f func(backend, *recipes.Client) error) error {
	return withBackend(a, f, func(b backend) (*recipes.Client, error) { return b.openClient(ctx, dialOptions{}) })
}

// withService opens the one backend, whatever it is, runs f and closes the client.
func (a *app) withService(ctx context.Context, f func(backend, service) error) error {
	return withBackend(a, f, func(b backend) (service, error) { return b.open(ctx, dialOptions{}) })
}

func withBackend[S service](a *app, f func(backend, S) error, open func(backend) (S, error)) (err error) {
	b, err := a.oneBackend()
	if err != nil {
		return err
	}
	s, err := open(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return f(b, s)
}
