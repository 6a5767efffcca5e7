package redis

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockctl/lockctl/recipes/driver"
)

// scanCount is how many keys a server looks at in one step of a scan.
const scanCount = 1000

func (n *node) list(ctx context.Context, scope driver.Scope) ([]driver.Lease, error) {
	if scope.Prefix {
		return ask(ctx, n, func(ctx context.Context) ([]driver.Lease, error) { return n.scan(ctx, scope.Name) })
	}
	reply, err := n.run(ctx, look, n.layout.keys(scope.Name)[:2])
	if err != nil || reply == nil {
		return nil, err
	}
	l, err := readLease(scope.Name, reply)
	return []driver.Lease{l}, err
}

// scan looks at all keys of all servers that are not replicas.
func (n *node) scan(ctx context.Context, prefix string) ([]driver.Lease, error) {
	var mu sync.Mutex
	found := map[string]driver.Lease{} // by name: a scan may show a key twice
	visit := func(ctx context.Context, server *redis.Client) error {
		if err := server.ScriptLoad(ctx, look.source).Err(); err != nil {
			return err
		}
		for cursor := uint64(0); ; {
			keys, next, err := server.Scan(ctx, cursor, n.layout.pattern(prefix), scanCount).Result()
			if err != nil {
				return err
			}
			leases, err := n.lookAt(ctx, server, keys)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, l := range leases {
				found[l.Name] = l
			}
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	var err error
	switch client := n.client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, visit)
	case *redis.Client:
		err = visit(ctx, client)
	}
	leases := make([]driver.Lease, 0, len(found))
	for _, l := range found {
		leases = append(leases, l)
	}
	return leases, err
}

// lookAt reads those of the keys that are locks, in one round trip. Without a prefix of
// its own, only a key with a note is known to be one.
func (n *node) lookAt(ctx context.Context, server *redis.Client, keys []string) ([]driver.Lease, error) {
	var names []string
	var replies []*redis.Cmd
	pipe := server.Pipeline()
	for _, key := range keys {
		if reserved.MatchString(key) {
			continue
		}
		name := strings.TrimPrefix(key, n.layout.prefix)
		names = append(names, name)
		replies = append(replies, pipe.EvalSha(ctx, look.sum, n.layout.keys(name)[:2]))
	}
	if len(names) == 0 {
		return nil, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) { // of one that is gone
		return nil, err
	}
	var leases []driver.Lease
	for i, r := range replies {
		reply, err := r.Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l, err := readLease(names[i], reply)
		if err != nil {
			return nil, err
		}
		if l.Value != nil || n.layout.prefix != "" && l.Left > 0 {
			leases = append(leases, l)
		}
	}
	return leases, nil
}
