package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/recipes"
)

// sessionTTL is the TTL of all contenders' sessions.
const sessionTTL = 15 * time.Second

// takeTurns is the turn of a client of ours.
func takeTurns(c *crew, client *recipes.Client, at site) (turn, error) {
	mutex, err := client.Mutex(at.name, nil)
	return enlisted(c, client.Close, mutex, err)
}

// dialer makes a client of ours.
type dialer func(ctx context.Context, at site, ttl time.Duration) (*recipes.Client, error)

func dialEtcdClient(ctx context.Context, at site, ttl time.Duration) (*recipes.Client, error) {
	return etcd.Dial(ctx, etcdURL(at), &etcd.Options{TTL: ttl})
}

func lockctlOnEtcd(ctx context.Context, c *crew, at site) (turn, error) {
	client, err := dialEtcdClient(ctx, at, sessionTTL)
	if err != nil {
		return nil, err
	}
	return takeTurns(c, client, at)
}

func etcdURL(at site) string { return "etcd://" + strings.Join(at.service.addrs(), ",") }

func dialEtcd(c *crew, at site) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: at.service.addrs(), DialTimeout: startTimeout, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, client.Close)
	return client, nil
}

func concurrencyMutex(_ context.Context, c *crew, at site) (turn, error) {
	client, err := dialEtcd(c, at)
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTTL/time.Second)))
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, session.Close)
	mutex := concurrency.NewMutex(session, "/concurrency/"+at.name)
	return func(ctx context.Context, granted func()) error {
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		granted()
		return mutex.Unlock(ctx)
	}, nil
}

// putAndDelete is what no lock can do without.
func putAndDelete(_ context.Context, c *crew, at site) (turn, error) {
	client, err := dialEtcd(c, at)
	if err != nil {
		return nil, err
	}
	key := "/raw/" + at.name
	return func(ctx context.Context, granted func()) error {
		if _, err := client.Put(ctx, key, ""); err != nil {
			return err
		}
		granted()
		_, err := client.Delete(ctx, key)
		return err
	}, nil
}

// signals is a runner of two clients that pass a message to each other: one puts
// a key that the other watches. It is what no hand-off can do without: one commit
// and one event.
type signals struct {
	crew  // for what it closes
	key   string
	sides [2]side
}

type side struct {
	client *clientv3.Client
	watch  clientv3.WatchChan // of what the other puts
}

func openSignals(_ context.Context, at site) (runner, error) {
	s := &signals{key: "/raw/" + at.name + "/"}
	ctx, cancel := context.WithCancel(context.Background()) // the watches last until close
	s.closers = append(s.closers, func() error { cancel(); return nil })
	for i := range s.sides {
		client, err := dialEtcd(&s.crew, at)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		watch := client.Watch(ctx, s.keyOf(1-i), clientv3.WithCreatedNotify())
		if resp := <-watch; resp.Err() != nil {
			return nil, errors.Join(resp.Err(), s.close())
		}
		s.sides[i] = side{client, watch}
	}
	return s, nil
}

func (s *signals) keyOf(side int) string { return fmt.Sprint(s.key, side) }

func (s *signals) measure(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	var moments []time.Duration
	start := time.Now()
	for i := 0; time.Since(start) < d; i = 1 - i {
		if _, err := s.sides[i].client.Put(ctx, s.keyOf(i), ""); err != nil {
			return nil, err
		}
		select {
		case resp := <-s.sides[1-i].watch:
			if resp.Err() != nil || len(resp.Events) != 1 {
				return nil, fmt.Errorf("expected one event, got %d, %w", len(resp.Events), resp.Err())
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		moments = append(moments, time.Since(start))
	}
	return moments, nil
}

// commandCrew is a crew of one that runs a command again and again; the moment
// of a grant is its end.
func commandCrew(command func(ctx context.Context) *exec.Cmd) runner {
	return &crew{turns: []turn{func(ctx context.Context, granted func()) error {
		err := output(command(ctx))
		granted()
		return err
	}}}
}

func lockctlHold(ctx context.Context, at site) (runner, error) {
	lockctl, err := at.workspace.lockctl(ctx)
	if err != nil {
		return nil, err
	}
	return commandCrew(func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, lockctl, "hold", "--backend", etcdURL(at), at.name, "--", "true")
	}), nil
}

func etcdctlLock(_ context.Context, at site) (runner, error) {
	etcdctl, err := installed("etcdctl")
	if err != nil {
		return nil, err
	}
	endpoints := strings.Join(at.service.addrs(), ",")
	return commandCrew(func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, etcdctl, "--endpoints", endpoints, "lock", at.name, "true")
	}), nil
}

// onlyTrue is the command without a lock.
func onlyTrue(context.Context, site) (runner, error) {
	return commandCrew(func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "true") }), nil
}
