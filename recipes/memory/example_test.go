package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

func Example() {
	ctx := context.Background()
	client, err := memory.Open(memory.NewServer(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	mutex, err := client.Mutex("jobs/daily", nil)
	if err != nil {
		log.Fatal(err)
	}
	err = mutex.Do(ctx, func(ctx context.Context, hold *recipes.Hold) error {
		fmt.Println("holding", hold.Name())
		return ctx.Err() // the context ends if the lock is lost
	})
	fmt.Println(err)
	// Output:
	// holding jobs/daily
	// <nil>
}
