package echolimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/ratelimit/echolimit"
	"github.com/lockctl/lockctl/ratelimit/httplimit"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMiddleware(t *testing.T) {
	client, err := memory.Open(memory.NewServer(), nil)
	require.NoError(t, err)
	defer client.Close()
	l, err := ratelimit.New(client, "api", &ratelimit.Options{
		Config: ratelimit.Config{Rate: ratelimit.Rate{Tokens: 1, Per: time.Hour}, Burst: 2},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(context.Background())) }()
	middleware, err := echolimit.New(l, &httplimit.Options{Key: httplimit.Together})
	require.NoError(t, err)
	e := echo.New()
	e.Use(middleware)
	e.GET("/", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })
	for _, want := range []int{200, 200, 429} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, want, w.Code)
		require.NotEmpty(t, w.Header().Get("RateLimit"))
	}
	_, err = echolimit.New(nil, nil)
	require.ErrorIs(t, err, recipes.ErrInvalid)
}
