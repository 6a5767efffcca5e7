package dynamodb_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/dynamodb"
	"github.com/lockctl/lockctl/internal/dynaserver"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/leasetest"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{ // dynalite takes any
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	leasetest.Main(m, open)
}

func TestConformance(t *testing.T) {
	leasetest.Run(t, func(t testing.TB) leasetest.Server { return &server{dynaserver.Start(t)} })
}

// server implements leasetest.Server.
type server struct{ *dynaserver.Server }

func (s *server) Open(t testing.TB, o leasetest.Options) leasetest.Client {
	t.Helper()
	to := s.URL()
	if o.Link != nil {
		to = url(o.Link.(*link).Addr())
	}
	c, err := open(t.Context(), to, o)
	require.NoError(t, err)
	return c
}

func (s *server) URL() string { return url(s.Addr()) }

func open(ctx context.Context, url string, o leasetest.Options) (leasetest.Client, error) {
	options := &dynamodb.Options{Lease: recipes.LeaseOptions{TTL: o.TTL, Poll: o.Poll}}
	options.Lease.Client.Owner.Label = o.Label
	c, err := dynamodb.Dial(ctx, url, options)
	if err != nil {
		return nil, err
	}
	return leasetest.Fenced(c), nil
}

func url(addr string) string { return "dynamodb://us-east-1/locks?endpoint=http://" + addr }

func (s *server) Link(t testing.TB) leasetest.Link {
	t.Helper()
	l, err := faultlink.New(s.Addr())
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return &link{l}
}

func (s *server) Restart(t testing.TB) bool {
	s.Server.Restart(t)
	return true
}

type link struct{ *faultlink.Link }

func (l *link) StallRequests() { l.Stall(faultlink.Requests) }
func (l *link) StallReplies()  { l.Stall(faultlink.Replies) }
func (l *link) StallBoth()     { l.Stall(faultlink.Both) }

const patience = 60 * time.Second // bounds everything that must happen

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
