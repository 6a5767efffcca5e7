package etcdtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/internal/etcdserver"
)

// A Cluster is an etcd of several members for one test.
type Cluster struct {
	Members []*Server
}

// StartCluster runs a cluster of n members until the test ends.
func StartCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	addrs := map[string]string{}
	for i := range n {
		addr, err := etcdserver.FreeAddr()
		require.NoError(t, err)
		addrs[memberName(i)] = addr
	}
	c := &Cluster{}
	for i := range n {
		o := Options()
		o.Name, o.Members = memberName(i), addrs
		c.Members = append(c.Members, newServer(t, o))
	}
	c.start(t)
	return c
}

func memberName(i int) string { return fmt.Sprintf("member-%d", i+1) }

// start starts all members at the same time: one alone can't serve.
func (c *Cluster) start(t testing.TB) {
	t.Helper()
	errs := make([]error, len(c.Members))
	var wg sync.WaitGroup
	for i, m := range c.Members {
		wg.Go(func() { errs[i] = m.start() })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

// Addrs are the addresses for clients.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, m := range c.Members {
		addrs = append(addrs, m.Addr())
	}
	return addrs
}

// Client makes a client of all members that is closed when the test ends.
func (c *Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return c.Members[0].ClientAt(t, c.Addrs()...)
}

// Restart stops all members, then starts all with the same data and addresses.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	var wg sync.WaitGroup
	for _, m := range c.Members {
		wg.Go(m.Stop)
	}
	wg.Wait()
	c.start(t)
}

// Leader waits until exactly one running member is the leader, and returns it.
func (c *Cluster) Leader(t testing.TB) *Server {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		var leaders []*Server
		for _, m := range c.Members {
			if m.server != nil && m.server.Leader() {
				leaders = append(leaders, m)
			}
		}
		if len(leaders) == 1 {
			return leaders[0]
		}
		time.Sleep(5 * time.Millisecond) // between looks; nothing depends on how long
	}
	t.Fatal("the cluster has no leader")
	return nil
}

// CutOff drops all messages between the member and the others, both ways. Its
// clients still reach it.
func (c *Cluster) CutOff(member *Server) {
	for _, m := range c.Members {
		if m != member {
			member.server.Cut(m.server)
		}
	}
}

// Mend is the opposite of CutOff.
func (c *Cluster) Mend(member *Server) {
	for _, m := range c.Members {
		if m != member {
			member.server.Mend(m.server)
		}
	}
}
