package zk

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/backendurl"
	"github.com/lockctl/lockctl/recipes"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := (*Options)(nil).withDefaults(DefaultTTL)
	require.NoError(t, err)
	require.Equal(t, DefaultRoot, o.Root)
	require.Equal(t, DefaultTTL, o.TTL)
	require.Equal(t, gozk.WorldACL(gozk.PermAll), o.ACL)

	o, err = (&Options{User: "u", Password: "p"}).withDefaults(DefaultTTL)
	require.NoError(t, err)
	require.Equal(t, gozk.AuthACL(gozk.PermAll), o.ACL, "with a user the creator alone has rights")
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field string
		opts  Options
	}{
		{"Options.Root", Options{Root: "lockctl"}},
		{"Options.Root", Options{Root: "/"}},
		{"Options.Root", Options{Root: "/a/../b"}},
		{"Options.Root", Options{Root: "/zookeeper"}},
		{"Options.Root", Options{Root: "/zookeeper/locks"}},
		{"Options.TTL", Options{TTL: -time.Second}},
		{"Options.TTL", Options{TTL: time.Millisecond}},
		{"Options.TTL", Options{TTL: 25 * time.Hour}},
		{"Options.User", Options{Password: "p"}},
		{"Options.User", Options{User: "u"}},
		{"Options.User", Options{User: "u:v", Password: "p"}},
		{"ClientOptions.ConnectTimeout", Options{Client: recipes.ClientOptions{ConnectTimeout: -1}}},
		{"ClientOptions.CloseTimeout", Options{Client: recipes.ClientOptions{CloseTimeout: -1}}},
	} {
		_, err := Dial(context.Background(), "zk://127.0.0.1:1", &tc.opts)
		requireInvalid(t, err, tc.field)
	}
	_, err := Open(context.Background(), nil, nil)
	requireInvalid(t, err, "conn")
	_, err = Open(context.Background(), new(gozk.Conn), &Options{DisconnectIsLoss: true})
	requireInvalid(t, err, "Options.DisconnectIsLoss")
}

func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *recipes.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
}

func TestInvalidURL(t *testing.T) {
	t.Setenv("LOCKCTL_PASSWORD", "")
	for _, url := range []string{
		"", "zk:", "zk://", "etcd://host", "zk://host:99999", "zk://user:secret@host", "zk://host?ttl=soon",
		"zk://host?ttl=-1s", "zk://host?chroot=/a", "zk://host?user=u", "zk://host?user=u&password-file=/does/not/exist",
		"zk://host?cert=/a", "zk://host?cacert=/does/not/exist", "zk://host/a//b", "zk://host,",
	} {
		_, err := Dial(context.Background(), url, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, url)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestFromURL(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	u, err := backendurl.Parse("zk://a,b:1/locks?ttl=9s&tls=true&user=u&password-file="+file, scheme, defaultPort)
	require.NoError(t, err)
	require.Equal(t, []string{"a:2181", "b:1"}, u.Servers)
	o, err := fromURL(u, nil)
	require.NoError(t, err)
	require.Equal(t, "/locks", o.Root)
	require.Equal(t, 9*time.Second, o.TTL)
	require.Equal(t, "u", o.User)
	require.Equal(t, "secret", o.Password)
	require.NotNil(t, o.TLS)

	o, err = fromURL(u, &Options{Root: "/mine", TTL: time.Second, User: "v", Password: "w"})
	require.NoError(t, err, "options go before the URL")
	require.Equal(t, "/mine", o.Root)
	require.Equal(t, time.Second, o.TTL)
	require.Equal(t, "v", o.User)
	require.Equal(t, "w", o.Password)
}

func TestPathProblem(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/", "a", "a/b", "//a", "/a//b", "/a/", "/a/./b", "/a/..", "/a\ue000"} {
		require.NotEmpty(t, pathProblem(path), path)
	}
	for _, path := range []string{"/a", "/a/b c/ü", "/a%2F"} {
		require.Empty(t, pathProblem(path), path)
	}
}

func TestShuffled(t *testing.T) {
	t.Parallel()
	servers := []string{"a:1", "b:1", "c:1"}
	first := map[string]bool{}
	for range 1000 {
		order := shuffled(servers)
		require.ElementsMatch(t, servers, order)
		first[order[0]] = true
	}
	require.Len(t, first, 3, "each comes first for some")
	require.Equal(t, []string{"a:1", "b:1", "c:1"}, servers)
}
