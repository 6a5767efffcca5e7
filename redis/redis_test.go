package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/redisserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/leasetest"
	"github.com/lockctl/lockctl/redis"
)

func TestMain(m *testing.M) {
	leasetest.Main(m, func(ctx context.Context, url string, o leasetest.Options) (leasetest.Client, error) {
		if strings.HasPrefix(url, "redlock:") {
			return openRedlock(ctx, url, o)
		}
		c, err := redis.Dial(ctx, url, options(o))
		if err != nil {
			return nil, err
		}
		return leasetest.Fenced(c), nil
	})
}

func TestConformance(t *testing.T) {
	t.Run("dialled", func(t *testing.T) {
		leasetest.Run(t, func(t testing.TB) leasetest.Server {
			return &single{server: redisserver.Start(t), prefix: "dialled:", open: func(t testing.TB, addr string, o *redis.Options) (*recipes.LeaseClient, error) {
				return redis.Dial(t.Context(), "redis://"+addr+"?prefix=dialled:", o)
			}}
		})
	})
	// A client of the user's, with all that it does by default: it repeats commands, and
	// looks at no context.
	t.Run("opened", func(t *testing.T) {
		leasetest.Run(t, func(t testing.TB) leasetest.Server {
			return &single{server: redisserver.Start(t), prefix: "opened:", open: func(t testing.TB, addr string, o *redis.Options) (*recipes.LeaseClient, error) {
				own := goredis.NewClient(&goredis.Options{Addr: addr})
				t.Cleanup(func() { require.NoError(t, own.Close()) })
				o.Prefix = "opened:"
				return redis.Open(own, o)
			}}
		})
	})
}

// single implements leasetest.Server.
type single struct {
	server *redisserver.Server
	prefix string
	open   func(t testing.TB, addr string, o *redis.Options) (*recipes.LeaseClient, error)
}

func (s *single) Open(t testing.TB, o leasetest.Options) leasetest.Client {
	t.Helper()
	addr := s.server.Addr()
	if o.Link != nil {
		addr = o.Link.(*link).addr()
	}
	c, err := s.open(t, addr, options(o))
	require.NoError(t, err)
	return leasetest.Fenced(c)
}

func (s *single) URL() string { return "redis://" + s.server.Addr() + "?prefix=" + s.prefix }

func options(o leasetest.Options) *redis.Options {
	options := &redis.Options{Lease: recipes.LeaseOptions{TTL: o.TTL, Poll: o.Poll}}
	options.Lease.Client.Owner.Label = o.Label
	return options
}

func (s *single) Link(t testing.TB) leasetest.Link { return newLink(t, s.server) }

func (s *single) Restart(t testing.TB) bool {
	s.server.Restart(t)
	return true
}

// A link is one to each of some servers, which are disturbed together.
type link struct{ links []*faultlink.Link }

func newLink(t testing.TB, servers ...*redisserver.Server) *link {
	t.Helper()
	l := &link{}
	for _, s := range servers {
		one, err := faultlink.New(s.Addr())
		require.NoError(t, err)
		t.Cleanup(one.Close)
		l.links = append(l.links, one)
	}
	return l
}

func (l *link) addr() string { return l.links[0].Addr() }

func (l *link) each(do func(*faultlink.Link)) {
	for _, one := range l.links {
		do(one)
	}
}

func (l *link) StallRequests() { l.each(func(l *faultlink.Link) { l.Stall(faultlink.Requests) }) }
func (l *link) StallReplies()  { l.each(func(l *faultlink.Link) { l.Stall(faultlink.Replies) }) }
func (l *link) StallBoth()     { l.each(func(l *faultlink.Link) { l.Stall(faultlink.Both) }) }
func (l *link) Resume()        { l.each((*faultlink.Link).Resume) }
func (l *link) LoseReply()     { l.each((*faultlink.Link).LoseReply) }
func (l *link) Cut()           { l.each((*faultlink.Link).Cut) }

const patience = 60 * time.Second // bounds everything that must happen

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // between looks; nothing depends on how long
	}
}
