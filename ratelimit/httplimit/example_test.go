package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/ratelimit/httplimit"
	"github.com/lockctl/lockctl/recipes/memory"
)

// Each tenant may send 5 requests at once, and 10 in a second.
func ExampleNew() {
	client, err := memory.Open(memory.NewServer(), nil) // or etcd.Dial, zk.Dial
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	limiter, err := ratelimit.New(client, "api", &ratelimit.Options{
		Config: ratelimit.Config{Rate: ratelimit.PerSecond(10), Burst: 5},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())

	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler, err := httplimit.New(hello, limiter, &httplimit.Options{
		Key: func(r *http.Request) string { return r.Header.Get("X-Tenant") }, // that was authenticated
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 6 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Tenant", "ann")
		handler.ServeHTTP(w, r)
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 200 ""
	// 200 ""
	// 200 ""
	// 200 ""
	// 429 "1"
}
