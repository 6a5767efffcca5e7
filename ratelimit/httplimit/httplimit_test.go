package httplimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/ratelimit/httplimit"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func limiter(t testing.TB, c ratelimit.Config) *ratelimit.Limiter {
	client, err := memory.Open(memory.NewServer(), nil)
	require.NoError(t, err)
	l, err := ratelimit.New(client, "my api", &ratelimit.Options{Config: c})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close(context.Background()))
		require.NoError(t, client.Close())
	})
	return l
}

var hourly = ratelimit.Config{Rate: ratelimit.Rate{Tokens: 60, Per: time.Hour}, Burst: 2}

func serve(t testing.TB, h http.Handler, from, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	served := 0
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
	h, err := httplimit.New(next, limiter(t, hourly), nil)
	require.NoError(t, err)
	for i := range 2 {
		w := serve(t, h, "10.0.0.1:1000", "/")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, `"my-api";q=60;w=3600`, w.Header().Get("RateLimit-Policy"))
		require.Regexp(t, fmt.Sprintf(`^"my-api";r=%d;t=(60|120)$`, 1-i), w.Header().Get("RateLimit"))
		require.Empty(t, w.Header().Get("Retry-After"))
	}
	w := serve(t, h, "10.0.0.1:2000", "/")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, 2, served)
	require.Regexp(t, `^(59|60)$`, w.Header().Get("Retry-After"))
	require.Regexp(t, `^"my-api";r=0;t=(119|120)$`, w.Header().Get("RateLimit"))
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var problem map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
	require.EqualValues(t, 429, problem["status"])
	require.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", problem["type"])
	require.Equal(t, []any{"my-api"}, problem["violated-policies"])
	require.Equal(t, http.StatusOK, serve(t, h, "10.0.0.2:1", "/").Code, "another address has its own")
}

func TestOptions(t *testing.T) {
	var failed error
	o := &httplimit.Options{
		Key:    httplimit.Together,
		Policy: "all",
		Tokens: func(r *http.Request) int64 {
			switch r.URL.Path {
			case "/free":
				return 0
			case "/much":
				return 9
			}
			return 2
		},
		OnError: func(_ *http.Request, err error) { failed = err },
	}
	l := limiter(t, hourly)
	h, err := httplimit.New(http.NotFoundHandler(), l, o)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, serve(t, h, "a:1", "/").Code)
	w := serve(t, h, "b:1", "/")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.True(t, strings.HasPrefix(w.Header().Get("RateLimit"), `"all";r=0`))
	require.Equal(t, http.StatusNotFound, serve(t, h, "b:1", "/free").Code)
	w = serve(t, h, "b:1", "/much")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Empty(t, w.Header().Get("Retry-After"), "no waiting helps")
	require.NoError(t, l.Close(t.Context()))
	require.Equal(t, http.StatusServiceUnavailable, serve(t, h, "b:1", "/").Code)
	require.ErrorIs(t, failed, recipes.ErrClosed)
	_, err = httplimit.New(http.NotFoundHandler(), l, &httplimit.Options{Policy: `a"b`})
	require.ErrorIs(t, err, recipes.ErrInvalid)
	_, err = httplimit.New(http.NotFoundHandler(), nil, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
}

// TestDeadline has a request whose context ends while its limit is asked for.
func TestDeadline(t *testing.T) {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
	link := &memory.Link{}
	client, err := memory.Open(memory.NewServer(), &memory.Options{Link: link})
	require.NoError(t, err)
	defer client.Close()
	l, err := ratelimit.New(client, "api", &ratelimit.Options{Config: hourly, Timeout: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(context.Background())) }()
	h, err := httplimit.New(next, l, nil)
	require.NoError(t, err)
	link.StallBoth()
	defer link.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "can't be checked")
}

func TestByAddress(t *testing.T) {
	for from, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "[2001:db8:1:2:3::9]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
		"@": "@", "host:1": "host", "[::ffff:10.0.0.1]:5": "::ffff:10.0.0.1",
	} {
		require.Equal(t, want, httplimit.ByAddress(&http.Request{RemoteAddr: from}), from)
	}
}
