package redisserver

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const patience = 60 * time.Second

// until waits for something that must happen.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond) // between looks
	}
}

func cut(addr string) (host, port string, err error) { return net.SplitHostPort(addr) }

// info is a field of what the server tells of itself, or of its cluster; "" if it does
// not answer.
func (s *Server) info(field string) string {
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = c.Close() }() // it was not used by others
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	get := func() *redis.StringCmd { return c.Info(ctx) }
	if strings.HasPrefix(field, "cluster_") {
		get = func() *redis.StringCmd { return c.ClusterInfo(ctx) }
	}
	for line := range strings.Lines(get().Val()) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// bus is the port by which servers of a cluster talk with each other.
func (s *Server) bus(t testing.TB) string {
	t.Helper()
	c := s.Client(t)
	nodes, err := c.ClusterNodes(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(nodes, "@") // id host:port@bus,…
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	return rest[:end]
}
