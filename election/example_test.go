package election_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

// The examples run in memory. With etcd.Dial or zk.Dial in place of memory.Open
// they are the same.
func client() *recipes.Client {
	c, err := memory.Open(memory.NewServer(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func ExampleRun() {
	c := client()
	defer c.Close()
	e, err := election.New(c, "scheduler", nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background() // in a service, one that ends with it
	err = election.Run(ctx, e, func(ctx context.Context, lead *election.Lead) error {
		// Hand lead.Term() to what the leader changes, and stop when ctx ends.
		leader, err := e.Leader(ctx)
		fmt.Println("leading:", leader.Value, leader.Term == lead.Term())
		return err
	}, &election.RunOptions{Value: "10.0.0.7:8080"})
	fmt.Println(err)
	// Output:
	// leading: 10.0.0.7:8080 true
	// <nil>
}

func ExampleElection_Campaign() {
	c := client()
	defer c.Close()
	e, err := election.New(c, "scheduler", nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background() // bounds the waiting only
	lead, err := e.Campaign(ctx, "starting")
	if err != nil {
		log.Fatal(err)
	}
	lead.Go(func(ctx context.Context) {
		<-ctx.Done() // lost, or resigned: nobody else leads before this returns
		fmt.Println("work has stopped")
	})
	if err := lead.Proclaim(ctx, "ready"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lead.Resign(ctx))
	// Output:
	// work has stopped
	// <nil>
}

func ExampleElection_Observe() {
	c := client()
	defer c.Close()
	e, err := election.New(c, "scheduler", nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	lead, err := e.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	for view, err := range e.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(view.State, view.Leader.Value)
		if view.State == election.Vacant {
			break
		}
		if err := lead.Resign(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// led 10.0.0.7:8080
	// vacant
}
