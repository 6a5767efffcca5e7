package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/election"
	"github.com/lockctl/lockctl/job"
	"github.com/lockctl/lockctl/recipes"
)

// fleet is the same part played on several hosts.
func fleet(program, user string, hosts []string, act func(host int) func(demo) error) []demoActor {
	var actors []demoActor
	for i, host := range hosts {
		owner := recipes.Owner{Program: program, Host: host, PID: 1200 + 37*i, User: user}
		actors = append(actors, demoActor{owner, act(i)})
	}
	return actors
}

// searchActors read an index together, which one of them rebuilds alone.
func searchActors() []demoActor {
	return fleet("search", "app", []string{"search-1", "search-2", "search-3", "build-1"}, func(host int) func(demo) error {
		return func(d demo) error {
			m, err := d.client.RWMutex("search/index", nil)
			if err != nil {
				return err
			}
			if host == 3 {
				d.idle(25 * time.Second)
				return d.use(m, 6*time.Second, time.Second)
			}
			return d.use(m.RLocker(), 9*time.Second, 2*time.Second)
		}
	})
}

// payActors share the calls that a payment service allows at a time, and capture each
// order once.
func payActors() []demoActor {
	return fleet("payments", "app", []string{"app-1", "app-2", "app-3"}, func(host int) func(demo) error {
		return func(d demo) error {
			calls, err := d.client.Semaphore("api/payments", 5, nil)
			if err != nil {
				return err
			}
			if err := d.use(calls.Locker(1+(d.turn+host)%3), 5*time.Second, time.Second); err != nil {
				return err
			}
			orders, err := recipes.NewOnce[string](d.client, "payments/capture", &recipes.OnceOptions{Keep: 12})
			if err != nil {
				return err
			}
			total, err := recipes.NewCounter(d.client, "orders/total")
			if err != nil {
				return err
			}
			// All of them see the order at about the same time.
			order := fmt.Sprintf("order/%d", 4200+time.Now().Unix()/9)
			_, err = orders.Do(d.ctx, order, func(ctx context.Context, _ *recipes.Hold) (string, error) {
				idle(ctx, d.about(4*time.Second))
				_, err := total.Add(ctx, 1)
				return "captured", err
			})
			return err
		}
	})
}

// schedulerActors elect one of them, and then another.
func schedulerActors() []demoActor {
	return fleet("scheduler", "app", []string{"ctl-1", "ctl-2", "ctl-3"}, func(host int) func(demo) error {
		return func(d demo) error {
			e, err := election.New(d.client, "scheduler", &election.Options{Priority: 10 * ((host + 1) % 2)})
			if err != nil {
				return err
			}
			lead, err := e.Campaign(d.ctx, fmt.Sprintf("10.0.3.%d:7070", 11+host))
			if err != nil {
				return err
			}
			d.work(lead.Context(), 40*time.Second)
			if d.ctx.Err() != nil {
				return nil
			}
			err = lead.Resign(d.ctx)
			d.idle(3 * time.Second)
			return err
		}
	})
}

// webActors are a group, and one of them changes how the others are set up.
func webActors() []demoActor {
	return fleet("web", "www", []string{"web-1", "web-2", "web-3", "web-4"}, func(host int) func(demo) error {
		type meta struct {
			Addr    string `json:"addr"`
			Version string `json:"version"`
			Load    int    `json:"load"`
		}
		return func(d demo) error {
			group, err := d.client.Group("web")
			if err != nil {
				return err
			}
			limits, err := recipes.NewRegister[map[string]any](d.client, "web/limits")
			if err != nil {
				return err
			}
			m := meta{fmt.Sprintf("10.0.1.%d:8080", 21+host), "1.14.2", 20}
			member, err := group.Join(d.ctx, m)
			if err != nil {
				return err
			}
			for range 8 {
				d.work(member.Context(), 5*time.Second)
				m.Load = 5 + d.random.IntN(90)
				if err := member.Update(d.ctx, m); err != nil {
					return err
				}
				if host > 0 || d.random.IntN(3) > 0 {
					continue
				}
				_, err = limits.Update(d.ctx, func(map[string]any) (map[string]any, error) {
					return map[string]any{"requests_per_second": 100 + 50*d.random.IntN(9), "burst": 40, "banned": []string{"203.0.113.9"}}, nil
				})
				if err != nil {
					return err
				}
			}
			err = member.Leave(d.ctx)
			d.idle(4 * time.Second)
			return err
		}
	})
}

