package console

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func TestGuardHosts(t *testing.T) {
	t.Parallel()
	g, err := newGuard([]string{"Ops.Example.com", "locks.internal:8443", "[2001:db8::7]:80"})
	require.NoError(t, err)
	at := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8420}
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:8420": true, "localhost.": true,
		"127.0.0.1:8420": true, "127.8.8.8": true, "[::1]:8420": true, "[::ffff:127.0.0.1]": true,
		"10.1.2.3:8420": true, "10.1.2.3": true, "10.1.2.4": false,
		"ops.example.com": true, "ops.example.com:9": true, "ops.example.com.": true,
		"locks.internal": false, "locks.internal:8443": true, "locks.internal:80": false,
		"[2001:db8::7]:80": true, "[2001:db8::7]:81": false,
		"evil.example": false, "localhost.evil.example": false, "evil.localhost": false,
		"": false, "127.0.0.1.evil.example": false, "0": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at)))
		require.Equal(t, want, g.answers(r), host)
	}
}

func TestGuardOrigins(t *testing.T) {
	t.Parallel()
	g, err := newGuard([]string{"ops.example.com"})
	require.NoError(t, err)
	for origin, want := range map[string]bool{
		"":                           true, // no browser
		"http://localhost:8420":      true,
		"https://localhost:8420":     true, // behind a proxy that ends TLS
		"http://localhost:3000":      false,
		"http://127.0.0.1:8420":      false,
		"https://ops.example.com":    true,
		"https://evil.example":       false,
		"null":                       false,
		"://":                        false,
		"http://localhost:8420@evil": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/socket", nil)
		r.Host = "localhost:8420"
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		require.Equal(t, want, g.streams(r), origin)
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	c := client(t, newScript("etcd"))
	one := []Backend{{Name: "etcd", Client: c}}
	for name, test := range map[string]struct {
		backends []Backend
		opts     *Options
		field    string
	}{
		"no backend":       {nil, nil, "backends"},
		"no name":          {[]Backend{{Client: c}}, nil, "backends[0].Name"},
		"slash in name":    {[]Backend{{Name: "a/b", Client: c}}, nil, "backends[0].Name"},
		"hidden in name":   {[]Backend{{Name: "a\u202eb", Client: c}}, nil, "backends[0].Name"},
		"not UTF-8":        {[]Backend{{Name: "a\xff", Client: c}}, nil, "backends[0].Name"},
		"long name":        {[]Backend{{Name: string(make([]byte, 65)), Client: c}}, nil, "backends[0].Name"},
		"same name":        {append(one, one...), nil, "backends[1].Name"},
		"no client":        {[]Backend{{Name: "etcd"}}, nil, "backends[0].Client"},
		"relative path":    {one, &Options{BasePath: "locks"}, "Options.BasePath"},
		"slash at the end": {one, &Options{BasePath: "/locks/"}, "Options.BasePath"},
		"dots":             {one, &Options{BasePath: "/a/../b"}, "Options.BasePath"},
		"parameter":        {one, &Options{BasePath: "/:x"}, "Options.BasePath"},
		"host with scheme": {one, &Options{AllowedHosts: []string{"http://x"}}, "Options.AllowedHosts"},
		"wildcard":         {one, &Options{AllowedHosts: []string{"*.example.com"}}, "Options.AllowedHosts"},
		"empty host":       {one, &Options{AllowedHosts: []string{""}}, "Options.AllowedHosts"},
		"viewers":          {one, &Options{MaxViewers: -1}, "Options.MaxViewers"},
	} {
		_, err := New(test.backends, test.opts)
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, test.field, invalid.Field, name)
	}
}
