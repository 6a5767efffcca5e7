package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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

func ExampleMutex_Do() {
	c := client()
	defer c.Close()
	mutex, err := c.Mutex("billing/charge", nil)
	if err != nil {
		log.Fatal(err)
	}
	err = mutex.Do(context.Background(), func(ctx context.Context, hold *recipes.Hold) error {
		// Hand hold.Token() to what the lock protects, and stop when ctx ends.
		fmt.Println("charging")
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// charging
	// <nil>
}

func ExampleMutex_Lock() {
	c := client()
	defer c.Close()
	mutex, err := c.Mutex("jobs/daily", nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background() // bounds the waiting only
	hold, err := mutex.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	select {
	case <-hold.Context().Done():
		fmt.Println("lost:", context.Cause(hold.Context()))
	default:
		fmt.Println("still held")
	}
	// Output: still held
}

func ExampleMutex_TryLock() {
	c := client()
	defer c.Close()
	mutex, err := c.Mutex("jobs/daily", &recipes.MutexOptions{Label: "nightly run"})
	if err != nil {
		log.Fatal(err)
	}
	hold, err := mutex.TryLock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(context.Background())

	_, err = mutex.TryLock(context.Background())
	var held *recipes.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Label)
	}
	// Output: held by nightly run
}

func ExampleHold_Publish() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	mutex, err := c.Mutex("import", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := mutex.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	if err := hold.Publish(ctx, map[string]int{"percent": 80}); err != nil {
		log.Fatal(err)
	}
	seen, err := c.Lock(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", seen.Holders()[0].Published)
	// Output: {"percent":80}
}

func ExampleClient_Objects() {
	c := client()
	defer c.Close()
	mutex, err := c.Mutex("jobs/daily", &recipes.MutexOptions{Label: "nightly run"})
	if err != nil {
		log.Fatal(err)
	}
	hold, err := mutex.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(context.Background())

	register, err := recipes.NewRegister[int](c, "jobs/limit")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := register.CompareAndSwap(context.Background(), 0, 20); err != nil {
		log.Fatal(err)
	}

	objects, err := c.Objects(context.Background(), recipes.Filter{Prefix: "jobs/"})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range objects {
		fmt.Println(o.Kind, o.Name)
		switch state := o.State.(type) {
		case recipes.RegisterState:
			fmt.Println(" value:", string(state.Value))
		default:
			fmt.Println(" held by", o.Holders()[0].Owner.Label, "waiting:", len(o.Waiters()))
		}
	}
	// Output:
	// mutex jobs/daily
	//  held by nightly run waiting: 0
	// register jobs/limit
	//  value: 20
}

func ExampleClient_Watch() {
	c := client()
	defer c.Close()
	mutex, err := c.Mutex("jobs/daily", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := mutex.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for change, err := range c.Watch(context.Background(), recipes.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		switch change.Kind {
		case recipes.ObjectChanged:
			fmt.Println(change.Object.Name, "entries:", len(change.Object.Entries))
			if change.Object.Gone() {
				return
			}
		case recipes.WatchSynced:
			fmt.Println("live")
			go hold.Unlock(context.Background())
		}
	}
	// Output:
	// jobs/daily entries: 1
	// live
	// jobs/daily entries: 0
}

func ExampleRWMutex() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	index, err := c.RWMutex("search/index", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := index.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rebuilt the index alone")
	if err := index.Downgrade(ctx, hold); err != nil {
		log.Fatal(err)
	}
	other, err := index.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("searching it beside others")
	fmt.Println(other.Unlock(ctx), hold.Unlock(ctx))
	// Output:
	// rebuilt the index alone
	// searching it beside others
	// <nil> <nil>
}

func ExampleRegister_Update() {
	c := client()
	defer c.Close()
	type stock struct{ Apples int }
	register, err := recipes.NewRegister[stock](c, "stock")
	if err != nil {
		log.Fatal(err)
	}
	sell := func(s stock) (stock, error) {
		if s.Apples == 0 {
			return s, errors.New("sold out")
		}
		s.Apples--
		return s, nil
	}
	ctx := context.Background()
	_, err = register.Update(ctx, sell)
	fmt.Println(err)
	if _, err = register.CompareAndSwap(ctx, 0, stock{Apples: 2}); err != nil {
		log.Fatal(err)
	}
	left, err := register.Update(ctx, sell)
	fmt.Println(left.Value.Apples, err)
	// Output:
	// sold out
	// 1 <nil>
}

func ExampleCounter() {
	c := client()
	defer c.Close()
	counter, err := recipes.NewCounter(c, "visits")
	if err != nil {
		log.Fatal(err)
	}
	n, err := counter.Add(context.Background(), 3)
	fmt.Println(n, err)
	// Output: 3 <nil>
}

func ExampleQueue() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	queue, err := recipes.NewQueue[string](c, "mail", nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, to := range []string{"ann", "bob"} {
		if _, err := queue.Put(ctx, to, nil); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := queue.Put(ctx, "eve", &recipes.PutOptions{Priority: 1}); err != nil {
		log.Fatal(err)
	}
	for failed := false; ; {
		n, err := queue.Len(ctx)
		if err != nil || n == 0 {
			fmt.Println("done", err)
			return
		}
		item, err := queue.Take(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if item.Value == "bob" && !failed {
			failed = true
			fmt.Println("not sent to", item.Value, item.Return(ctx, 0))
			continue
		}
		// Send it in item.Context(), and stop when that ends.
		fmt.Println("sent to", item.Value, "in attempt", item.Attempt(), item.Ack(ctx))
	}
	// Output:
	// sent to eve in attempt 1 <nil>
	// sent to ann in attempt 1 <nil>
	// not sent to bob <nil>
	// sent to bob in attempt 2 <nil>
	// done <nil>
}

func ExampleClient_Break() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	mutex, err := c.Mutex("jobs/daily", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := mutex.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)

	lock, err := c.Lock(ctx, "jobs/daily")
	if err != nil {
		log.Fatal(err)
	}
	for _, holder := range lock.Holders() {
		if err := c.Break(ctx, lock.Name, holder, "hangs since noon"); err != nil {
			log.Fatal(err)
		}
	}
	var lost *recipes.LostError
	if errors.As(context.Cause(hold.Context()), &lost) {
		fmt.Println(lost.Reason, "-", lost.Why)
	}
	// Output: the entry was removed by someone else - hangs since noon
}

func ExampleClient_Ask() {
	c := client()
	defer c.Close()
	ctx := context.Background()
	mutex, err := c.Mutex("deploy", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := mutex.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		request := <-hold.Asked()
		fmt.Println("asked:", request.Why)
		_ = hold.Unlock(ctx) // Ask waits for it
	}()
	fmt.Println(c.Ask(ctx, "deploy", "an urgent fix"))
	// Output:
	// asked: an urgent fix
	// <nil>
}
