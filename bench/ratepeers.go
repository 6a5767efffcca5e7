package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/time/rate"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/zk"
)

// The contenders that share a limit.
const (
	rateLeased  = "lockctl"
	rateExact   = "lockctl, exact"
	rateLocal   = "x/time/rate, each process its part"
	rateRedis   = "redis_rate"
	rateEtcdCAS = "one CAS per decision on etcd"
)

type allowFunc = func(context.Context) (bool, error)

// openRate opens a contender in a process.
func openRate(ctx context.Context, w rateWork) (allowFunc, func() error, error) {
	switch w.Contender {
	case rateLeased, rateExact:
		return openLimiter(ctx, w)
	case rateLocal:
		n := w.Limit.Rate / int64(w.Processes)
		l := rate.NewLimiter(rate.Limit(n), int(max(w.Limit.Burst/int64(w.Processes), 1)))
		return func(context.Context) (bool, error) { return l.Allow(), nil }, func() error { return nil }, nil
	case rateRedis:
		client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(w.URL, "redis://")})
		l := redis_rate.NewLimiter(client)
		limit := redis_rate.Limit{Rate: int(w.Limit.Rate), Burst: int(w.Limit.Burst), Period: time.Second}
		return func(ctx context.Context) (bool, error) {
			r, err := l.Allow(ctx, w.Name, limit)
			return err == nil && r.Allowed > 0, err
		}, client.Close, nil
	case rateEtcdCAS:
		return openRateCAS(w)
	}
	return nil, nil, fmt.Errorf("no contender %q", w.Contender)
}

func openLimiter(ctx context.Context, w rateWork) (allowFunc, func() error, error) {
	var client *recipes.Client
	var err error
	if strings.HasPrefix(w.URL, "zk:") {
		client, err = zk.Dial(ctx, w.URL, nil)
	} else {
		client, err = etcd.Dial(ctx, w.URL, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	config := ratelimit.Config{
		Rate: ratelimit.PerSecond(w.Limit.Rate), Burst: w.Limit.Burst, Slack: w.Limit.Slack, Period: w.Limit.Period,
	}
	if w.Contender == rateExact {
		config.Mode = ratelimit.Exact
	}
	l, err := ratelimit.New(client, w.Name, &ratelimit.Options{Config: config, Timeout: 5 * time.Second})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	end := func() error { return errors.Join(l.Close(ctx), client.Close()) }
	return func(ctx context.Context) (bool, error) {
		d, err := l.Allow(ctx, "")
		return d.OK, err
	}, end, nil
}

// openRateCAS is the textbook limiter: a key with the time at which the bucket will be full,
// by the processes' clocks, and a compare-and-swap for each decision.
func openRateCAS(w rateWork) (allowFunc, func() error, error) {
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, nil, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(u.Host, ",")})
	if err != nil {
		return nil, nil, err
	}
	key := "/bench/" + w.Name
	each := int64(time.Second) / w.Limit.Rate
	var full, revision int64
	allow := func(ctx context.Context) (bool, error) {
		for {
			now := time.Now().UnixNano()
			next := max(full, now) + each
			if next-now > each*w.Limit.Burst {
				resp, err := client.Get(ctx, key) // what is known may be out of date
				if err != nil {
					return false, err
				}
				if len(resp.Kvs) > 0 && resp.Kvs[0].ModRevision != revision {
					revision = resp.Kvs[0].ModRevision
					if err := json.Unmarshal(resp.Kvs[0].Value, &full); err != nil {
						return false, err
					}
					continue
				}
				return false, nil
			}
			resp, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
				Then(clientv3.OpPut(key, fmt.Sprint(next))).Else(clientv3.OpGet(key)).Commit()
			switch {
			case err != nil:
				return false, err
			case resp.Succeeded:
				full, revision = next, resp.Header.Revision
				return true, nil
			}
			kv := resp.Responses[0].GetResponseRange().Kvs[0]
			revision = kv.ModRevision
			if err := json.Unmarshal(kv.Value, &full); err != nil {
				return false, err
			}
		}
	}
	return allow, client.Close, nil
}
