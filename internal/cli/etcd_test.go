package cli

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/internal/etcdtest"
)

func etcdService(t *testing.T) scriptService {
	server := etcdtest.Start(t)
	client := server.Client(t)
	expire := func(tb testing.TB, sessionID string) {
		lease, err := strconv.ParseInt(sessionID, 16, 64)
		require.NoError(tb, err)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err = client.Revoke(ctx, clientv3.LeaseID(lease))
		require.NoError(tb, err)
	}
	plant := func(tb testing.TB, root, name, value string) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lease, err := client.Grant(ctx, 600)
		require.NoError(tb, err)
		key := fmt.Sprintf("%s/lock/%s/%x", root, name, lease.ID)
		_, err = client.Put(ctx, key, value, clientv3.WithLease(lease.ID))
		require.NoError(tb, err)
	}
	return scriptService{scheme: "etcd", addr: server.Addr(), expire: expire, plant: plant}
}

// TestEtcd runs the scripts that every engine must pass.
func TestEtcd(t *testing.T) { runScripts(t, etcdService(t), "testdata/core") }

// TestScripts runs the scripts for which one engine is enough.
func TestScripts(t *testing.T) { runScripts(t, etcdService(t), "testdata/cli") }

// TestDev runs the scripts that start servers of their own.
func TestDev(t *testing.T) { runScripts(t, etcdService(t), "testdata/dev") }

// TestCredentials runs the scripts against a server that asks for a password.
func TestCredentials(t *testing.T) {
	server := etcdtest.Start(t)
	client := server.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	steps := []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "locks"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "locks", "/allowed/", "/allowed0", clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "someone", "correct-horse"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "someone", "locks"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	}
	for _, step := range steps {
		require.NoError(t, step())
	}
	runScripts(t, scriptService{scheme: "etcd", addr: server.Addr()}, "testdata/auth")
}