// mailActors put mail into a queue and send it; some can't be sent.
func mailActors() []demoActor {
	senders := fleet("mailer", "mail", []string{"mail-1", "mail-2", "mail-3"}, func(int) func(demo) error {
		return func(d demo) error {
			queue, err := recipes.NewQueue[string](d.client, "mail/outgoing", &recipes.QueueOptions{MaxAttempts: 2})
			if err != nil {
				return err
			}
			item, err := queue.Take(d.ctx)
			if err != nil {
				return err
			}
			d.work(item.Context(), 4*time.Second)
			switch {
			case d.ctx.Err() != nil:
				return nil
			case d.random.IntN(6) == 0:
				return item.Return(d.ctx, 20*time.Second)
			}
			return item.Ack(d.ctx)
		}
	})
	shop := demoActor{recipes.Owner{Program: "shop", Host: "app-1", PID: 3120, User: "app"}, func(d demo) error {
		queue, err := recipes.NewQueue[string](d.client, "mail/outgoing", nil)
		if err != nil {
			return err
		}
		d.idle(1500 * time.Millisecond)
		dead, err := queue.DeadLetters(d.ctx)
		if err != nil {
			return err
		}
		if len(dead) > 2 { // somebody has looked into it
			return queue.Remove(d.ctx, dead[0].ID)
		}
		if n, err := queue.Len(d.ctx); err != nil || n > 15 {
			return err
		}
		opts := &recipes.PutOptions{ID: fmt.Sprintf("order-%d", 4200+time.Now().UnixMilli()/700%5000)}
		switch d.random.IntN(5) {
		case 0:
			opts.Priority = 10
		case 1:
			opts.Delay = d.about(30 * time.Second)
		}
		_, err = queue.Put(d.ctx, "your order is on its way", opts)
		return err
	}}
	return append(senders, shop)
}

// releaseActors count the hosts that are ready for a release, and close the shop for a
// while.
func releaseActors() []demoActor {
	ready := fleet("deploy-agent", "root", []string{"web-1", "web-2", "web-3"}, func(int) func(demo) error {
		return func(d demo) error {
			latch, err := d.client.Latch("release/1.14.3/ready", 6)
			if err != nil {
				return err
			}
			d.idle(12 * time.Second)
			left, err := latch.CountDown(d.ctx)
			if err != nil || left > 0 {
				return err
			}
			d.idle(10 * time.Second)
			return latch.Remove(d.ctx)
		}
	})
	freeze := demoActor{recipes.Owner{Program: "change-freeze", Host: "laptop-mira", PID: 6011, User: "mira", Label: "month end"}, func(d demo) error {
		barrier, err := d.client.Barrier("deploy/freeze")
		if err != nil {
			return err
		}
		if err := barrier.Set(d.ctx); err != nil {
			return err
		}
		d.idle(40 * time.Second)
		if err := barrier.Lift(d.ctx); err != nil {
			return err
		}
		d.idle(10 * time.Second)
		return nil
	}}
	return append(ready, freeze)
}

// batchActors go through the phases of a batch together.
func batchActors() []demoActor {
	return fleet("etl", "batch", []string{"worker-1", "worker-2", "worker-3", "worker-4"}, func(int) func(demo) error {
		return func(d demo) error {
			barrier, err := d.client.DoubleBarrier("etl/phase", 3)
			if err != nil {
				return err
			}
			crossing, err := barrier.Enter(d.ctx)
			if err != nil {
				return err
			}
			d.work(crossing.Context(), 8*time.Second)
			if d.ctx.Err() != nil {
				return nil
			}
			err = crossing.Leave(d.ctx)
			d.idle(3 * time.Second)
			return err
		}
	})
}

// ingestActors divide the shards of a stream, and one after the other leaves for a while.
func ingestActors() []demoActor {
	return fleet("ingest", "app", []string{"stream-1", "stream-2", "stream-3"}, func(host int) func(demo) error {
		return func(d demo) error {
			p, err := d.client.Partition("stream/clicks", 16, &recipes.PartitionOptions{
				Member: fmt.Sprintf("stream-%d", host+1), Weight: 1 + host/2,
			})
			if err != nil {
				return err
			}
			ctx, leave := context.WithTimeout(d.ctx, d.about(time.Minute))
			defer leave()
			err = p.Run(ctx, func(ctx context.Context, _ *recipes.Shard) error {
				<-ctx.Done()
				return nil
			})
			d.idle(8 * time.Second)
			if ctx.Err() != nil {
				return nil // it has left
			}
			return err
		}
	})
}

// reportActors run a job every half minute, once among them.
func reportActors() []demoActor {
	return fleet("reporter", "app", []string{"app-2", "app-3"}, func(int) func(demo) error {
		return func(d demo) error {
			j, err := job.New(d.client, "reports/hourly", &job.Options{Every: 30 * time.Second, Rotate: true})
			if err != nil {
				return err
			}
			err = j.Run(d.ctx, func(ctx context.Context, _ *job.Run) error {
				idle(ctx, d.about(9*time.Second))
				return ctx.Err()
			})
			if d.ctx.Err() != nil {
				return nil
			}
			return err
		}
	})
}
