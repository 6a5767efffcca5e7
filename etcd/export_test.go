package etcd

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes/driver"
)

// NewStore gives tests the engine without the recipes, over the test's own etcd
// client.
func NewStore(client *clientv3.Client, root string, ttl, requestTimeout time.Duration) driver.Store {
	s := newStore(Options{Root: root, TTL: ttl})
	s.client, s.servers, s.requestTimeout = client, client.Endpoints(), requestTimeout
	return s
}
