package job_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockctl/lockctl/job"
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

// A job that ticks every second, in one process of however many call Run.
func ExampleJob_Run() {
	c := client()
	defer c.Close()
	j, err := job.New(c, "cleanup", &job.Options{Every: time.Second, Delivery: job.AtLeastOnce})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // in a service, one that ends with it
	err = j.Run(ctx, func(ctx context.Context, run *job.Run) error {
		// Stop when ctx ends. Recognise what was done by run.Tick, and hand run.Token
		// to what is changed.
		fmt.Println("whole seconds:", run.Tick.Nanosecond() == 0, "attempt:", run.Attempt)
		cancel()
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	s, err := j.State(context.Background())
	fmt.Println(s.Schedule, s.Last.Outcome, s.Next.Sub(s.Completed), err)
	// Output:
	// whole seconds: true attempt: 1
	// true
	// @every 1s completed 1s <nil>
}

func ExampleOptions() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		log.Fatal(err)
	}
	nightly := job.Options{
		Cron: "30 2 * * *", Location: berlin, // also in the nights when clocks are changed
		Delivery: job.AtLeastOnce, MaxAttempts: 5,
		Missed: job.RunOnce, // if all was down at night, run it in the morning
	}
	fmt.Println(nightly.Validate())
	fmt.Println(job.Options{Cron: "30 2 * *"}.Validate())
	// Output:
	// <nil>
	// invalid input: Options.Cron "30 2 * *": expected 5 to 6 fields, found 4: [30 2 * *]
}
