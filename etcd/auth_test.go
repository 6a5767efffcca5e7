package etcd_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
)

// startAuth runs a server on which the user "team" has the password "secret" and
// may read and write below /team/ only.
func startAuth(t testing.TB, tokenTTL time.Duration) *etcdtest.Server {
	t.Helper()
	o := etcdtest.Options()
	o.TokenTTL = tokenTTL
	server := etcdtest.StartWith(t, o)
	c := server.Client(t)
	ctx := context.Background()
	steps := []func() error{
		func() error { _, err := c.RoleAdd(ctx, "team"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "team", "/team/", clientv3.GetPrefixRangeEnd("/team/"),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "team", "secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "team", "team"); return err },
		func() error { _, err := c.UserAdd(ctx, "root", "rootpw"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	}
	for _, step := range steps {
		require.NoError(t, step())
	}
	return server
}

// teamOptions are the credentials that the server knows.
func teamOptions() *etcd.Options {
	return &etcd.Options{Root: "/team", User: "team", Password: "secret"}
}

func rootClient(t testing.TB, server *etcdtest.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.Addr()}, Username: "root", Password: "rootpw",
		DialTimeout: patience, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestAuthWithPermissionOnOneRoot(t *testing.T) {
	t.Parallel()
	server := startAuth(t, 0)
	url := "etcd://" + server.Addr()
	a, b, viewer := dial(t, url, teamOptions()), dial(t, url, teamOptions()), dial(t, url, teamOptions())

	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan int, 100)
	watched := make(chan error, 1)
	go func() {
		for change, err := range viewer.Watch(ctx, recipes.Filter{}) {
			if err != nil {
				watched <- err
				return
			}
			seen <- len(change.Object.Entries)
		}
		watched <- nil
	}()
	hold := lock(t, mutex(t, a, "job"))
	waiter := lockAside(ctx, mutex(t, b, "job"))
	queued(t, a, 2)
	_, err := mutex(t, b, "job").TryLock(ctx)
	require.ErrorIs(t, err, recipes.ErrHeld)
	locks, err := b.Objects(ctx, recipes.Filter{})
	require.NoError(t, err)
	require.Len(t, locks, 1)
	eventually(t, "the watch to show both", func() bool { return <-seen == 2 })
	unlock(t, hold)
	unlock(t, waiter.granted(t))
	cancel()
	require.NoError(t, <-watched)

	require.NoError(t, a.Close())
	left, err := rootClient(t, server).Get(context.Background(), "/team/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.LessOrEqual(t, left.Count, int64(1), "at most b's session")
}

func TestAuthRefusals(t *testing.T) {
	t.Parallel()
	server := startAuth(t, 0)
	url := "etcd://" + server.Addr()
	cases := []struct {
		name string
		url  string
		opts *etcd.Options
		says string
	}{
		{"wrong password", url + "/team", &etcd.Options{User: "team", Password: "wrong"}, "invalid user ID or password"},
		{"unknown user", url + "/team", &etcd.Options{User: "nobody", Password: "secret"}, "invalid user ID or password"},
		{"no credentials", url + "/team", nil, "user name is empty"},
		{"another root", url + "/other", &etcd.Options{User: "team", Password: "secret"}, "permission denied"},
	}
	for _, c := range cases {
		start := time.Now()
		_, err := etcd.Dial(context.Background(), c.url, c.opts)
		require.ErrorIs(t, err, recipes.ErrDenied, c.name)
		require.NotErrorIs(t, err, recipes.ErrUnavailable, c.name)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, server.Addr())
		require.NotContains(t, err.Error(), "secret")
		require.Less(t, time.Since(start), 5*time.Second, c.name)
	}
}

func TestAuthPasswordSources(t *testing.T) {
	server := startAuth(t, 0)
	url := "etcd://" + server.Addr() + "/team?user=team"
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	dial(t, url+"&password-file="+file, nil)
	dial(t, url+"&password-file="+file, &etcd.Options{User: "team", Password: "secret"})
	dial(t, url, &etcd.Options{Password: "secret"})
	dial(t, "etcd://"+server.Addr()+"/team?password-file="+file, &etcd.Options{User: "team"})
	t.Setenv("LOCKCTL_PASSWORD", "secret")
	dial(t, url, nil)
	t.Setenv("LOCKCTL_PASSWORD", "wrong")
	dial(t, url, &etcd.Options{Password: "secret"})
	_, err := etcd.Dial(context.Background(), url, nil)
	require.ErrorIs(t, err, recipes.ErrDenied)
}

// TestAuthNotEnabled gives a password to a service that doesn't ask for one: it
// protects nothing, which must not go unnoticed.
func TestAuthNotEnabled(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	_, err := etcd.Dial(context.Background(), "etcd://"+server.Addr(), teamOptions())
	require.ErrorIs(t, err, recipes.ErrDenied)
	require.ErrorContains(t, err, "authentication is not enabled")
}

// TestAuthTokensExpire waits long enough for the tokens that the client's streams
// were opened with to expire: what is done then still works.
func TestAuthTokensExpire(t *testing.T) {
	t.Parallel()
	server := startAuth(t, time.Second)
	url := "etcd://" + server.Addr()
	opts := teamOptions()
	opts.TTL = 2 * time.Second
	a, b := dial(t, url, opts), dial(t, url, opts)
	unlock(t, lock(t, mutex(t, a, "job")))
	unlock(t, lock(t, mutex(t, b, "job"))) // both have a session, with a watch of its own
	start := time.Now()
	eventually(t, "tokens to expire", func() bool { return time.Since(start) > 4*time.Second })
	for range 3 {
		hold := lock(t, mutex(t, a, "job"))
		waiter := lockAside(context.Background(), mutex(t, b, "job"))
		queued(t, a, 2)
		unlock(t, hold)
		unlock(t, waiter.granted(t))
	}
}

// TestAuthWhileIdle counts what holding a lock costs a service with passwords:
// each authentication is a raft entry and a slow hash.
func TestAuthWhileIdle(t *testing.T) {
	t.Parallel()
	server := startAuth(t, 0)
	opts := teamOptions()
	opts.TTL = 2 * time.Second
	hold := lock(t, mutex(t, dial(t, "etcd://"+server.Addr(), opts), "job"))
	eventually(t, "the session's streams to be open", func() bool {
		calls := server.Calls()
		return calls["LeaseKeepAlive"] > 0 && calls["Watch"] > 0
	})
	before := server.Calls()
	eventually(t, "renewals", func() bool {
		return server.Calls()["LeaseKeepAlive"] >= before["LeaseKeepAlive"]+5
	})
	require.Equal(t, before["Authenticate"], server.Calls()["Authenticate"])
	unlock(t, hold)
}

// TestAuthRevoked takes the permission away while a lock is held and waited for.
func TestAuthRevoked(t *testing.T) {
	t.Parallel()
	server := startAuth(t, 0)
	url := "etcd://" + server.Addr()
	opts := teamOptions()
	opts.TTL = 2 * time.Second
	a, err := etcd.Dial(context.Background(), url, opts)
	require.NoError(t, err)
	defer a.Close()
	hold := lock(t, mutex(t, a, "job"))
	root := rootClient(t, server)
	_, err = root.UserRevokeRole(context.Background(), "team", "team")
	require.NoError(t, err)
	_, err = a.Objects(context.Background(), recipes.Filter{})
	require.ErrorIs(t, err, recipes.ErrDenied)
	_, err = mutex(t, a, "other").Lock(context.Background())
	require.ErrorIs(t, err, recipes.ErrDenied)
	select {
	case <-hold.Context().Done():
	case <-time.After(patience):
		t.Fatal("a hold whose session can't be renewed was not lost")
	}
	require.ErrorIs(t, hold.Unlock(context.Background()), recipes.ErrLost)
}
