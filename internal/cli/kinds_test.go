package cli

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lockctl/lockctl/recipes"
)

// furnish makes an object of each kind that lockctl itself makes none of, and keeps
// those who take part alive until the script ends.
func scriptFurnish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: furnish")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	url := ts.Getenv("LOCKCTL_BACKEND")
	e, err := engineOf(url)
	ts.Check(err)
	client, err := backend{url: url, engine: e}.openClient(ctx, dialOptions{owner: recipes.Owner{Program: "app", Host: "web-1", PID: 7, User: "ann", Label: "here"}})
	ts.Check(err)
	staying, leave := context.WithCancel(context.Background())
	ts.Defer(func() {
		leave()
		client.Close()
	})
	for _, furnish := range []func(context.Context, context.Context, *recipes.Client) error{
		furnishLocks, furnishGroup, furnishQueue, furnishValues, furnishRounds, furnishOnce,
	} {
		ts.Check(furnish(ctx, staying, client))
	}
}

func furnishLocks(ctx, _ context.Context, c *recipes.Client) error {
	s, err := c.Semaphore("f/pool", 5, nil)
	if err != nil {
		return err
	}
	_, err = s.Acquire(ctx, 2)
	return err
}

func furnishGroup(ctx, _ context.Context, c *recipes.Client) error {
	g, err := c.Group("f/web")
	if err != nil {
		return err
	}
	_, err = g.Join(ctx, map[string]string{"addr": "10.0.0.1"})
	return err
}

// furnishQueue leaves an item in each state, and a worker that waits.
func furnishQueue(ctx, staying context.Context, c *recipes.Client) error {
	q, err := recipes.NewQueue[string](c, "f/mail", &recipes.QueueOptions{MaxAttempts: 1})
	if err != nil {
		return err
	}
	put := func(id string, opts recipes.PutOptions) error {
		opts.ID = id
		_, err := q.Put(ctx, "value of "+id, &opts)
		return err
	}
	for _, id := range []string{"dead-1", "taken-1"} {
		if err := put(id, recipes.PutOptions{}); err != nil {
			return err
		}
		item, err := q.Take(ctx)
		if err != nil {
			return err
		}
		if id == "dead-1" {
			if err := item.Return(ctx, 0); err != nil {
				return err
			}
		}
	}
	if err := put("delayed-1", recipes.PutOptions{Delay: time.Hour, Priority: 3}); err != nil {
		return err
	}
	go func() { _, _ = q.Take(staying) }() // it waits until the script ends
	return nil
}

func furnishValues(ctx, _ context.Context, c *recipes.Client) error {
	counter, err := recipes.NewCounter(c, "f/builds")
	if err != nil {
		return err
	}
	if _, err := counter.Add(ctx, 42); err != nil {
		return err
	}
	latch, err := c.Latch("f/ready", 3)
	if err != nil {
		return err
	}
	if _, err := latch.CountDown(ctx); err != nil {
		return err
	}
	barrier, err := c.Barrier("f/frozen")
	if err != nil {
		return err
	}
	return barrier.Set(ctx)
}

// furnishRounds has two go inside together, and one come late.
func furnishRounds(_, staying context.Context, c *recipes.Client) error {
	b, err := c.DoubleBarrier("f/phase", 2)
	if err != nil {
		return err
	}
	for range 3 {
		go func() { _, _ = b.Enter(staying) }() // the third waits until the script ends
	}
	return nil
}

func furnishOnce(ctx, staying context.Context, c *recipes.Client) error {
	o, err := recipes.NewOnce[string](c, "f/pay", nil)
	if err != nil {
		return err
	}
	if _, err := o.Do(ctx, "order/1", func(context.Context, *recipes.Hold) (string, error) { return "paid", nil }); err != nil {
		return err
	}
	go func() {
		_, _ = o.Do(staying, "order/2", func(ctx context.Context, _ *recipes.Hold) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
	}()
	return nil
}
