package etcd

import (
	"context"
	"crypto/tls"
	"reflect"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/internal/backendurl"
	"github.com/lockctl/lockctl/recipes"
)

const (
	// DefaultRoot is the root of clients that name none.
	DefaultRoot = "/lockctl"
	// DefaultTTL is the TTL of sessions of clients that name none.
	DefaultTTL = 15 * time.Second

	scheme      = "etcd"
	defaultPort = "2379"

	// What it wraps does not reach the streams that this package opens by itself.
	namespacePackage = "go.etcd.io/etcd/client/v3/namespace"

	connectTimeout = 5 * time.Second

	// The gRPC library allows no shorter interval.
	pingInterval = 10 * time.Second
	pingTimeout  = 3 * time.Second
)

// Options adjust a client. A nil *Options means all defaults.
type Options struct {
	// Root is the prefix of all keys: it begins with "/" and its elements are
	// printable ASCII. Defaults to DefaultRoot.
	Root string
	// TTL is how long the service keeps a session without a renewal; it is rounded
	// up to whole seconds. Defaults to DefaultTTL.
	TTL time.Duration
	// TLS is for Dial. Defaults to what the URL says.
	TLS *tls.Config
	// User and Password are for Dial. They default to what the URL says. The service
	// must have authentication enabled.
	User, Password string
	// Client has the options that all engines share.
	Client recipes.ClientOptions
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Root == "" {
		opts.Root = DefaultRoot
	}
	if problem := backendurl.RootProblem(opts.Root); problem != "" {
		return opts, &recipes.InvalidError{Field: "Options.Root", Problem: problem}
	}
	if opts.TTL == 0 {
		opts.TTL = DefaultTTL
	}
	if opts.TTL < 0 || opts.TTL > 24*time.Hour {
		return opts, &recipes.InvalidError{Field: "Options.TTL", Problem: "is not between 0 and 24 h"}
	}
	if opts.Password != "" && opts.User == "" {
		return opts, &recipes.InvalidError{Field: "Options.User", Problem: "is empty although there is a password"}
	}
	if opts.User != "" && opts.Password == "" {
		return opts, &recipes.InvalidError{Field: "Options.Password", Problem: "is empty although there is a user"}
	}
	if opts.Client.ConnectTimeout == 0 {
		opts.Client.ConnectTimeout = connectTimeout
	}
	return opts, nil
}

// Open makes a client over the user's own etcd client, which stays open when the
// client is closed. It asks the service for one key, so that an error shows now:
// ErrUnavailable, ErrDenied, ErrInvalid or the context's, within
// ClientOptions.ConnectTimeout. A nil opts means all defaults; TLS, User and
// Password are not used.
//
// Give the etcd client a DialKeepAliveTime: without it, a connection that has
// died silently can keep a waiter waiting although the lock is free, for as long
// as the session can be renewed through other connections.
func Open(ctx context.Context, client *clientv3.Client, opts *Options) (*recipes.Client, error) {
	if problem := clientProblem(client); problem != "" {
		return nil, &recipes.InvalidError{Field: "client", Problem: problem}
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(o)
	s.client, s.servers = client, client.Endpoints()
	return open(ctx, s, o, func(context.Context) error { return nil })
}

// clientProblem says why a client can't be used, or "".
func clientProblem(client *clientv3.Client) string {
	switch {
	case client == nil:
		return "is nil"
	case client.ActiveConnection() == nil:
		return "has no connection of its own, as clients inside a server's process"
	case reflect.Indirect(reflect.ValueOf(client.KV)).Type().PkgPath() == namespacePackage:
		return "is wrapped by package namespace: set Options.Root instead"
	}
	return ""
}

// Dial makes a client from a URL: etcd://host:port,host:port/root?ttl=15s, with
// the parameters user, password-file, tls, cacert, cert, key and server-name.
// What opts sets goes before what the URL says. A user's password is read from
// password-file or from the environment's LOCKCTL_PASSWORD. Errors are those of
// Open.
func Dial(ctx context.Context, url string, opts *Options) (*recipes.Client, error) {
	u, err := backendurl.Parse(url, scheme, defaultPort)
	if err != nil {
		return nil, err
	}
	o, err := fromURL(u, opts)
	if err != nil {
		return nil, err
	}
	s := newStore(o)
	return open(ctx, s, o, func(ctx context.Context) error { return s.dial(ctx, u.Servers, o) })
}

// fromURL fills in what opts leaves open.
func fromURL(u backendurl.URL, opts *Options) (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Root == "" {
		o.Root = u.Root
	}
	if o.TTL == 0 {
		o.TTL = u.TTL
	}
	if o.User == "" {
		o.User = u.User
	}
	if u.PasswordFile != "" && o.User == "" {
		return o, &recipes.InvalidError{Field: "backend URL", Problem: "names a password-file and no user"}
	}
	if o.Password == "" {
		u.User = o.User
		password, err := u.Password()
		if err != nil {
			return o, err
		}
		if password == "" && o.User != "" {
			return o, &recipes.InvalidError{Field: "backend URL", Problem: "names a user, and neither password-file nor LOCKCTL_PASSWORD gives a password"}
		}
		o.Password = password
	}
	if o.TLS == nil {
		config, err := u.TLSConfig()
		if err != nil {
			return o, err
		}
		o.TLS = config
	}
	return o.withDefaults()
}

// open makes the client, connects, and proves that the service answers.
func open(ctx context.Context, s *store, o Options, connect func(context.Context) error) (*recipes.Client, error) {
	client, err := recipes.NewClient(s, &o.Client)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Client.ConnectTimeout)
	defer cancel()
	err = connect(ctx)
	if err == nil {
		err = ctx.Err() // its end has closed what was connected
	}
	if err == nil {
		err = s.probe(ctx)
	}
	if err != nil {
		_ = client.Close() // the first error is the one to report
		return nil, s.dialError(err)
	}
	return client, nil
}
