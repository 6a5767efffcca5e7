package etcd_test

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
)

// TestInvalidOptions has everything that is refused before anything is sent. The
// address is one where nothing listens.
func TestInvalidOptions(t *testing.T) {
	t.Setenv("LOCKCTL_PASSWORD", "")
	const url = "etcd://127.0.0.1:1"
	missing := filepath.Join(t.TempDir(), "missing")
	cases := []struct {
		url   string
		opts  etcd.Options
		field string
		says  string
	}{
		{url: "", field: "backend URL", says: "must begin with etcd://"},
		{url: "zk://127.0.0.1:1", field: "backend URL", says: "must begin with etcd://"},
		{url: "etcd://user@127.0.0.1:1", field: "backend URL", says: "user= and password-file="},
		{url: url + "/a//b", field: "backend URL", says: "root"},
		{url: url + "?ttl=15", field: "backend URL", says: "ttl"},
		{url: url + "?ttl=25h", field: "Options.TTL", says: "24 h"},
		{url: url + "?nonsense=1", field: "backend URL", says: "nonsense"},
		{url: url + "?cert=c", field: "backend URL", says: "cert and key together"},
		{url: url + "?cacert=" + missing, field: "backend URL", says: missing},
		{url: url + "?cert=" + missing + "&key=" + missing, field: "backend URL", says: missing},
		{url: url + "?user=u&password-file=" + missing, field: "backend URL", says: missing},
		{url: url + "?password-file=" + missing, field: "backend URL", says: "no user"},
		{url: url + "?user=u", field: "backend URL", says: "password"},
		{url: url, opts: etcd.Options{User: "u"}, field: "backend URL", says: "password"},
		{url: url, opts: etcd.Options{Password: "p"}, field: "Options.User", says: "password"},
		{url: url, opts: etcd.Options{Root: "locks"}, field: "Options.Root", says: "begin"},
		{url: url, opts: etcd.Options{Root: "/"}, field: "Options.Root", says: "begin"},
		{url: url, opts: etcd.Options{Root: "/a/"}, field: "Options.Root", says: "element"},
		{url: url, opts: etcd.Options{Root: "/a b"}, field: "Options.Root", says: "printable"},
		{url: url, opts: etcd.Options{TTL: -1}, field: "Options.TTL", says: "between"},
		{url: url, opts: etcd.Options{TTL: 25 * time.Hour}, field: "Options.TTL", says: "between"},
		{url: url, opts: etcd.Options{Client: recipes.ClientOptions{ConnectTimeout: -1}}, field: "ClientOptions.ConnectTimeout", says: "negative"},
		{url: url, opts: etcd.Options{Client: recipes.ClientOptions{CloseTimeout: -1}}, field: "ClientOptions.CloseTimeout", says: "negative"},
		{url: url, opts: etcd.Options{Client: recipes.ClientOptions{Owner: recipes.Owner{Label: "a\nb"}}}, field: "ClientOptions.Owner.Label", says: "control"},
	}
	for _, c := range cases {
		start := time.Now()
		client, err := etcd.Dial(context.Background(), c.url, &c.opts)
		require.Nil(t, client)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%+v", c)
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, c.field, invalid.Field, "%+v", c)
		require.ErrorContains(t, err, c.says)
		require.Less(t, time.Since(start), time.Second, "nothing was asked: %+v", c)
	}
}

func TestOpenInvalid(t *testing.T) {
	t.Parallel()
	_, err := etcd.Open(context.Background(), nil, nil)
	var invalid *recipes.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "client", invalid.Field)
}

// TestOptionsGoFirst has URLs that are overruled by options.
func TestOptionsGoFirst(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	url := "etcd://" + server.Addr() + "/from-url?ttl=30s"
	c := dial(t, url, &etcd.Options{Root: "/from-options", TTL: 3500 * time.Millisecond})
	hold := lock(t, mutex(t, c, "job"))
	require.NotEmpty(t, keys(t, server, "/from-options/lock/job/"))
	require.Empty(t, keys(t, server, "/from-url/"))
	require.LessOrEqual(t, time.Until(hold.Deadline()), 4*time.Second, "the TTL is rounded up to a second")
	require.Greater(t, time.Until(hold.Deadline()), 2*time.Second)
	unlock(t, hold)

	byURL := dial(t, url, nil)
	hold = lock(t, mutex(t, byURL, "job"))
	require.NotEmpty(t, keys(t, server, "/from-url/lock/job/"))
	require.Greater(t, time.Until(hold.Deadline()), 20*time.Second)
	unlock(t, hold)

	_, err := etcd.Dial(context.Background(), url, &etcd.Options{
		TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Client: recipes.ClientOptions{ConnectTimeout: time.Second},
	})
	require.ErrorIs(t, err, recipes.ErrUnavailable, "TLS towards a server without")
	require.True(t, errors.Is(err, context.DeadlineExceeded))
	require.ErrorContains(t, err, "handshake failed")
}
