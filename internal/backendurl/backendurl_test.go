package backendurl_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/backendurl"
	"github.com/lockctl/lockctl/recipes"
)

func parse(raw string) (backendurl.URL, error) { return backendurl.Parse(raw, "etcd", "2379") }

func TestParse(t *testing.T) {
	t.Parallel()
	cases := []struct {
		raw  string
		want backendurl.URL
	}{
		{"etcd://a", backendurl.URL{Servers: []string{"a:2379"}}},
		{"etcd://a/", backendurl.URL{Servers: []string{"a:2379"}}},
		{"etcd://a:1,b,10.0.0.1:3", backendurl.URL{Servers: []string{"a:1", "b:2379", "10.0.0.1:3"}}},
		{"etcd://[::1]", backendurl.URL{Servers: []string{"[::1]:2379"}}},
		{"etcd://[::1]:7/root", backendurl.URL{Servers: []string{"[::1]:7"}, Root: "/root"}},
		{"etcd://a/root/", backendurl.URL{Servers: []string{"a:2379"}, Root: "/root"}},
		{"etcd://a/team/locks", backendurl.URL{Servers: []string{"a:2379"}, Root: "/team/locks"}},
		{"etcd://a/x%23y", backendurl.URL{Servers: []string{"a:2379"}, Root: "/x#y"}},
		{"etcd://a?ttl=1500ms", backendurl.URL{Servers: []string{"a:2379"}, TTL: 1500 * time.Millisecond}},
		{"etcd://a/r?user=u&password-file=/run/p%20w", backendurl.URL{
			Servers: []string{"a:2379"}, Root: "/r", User: "u", PasswordFile: "/run/p w",
		}},
		{"etcd://a?tls=true", backendurl.URL{Servers: []string{"a:2379"}, TLS: true}},
		{"etcd://a?tls=false", backendurl.URL{Servers: []string{"a:2379"}}},
		{"etcd://a?cacert=ca", backendurl.URL{Servers: []string{"a:2379"}, TLS: true, CACert: "ca"}},
		{"etcd://a?cert=c&key=k&server-name=s", backendurl.URL{
			Servers: []string{"a:2379"}, TLS: true, Cert: "c", Key: "k", ServerID: "s",
		}},
	}
	for _, c := range cases {
		got, err := parse(c.raw)
		require.NoError(t, err, c.raw)
		c.want.Scheme = "etcd"
		require.Equal(t, c.want, got, c.raw)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct{ raw, says string }{
		{"", "must begin with etcd://"},
		{"a:2379", "must begin with etcd://"},
		{"zk://a:2379", "must begin with etcd://"},
		{"ETCD://a", "must begin with etcd://"},
		{"etcd:/a", "must begin with etcd://"},
		{"etcd://", "empty server"},
		{"etcd:///root", "empty server"},
		{"etcd://a,,b", "empty server"},
		{"etcd://a,", "empty server"},
		{"etcd://a:", "bad server"},
		{"etcd://a:0", "bad server"},
		{"etcd://:2379", "bad server"},
		{"etcd://a:99999", "bad server"},
		{"etcd://a:b:c", "bad server"},
		{"etcd://::1", "bad server"},
		{"etcd://a b", "bad server"},
		{"etcd://a\n", "bad server"},
		{"etcd://user@a", "user= and password-file="},
		{"etcd://user:hunter2@a", "user= and password-file="},
		{"etcd://a#x", "fragment"},
		{"etcd://a/root#x", "fragment"},
		{"etcd://a//", "a name"},
		{"etcd://a/x//y", "element"},
		{"etcd://a/..", "element"},
		{"etcd://a/x/./y", "element"},
		{"etcd://a/x y", "printable ASCII"},
		{"etcd://a/%C3%BC", "printable ASCII"},
		{"etcd://a/%00", "printable ASCII"},
		{"etcd://a/%zz", "bad root"},
		{"etcd://a?ttl=15", "bad ttl"},
		{"etcd://a?ttl=0s", "bad ttl"},
		{"etcd://a?ttl=-1s", "bad ttl"},
		{"etcd://a?ttl=1s&ttl=2s", "ttl once"},
		{"etcd://a?ttl=", "ttl once, with a value"},
		{"etcd://a?TTL=1s", `unknown parameter "TTL"`},
		{"etcd://a?password=hunter2", `unknown parameter "password"`},
		{"etcd://a?x", `unknown parameter "x"`},
		{"etcd://a?%zz=1", "bad parameters"},
		{"etcd://a?tls=yes", "bad tls"},
		{"etcd://a?cert=c", "cert and key together"},
		{"etcd://a?key=k", "cert and key together"},
		{"etcd://a?tls=false&cacert=ca", "tls=false and gives certificates"},
	}
	for _, c := range cases {
		_, err := parse(c.raw)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%q", c.raw)
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "backend URL", invalid.Field)
		require.ErrorContains(t, err, c.says, "%q", c.raw)
		require.NotContains(t, err.Error(), "hunter2", "a password is not repeated")
		require.NotContains(t, err.Error(), "\n", "one line")
	}
}

func TestRootProblem(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"/a", "/a/b", "/a-b_c.d", "/~"} {
		require.Empty(t, backendurl.RootProblem(root), root)
	}
	for _, root := range []string{"", "/", "a", "a/b", "/a/", "//a", "/a/../b", "/.", "/ü", "/a b", "/a\tb", "/\x7f"} {
		require.NotEmpty(t, backendurl.RootProblem(root), "%q", root)
	}
}

func TestPassword(t *testing.T) {
	t.Setenv("LOCKCTL_PASSWORD", "from the environment")
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(file, []byte("from a file\r\n"), 0o600))
	cases := []struct {
		url  backendurl.URL
		want string
	}{
		{backendurl.URL{}, ""},
		{backendurl.URL{PasswordFile: file}, ""},
		{backendurl.URL{User: "u"}, "from the environment"},
		{backendurl.URL{User: "u", PasswordFile: file}, "from a file"},
	}
	for _, c := range cases {
		got, err := c.url.Password()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, name := range []string{filepath.Join(dir, "missing"), dir} {
		_, err := backendurl.URL{User: "u", PasswordFile: name}.Password()
		require.ErrorIs(t, err, recipes.ErrInvalid)
		require.ErrorContains(t, err, "password file")
	}
}

func TestTLSConfigRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, []byte("nothing\n"), 0o600))
	missing := filepath.Join(dir, "missing")
	cases := []struct {
		url  backendurl.URL
		says string
	}{
		{backendurl.URL{TLS: true, CACert: missing}, "cacert that can't be read"},
		{backendurl.URL{TLS: true, CACert: dir}, "cacert that can't be read"},
		{backendurl.URL{TLS: true, CACert: empty}, "without a certificate"},
		{backendurl.URL{TLS: true, Cert: missing, Key: missing}, "cert and key that can't be used"},
		{backendurl.URL{TLS: true, Cert: empty, Key: empty}, "cert and key that can't be used"},
	}
	for _, c := range cases {
		_, err := c.url.TLSConfig()
		require.ErrorIs(t, err, recipes.ErrInvalid)
		require.ErrorContains(t, err, c.says)
	}
	config, err := backendurl.URL{}.TLSConfig()
	require.NoError(t, err)
	require.Nil(t, config, "no TLS")
}
