package etcd_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// GuardedWrite implements recipetest.Guarder.
func (h *harness) GuardedWrite(t testing.TB, value string, holds ...*recipes.Hold) bool {
	t.Helper()
	return guardedPut(t, h.client, value, holds...)
}

func guardedPut(t testing.TB, kv clientv3.KV, value string, holds ...*recipes.Hold) bool {
	t.Helper()
	var guards []clientv3.Cmp
	for _, hold := range holds {
		guard, err := etcd.Guard(hold)
		require.NoError(t, err)
		guards = append(guards, guard)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := kv.Txn(ctx).If(guards...).Then(clientv3.OpPut("/guarded", value)).Commit()
	require.NoError(t, err)
	return resp.Succeeded
}

func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	client, err := memory.Open(memory.NewServer(), nil)
	require.NoError(t, err)
	defer client.Close()
	hold := lock(t, mutex(t, client, "job"))
	for name, hold := range map[string]*recipes.Hold{"nil": nil, "of another engine": hold} {
		_, err := etcd.Guard(hold)
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, "hold", invalid.Field, name)
	}
	unlock(t, hold)
}

// TestGuardElsewhere uses a guard where the lock's keys are not seen: it refuses.
func TestGuardElsewhere(t *testing.T) {
	t.Parallel()
	server, other := etcdtest.Start(t), etcdtest.Start(t)
	c := dial(t, "etcd://"+server.Addr(), nil)
	hold := lock(t, mutex(t, c, "job"))
	require.True(t, guardedPut(t, server.Client(t), "here", hold))
	require.False(t, guardedPut(t, other.Client(t), "another etcd", hold))
	require.False(t, guardedPut(t, namespace.NewKV(server.Client(t), "/app"), "another namespace", hold))
	unlock(t, hold)
}

// TestGuardLeader has a leader write what only the leader may write.
func TestGuardLeader(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	kv := server.Client(t)
	e, err := election.New(dial(t, "etcd://"+server.Addr(), nil), "scheduler", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lead, err := e.Campaign(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, lead.Term(), lead.Hold().Token())
	require.NoError(t, lead.Proclaim(ctx, "b"))
	require.True(t, guardedPut(t, kv, "leads", lead.Hold()))
	require.NoError(t, lead.Resign(ctx))
	require.False(t, guardedPut(t, kv, "resigned", lead.Hold()))
}
