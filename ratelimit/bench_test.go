package ratelimit

import (
	"context"
	"testing"

	"github.com/lockctl/lockctl/recipes/memory"
)

// BenchmarkAllow is what most decisions cost: the tokens are here.
func BenchmarkAllow(b *testing.B) {
	for _, key := range []string{"", "tenant"} {
		b.Run("key="+key, func(b *testing.B) {
			c, err := memory.Open(memory.NewServer(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			l, err := New(c, "api", &Options{Config: Config{Rate: PerSecond(1_000_000_000), Burst: 1_000_000_000}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := l.Close(context.Background()); err != nil {
					b.Error(err)
				}
			}()
			ctx := context.Background()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := l.Allow(ctx, key); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
