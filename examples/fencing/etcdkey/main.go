// Command etcdkey writes a key in etcd under a lock in the same etcd. The write of a
// former holder is refused.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/examples/fencing/internal/demo"
	"github.com/lockctl/lockctl/recipes"
)

func main() { demo.Main("etcdkey", run) }

func run(ctx context.Context, p *demo.Program) error {
	endpoints := p.String("endpoints", demo.Env("ETCDCTL_ENDPOINTS", "127.0.0.1:23790"), "etcd's `addresses`, separated by commas")
	ttl := p.Duration("ttl", 10*time.Second, "how long the lock outlives its holder")
	stored := p.Bool("stored", false, "compare with a token stored beside the key, not with the lock's own entry")
	key := p.String("key", "/report/daily", "the `key`")
	p.Parse()
	etcdClient, err := clientv3.New(clientv3.Config{
		Endpoints:         strings.Split(*endpoints, ","),
		DialKeepAliveTime: 10 * time.Second,
		Logger:            zap.NewNop(), // errors are returned
	})
	if err != nil {
		return err
	}
	defer etcdClient.Close()
	client, err := etcd.Open(ctx, etcdClient, &etcd.Options{TTL: *ttl})
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := client.Mutex(p.Lock, nil)
	if err != nil {
		return err
	}
	return mutex.Do(ctx, func(_ context.Context, hold *recipes.Hold) error {
		late, err := p.Pause(hold)
		if err != nil {
			return err
		}
		if *stored {
			err = Write(late, etcdClient, hold.Token(), *key, p.Value)
		} else {
			err = WriteHeld(late, etcdClient, hold, *key, p.Value)
		}
		if err != nil {
			return err
		}
		fmt.Printf("key %q is now %q\n", *key, p.Value)
		return nil
	})
}
