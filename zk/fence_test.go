package zk

import (
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

const guardedNode = "/guarded"

// GuardedWrite implements recipetest.Guarder.
func (h *harness) GuardedWrite(t testing.TB, value string, holds ...*recipes.Hold) bool {
	t.Helper()
	h.guarded.Do(func() { makeGuarded(t, h.admin) })
	return guardedSet(t, h.admin, value, holds...)
}

func makeGuarded(t testing.TB, conn *gozk.Conn) {
	t.Helper()
	_, err := conn.Create(guardedNode, nil, gozk.FlagPersistent, gozk.WorldACL(gozk.PermAll))
	if err != nil {
		require.ErrorIs(t, err, gozk.ErrNodeExists)
	}
}

func guardedSet(t testing.TB, conn *gozk.Conn, value string, holds ...*recipes.Hold) bool {
	t.Helper()
	var ops []any
	for _, hold := range holds {
		guard, err := Guard(hold)
		require.NoError(t, err)
		ops = append(ops, guard)
	}
	answers, err := conn.Multi(append(ops, &gozk.SetDataRequest{Path: guardedNode, Data: []byte(value), Version: anyVersion})...)
	if err == nil {
		return true
	}
	require.ErrorIs(t, err, gozk.ErrNoNode)
	require.Len(t, answers, len(holds)+1)
	for _, answer := range answers[:len(holds)] {
		if answer.Error != nil { // of the first hold that is over
			require.ErrorIs(t, answer.Error, gozk.ErrNoNode)
			return false
		}
	}
	t.Fatal("refused, and not by a guard")
	return false
}

func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	client, err := memory.Open(memory.NewServer(), nil)
	require.NoError(t, err)
	hold := lock(t, client, "job")
	for _, hold := range []*recipes.Hold{nil, hold} { // none, another engine's
		_, err := Guard(hold)
		requireInvalid(t, err, "hold")
	}
	require.NoError(t, hold.Unlock(within(t)))
	require.NoError(t, client.Close())
}

// testGuardAccess guards with a connection that may not read the lock's nodes.
func testGuardAccess(t *testing.T, s *zkserver.Server) {
	owner := dial(t, urlFor(s, rootFor(t)), &Options{User: "owner", Password: "secret"})
	hold := lock(t, owner, "private")
	guard, err := Guard(hold)
	require.NoError(t, err)
	conn := connect(t, s.Addrs(), 20*time.Second)
	_, err = conn.Multi(guard)
	require.ErrorIs(t, err, gozk.ErrNoAuth)
	require.NoError(t, conn.AddAuth("digest", []byte("owner:secret")))
	_, err = conn.Multi(guard)
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(within(t)))
	_, err = conn.Multi(guard)
	require.ErrorIs(t, err, gozk.ErrNoNode)
}

// testGuardLeader has a leader write what only the leader may write.
func testGuardLeader(t *testing.T, s *zkserver.Server) {
	conn := connect(t, s.Addrs(), 20*time.Second)
	makeGuarded(t, conn)
	e, err := election.New(dial(t, urlFor(s, rootFor(t)), nil), "scheduler", nil)
	require.NoError(t, err)
	lead, err := e.Campaign(within(t), "a")
	require.NoError(t, err)
	require.NoError(t, lead.Proclaim(within(t), "b"))
	require.True(t, guardedSet(t, conn, "leads", lead.Hold()))
	require.NoError(t, lead.Resign(within(t)))
	require.False(t, guardedSet(t, conn, "resigned", lead.Hold()))
}
