package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

func ExampleSemaphore() {
	c := client()
	defer c.Close()
	uploads, err := c.Semaphore("uploads", 3, nil) // three at a time, among all processes
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	hold, err := uploads.Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	_, err = uploads.TryAcquire(ctx, 2)
	fmt.Println(errors.Is(err, recipes.ErrHeld))
	fmt.Println(uploads.SetLimit(ctx, 4))
	second, err := uploads.TryAcquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Unlock(ctx)
	fmt.Println("both")
	// Output:
	// true
	// <nil>
	// both
}

func ExampleMulti() {
	ctx := context.Background()
	stock, money := client(), client() // two services, perhaps
	defer stock.Close()
	defer money.Close()
	item, err := stock.Mutex("item/7", nil)
	if err != nil {
		log.Fatal(err)
	}
	account, err := money.Mutex("account/3", nil)
	if err != nil {
		log.Fatal(err)
	}
	both, err := recipes.NewMulti(map[string]recipes.Locker[*recipes.Hold]{
		"stock/item/7": item, "money/account/3": account,
	})
	if err != nil {
		log.Fatal(err)
	}
	hold, err := both.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	fmt.Println(len(hold.Tokens()), "tokens, lost:", hold.Context().Err() != nil)
	// Output: 2 tokens, lost: false
}

func ExampleLatch() {
	c := client()
	defer c.Close()
	ready, err := c.Latch("fleet/ready", 2)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for range 2 { // each member, when it is ready
		left, err := ready.CountDown(ctx)
		fmt.Println(left, err)
	}
	fmt.Println(ready.Wait(ctx))
	// Output:
	// 1 <nil>
	// 0 <nil>
	// <nil>
}

func ExampleBarrier() {
	c := client()
	defer c.Close()
	maintenance, err := c.Barrier("maintenance")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	fmt.Println(maintenance.Set(ctx))
	go maintenance.Lift(ctx) // when the work is done
	fmt.Println(maintenance.Wait(ctx))
	// Output:
	// <nil>
	// <nil>
}

func ExampleDoubleBarrier() {
	ctx := context.Background()
	server := memory.NewServer()
	var wg sync.WaitGroup
	for range 2 { // each of them in a process of its own
		c, err := memory.Open(server, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		wg.Go(func() {
			step, err := c.DoubleBarrier("simulation/step", 2)
			if err != nil {
				log.Fatal(err)
			}
			inside, err := step.Enter(ctx)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("both are here")
			if err := inside.Leave(ctx); err != nil {
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	// Output:
	// both are here
	// both are here
}

func ExampleGroup() {
	c := client()
	defer c.Close()
	workers, err := c.Group("workers")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	me, err := workers.Join(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	for members, err := range workers.Watch(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range members {
			fmt.Println(string(m.Meta))
		}
		if len(members) == 0 {
			fmt.Println("nobody")
			return
		}
		go me.Leave(ctx) // others see it at once
	}
	// Output:
	// "10.0.0.7:8080"
	// nobody
}

func ExampleOnce() {
	c := client()
	defer c.Close()
	payments, err := recipes.NewOnce[string](c, "payments", nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // a request that is sent again
		receipt, err := payments.Do(context.Background(), "order-17", func(ctx context.Context, hold *recipes.Hold) (string, error) {
			fmt.Println("charging")
			return "receipt 4711", ctx.Err()
		})
		fmt.Println(receipt, err)
	}
	// Output:
	// charging
	// receipt 4711 <nil>
	// receipt 4711 <nil>
}

func ExamplePartition() {
	c := client()
	defer c.Close()
	orders, err := c.Partition("orders", 16, &recipes.PartitionOptions{
		Member: "host-1",              // a name that outlasts a restart
		Settle: 10 * time.Millisecond, // more in earnest
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // in a service, one that ends with it
	err = orders.Run(ctx, func(ctx context.Context, shard *recipes.Shard) error {
		// Hand shard.Token() to what the work changes, and stop when ctx ends.
		if shard.Index() == orders.ShardOf("order-17") {
			fmt.Println("order 17 is worked on here")
			stop()
		}
		<-ctx.Done() // another's now, lost, or the end: nobody else works on it before this returns
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// order 17 is worked on here
	// true
}
