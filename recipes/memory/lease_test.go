package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/leasetest"
	"github.com/lockctl/lockctl/recipes/memory"
)

func TestLeases(t *testing.T) {
	leasetest.Run(t, func(testing.TB) leasetest.Server { return &leases{} })
}

// leases implements leasetest.Server.
type leases struct{ server memory.LeaseServer }

func (l *leases) Open(t testing.TB, o leasetest.Options) leasetest.Client {
	t.Helper()
	options := &memory.LeaseOptions{Lease: recipes.LeaseOptions{TTL: o.TTL, Poll: o.Poll}}
	options.Lease.Client.Owner.Label = o.Label
	if o.Link != nil {
		options.Link = o.Link.(*memory.Link)
	}
	c, err := memory.OpenLeases(&l.server, options)
	require.NoError(t, err)
	return leasetest.Fenced(c)
}

func (l *leases) URL() string { return "" }

func (l *leases) Link(testing.TB) leasetest.Link { return &memory.Link{} }

func (l *leases) Restart(testing.TB) bool { return false }

func TestInvalidLeaseOptions(t *testing.T) {
	_, err := memory.OpenLeases(nil, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
	for _, o := range []recipes.LeaseOptions{{TTL: 1}, {TTL: -1}, {Poll: -1}, {Client: recipes.ClientOptions{ConnectTimeout: -1}}} {
		_, err := memory.OpenLeases(&memory.LeaseServer{}, &memory.LeaseOptions{Lease: o})
		require.ErrorIs(t, err, recipes.ErrInvalid, "%+v", o)
	}
}
