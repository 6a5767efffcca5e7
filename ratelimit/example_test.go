package ratelimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// The examples run in memory. With etcd.Dial or zk.Dial in place of memory.Open they
// are the same.
func client() *recipes.Client {
	c, err := memory.Open(memory.NewServer(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// All processes that make this limiter share 5 calls at once, and 1 in an hour after that.
func ExampleLimiter_Allow() {
	ctx := context.Background()
	c := client()
	defer c.Close()
	limiter, err := ratelimit.New(c, "api", &ratelimit.Options{
		Config: ratelimit.Config{Rate: ratelimit.Rate{Tokens: 1, Per: time.Hour}, Burst: 5},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(ctx)
	for range 6 {
		d, err := limiter.Allow(ctx, "")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.OK, d.Remaining)
	}
	// Output:
	// true 4
	// true 3
	// true 2
	// true 1
	// true 0
	// false 0
}

// Each tenant has a budget of its own, and Wait waits for it.
func ExampleLimiter_Wait() {
	ctx := context.Background()
	c := client()
	defer c.Close()
	limiter, err := ratelimit.New(c, "imports", &ratelimit.Options{
		Config: ratelimit.Config{Rate: ratelimit.PerSecond(50), Burst: 10},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(ctx)
	begun := time.Now()
	for range 20 {
		if _, err := limiter.Wait(ctx, "ann"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(time.Since(begun) >= 200*time.Millisecond)
	// Output: true
}

// The limit is changed while it is used, from any process, or by "lockctl limit set".
func ExampleSet() {
	ctx := context.Background()
	c := client()
	defer c.Close()
	_, err := ratelimit.Set(ctx, c, "sms", ratelimit.Config{
		Rate: ratelimit.Rate{Tokens: 17, Per: 30 * time.Second}, Policy: ratelimit.Window, // no burst beside it
	})
	if err != nil {
		log.Fatal(err)
	}
	s, err := ratelimit.Look(ctx, c, "sms")
	fmt.Println(s.Config.Rate, s.Config.Policy, s.Level, err)
	// Output: 17/30s window 17 <nil>
}

// A reservation is given back, all of it, if it turns out not to be needed.
func ExampleLimiter_ReserveN() {
	ctx := context.Background()
	c := client()
	defer c.Close()
	limiter, err := ratelimit.New(c, "exports", &ratelimit.Options{
		Config: ratelimit.Config{Rate: ratelimit.Rate{Tokens: 1, Per: time.Hour}, Burst: 10},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(ctx)
	r, err := limiter.ReserveN(ctx, "", 10)
	if err != nil {
		log.Fatal(err)
	}
	<-r.Ready()
	r.Cancel()
	d, err := limiter.AllowN(ctx, "", 10)
	fmt.Println(d.OK, err)
	// Output: true <nil>
}
