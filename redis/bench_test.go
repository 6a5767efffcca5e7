package redis_test

import (
	"testing"

	"github.com/lockctl/lockctl/internal/redisserver"
	"github.com/lockctl/lockctl/redis"
)

// BenchmarkLockUnlock measures a lock that nobody else wants, and its release.
func BenchmarkLockUnlock(b *testing.B) {
	b.Run("redis", func(b *testing.B) {
		c := dial(b, "redis://"+redisserver.Start(b).Addr(), nil)
		m, err := c.Mutex("bench", nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			h, err := m.Lock(b.Context())
			if err == nil {
				err = h.Unlock(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("redlock-5", func(b *testing.B) {
		five := &several{}
		for range 5 {
			five.servers = append(five.servers, redisserver.Start(b))
		}
		c, err := redis.DialRedlock(b.Context(), five.url(nil), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() }) // what is not confirmed expires with the servers
		m, err := c.Mutex("bench", nil)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			h, err := m.Lock(b.Context())
			if err == nil {
				err = h.Unlock(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
