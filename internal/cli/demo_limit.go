package cli

import (
	"context"
	"errors"
	"time"

	"github.com/lockctl/lockctl/ratelimit"
)

// gatewayActors share the requests that an API allows; now and then all of them want more.
func gatewayActors() []demoActor {
	return fleet("gateway", "www", []string{"edge-1", "edge-2", "edge-3"}, func(host int) func(demo) error {
		return func(d demo) (err error) {
			limiter, err := ratelimit.New(d.client, "api/search", &ratelimit.Options{
				Config: ratelimit.Config{Rate: ratelimit.PerSecond(120), Burst: 240},
			})
			if err != nil {
				return err
			}
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				err = errors.Join(err, limiter.Close(ctx))
			}()
			for range 60 {
				wanted := 5 + d.random.IntN(15)
				if time.Now().Unix()/15%3 == int64(host) { // each is busy in turn
					wanted += 40
				}
				for range wanted {
					if _, err := limiter.Allow(d.ctx, ""); err != nil {
						return err
					}
				}
				idle(d.ctx, 500*time.Millisecond)
				if d.ctx.Err() != nil {
					return nil
				}
			}
			return nil
		}
	})
}
