package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockctl/lockctl/internal/backendurl"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// Parameters for Sentinels.
const (
	sentinelUser         = "sentinel-user"
	sentinelPasswordFile = "sentinel-password-file"
)

const (
	defaultPort         = "6379"
	defaultSentinelPort = "26379"

	defaultConnectTimeout = 5 * time.Second
	readTimeout           = 3 * time.Second // of requests whose context has no deadline
)

// Dial connects to Redis by a URL:
//
//	redis://host:6379/0?ttl=15s                       one server, and the number of a database
//	redis://host:26379,host,host/0?master=mymaster    the master that Sentinels tell of
//	redis://host:6379,host,host?cluster=true          a cluster, by some of its servers
//
// With rediss:// or tls=true the connections use TLS. Parameters are ttl, poll, prefix,
// user, password-file, cacert, cert, key and server-name; a password comes from
// the file, or from the environment's LOCKCTL_PASSWORD, and needs a user: that of a server
// with requirepass is "default". Sentinels have a user and a password of their own:
// sentinel-user, and sentinel-password-file or the environment's
// LOCKCTL_SENTINEL_PASSWORD; without a user they are asked without credentials. Options
// count where they say otherwise than the URL.
//
// It returns when a server has answered, or ErrInvalid for a URL or options that are out
// of range, ErrDenied or ErrUnavailable.
func Dial(ctx context.Context, rawURL string, opts *Options) (*recipes.LeaseClient, error) {
	t, err := readTarget(rawURL, "redis", "master", "cluster", sentinelUser, sentinelPasswordFile)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := t.apply(&o); err != nil {
		return nil, err
	}
	redisClient := t.client()
	client, err := open(redisClient, &o, true)
	if err != nil {
		return nil, errors.Join(err, redisClient.Close())
	}
	if err := greet(ctx, redisClient, connectTimeout(&o)); err != nil {
		return nil, errors.Join(fmt.Errorf("redis at %s: %w", strings.Join(t.Servers, ","), err), client.Close())
	}
	return client, nil
}

// A target is what a URL says.
type target struct {
	backendurl.URL
	master, prefix string
	cluster        bool
	poll           time.Duration
	db             int
	password       string
	sentinel       string // the password for Sentinels
	tls            *tls.Config
}

func invalid(format string, args ...any) error {
	return &recipes.InvalidError{Field: "URL", Problem: fmt.Sprintf(format, args...)}
}

// readTarget reads a URL with that scheme, or the same and an s, and with more
// parameters than all have.
func readTarget(raw, scheme string, more ...string) (*target, error) {
	t := &target{}
	port := defaultPort
	if _, query, _ := strings.Cut(raw, "?"); strings.Contains("&"+query, "&master=") {
		port = defaultSentinelPort
	}
	secure, isSecure := strings.CutPrefix(raw, scheme+"s://")
	if isSecure {
		raw = scheme + "://" + secure
	}
	var err error
	if t.URL, err = backendurl.Parse(raw, scheme, port, append(more, "poll", "prefix")...); err != nil {
		return nil, err
	}
	t.TLS = t.TLS || isSecure
	t.master, t.prefix = t.More["master"], t.More["prefix"]
	if text := t.More["poll"]; text != "" {
		if t.poll, err = time.ParseDuration(text); err != nil || t.poll <= 0 {
			return nil, invalid("has a bad poll %q: it is a duration such as 1s", text)
		}
	}
	switch text := t.More["cluster"]; text {
	case "", "false":
	case "true":
		t.cluster = true
	default:
		return nil, invalid("has a bad cluster %q: it is true or false", text)
	}
	if t.Root != "" {
		if t.db, err = strconv.Atoi(t.Root[1:]); err != nil || t.db < 0 {
			return nil, invalid("has a bad database %q: it is a number", t.Root[1:])
		}
	}
	if t.password, err = t.Password(); err != nil {
		return nil, err
	}
	if t.More[sentinelUser] != "" {
		if t.sentinel, err = backendurl.ReadPassword(t.More[sentinelPasswordFile], "LOCKCTL_SENTINEL_PASSWORD"); err != nil {
			return nil, err
		}
	}
	t.tls, err = t.TLSConfig()
	return t, err
}

// apply puts what the URL says into the options, where those don't say otherwise.
func (t *target) apply(o *Options) error {
	switch {
	case t.cluster && t.master != "":
		return invalid("gives both master and cluster")
	case t.master == "" && (t.More[sentinelUser] != "" || t.More[sentinelPasswordFile] != ""):
		return invalid("has credentials for Sentinels, and no master that they tell of")
	case t.More[sentinelUser] == "" && t.More[sentinelPasswordFile] != "":
		return invalid("names a %s and no %s", sentinelPasswordFile, sentinelUser)
	case t.cluster && t.db != 0:
		return invalid("names database %d: a cluster has only 0", t.db)
	case len(t.Servers) > 1 && t.master == "" && !t.cluster:
		return invalid("has several servers: say master= for Sentinels, cluster=true for a cluster, or redlock:// for servers that are independent")
	}
	t.applyCommon(o)
	return nil
}

func (t *target) applyCommon(o *Options) {
	if o.Prefix == "" {
		o.Prefix = t.prefix
	}
	if o.Lease.TTL == 0 {
		o.Lease.TTL = t.TTL
	}
	if o.Lease.Poll == 0 {
		o.Lease.Poll = t.poll
	}
}

// client makes one of Redis, which repeats nothing by itself: recipes does that, and knows
// when it is too late.
func (t *target) client() redis.UniversalClient {
	switch {
	case t.master != "":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: t.master, SentinelAddrs: t.Servers, Username: t.User, Password: t.password, DB: t.db, TLSConfig: t.tls,
			SentinelUsername: t.More[sentinelUser], SentinelPassword: t.sentinel,
			MaxRetries: -1, DialerRetries: 1, ReadTimeout: readTimeout, ContextTimeoutEnabled: true,
		})
	case t.cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: t.Servers, Username: t.User, Password: t.password, TLSConfig: t.tls,
			MaxRetries: -1, DialerRetries: 1, ReadTimeout: readTimeout, ContextTimeoutEnabled: true,
		})
	default:
		return t.server(t.Servers[0])
	}
}

func (t *target) server(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Username: t.User, Password: t.password, DB: t.db, TLSConfig: t.tls,
		MaxRetries: -1, DialerRetries: 1, ReadTimeout: readTimeout, ContextTimeoutEnabled: true,
	})
}

// greet returns when the server has answered. Its errors are those of recipes.
func greet(ctx context.Context, client redis.UniversalClient, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return greeted(failed(client.Ping(ctx).Err()))
}

func greeted(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrDenied):
		return fmt.Errorf("%w: %w", recipes.ErrDenied, err)
	default:
		return fmt.Errorf("%w: %w", recipes.ErrUnavailable, err)
	}
}

func connectTimeout(o *Options) time.Duration {
	if o.Lease.Client.ConnectTimeout <= 0 {
		return defaultConnectTimeout
	}
	return o.Lease.Client.ConnectTimeout
}
