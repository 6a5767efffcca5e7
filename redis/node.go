package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// A node is a server, or a cluster of them, and what can be asked of it. All its
// methods may be called at the same time.
type node struct {
	client   redis.UniversalClient
	layout   layout
	listener *listener
	owned    bool // the client is closed with the node

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // of requests
}

func newNode(client redis.UniversalClient, l layout, owned bool) *node {
	return &node{client: client, layout: l, listener: newListener(client), owned: owned}
}

// close waits for requests that are on their way, which the client's own timeouts
// bound.
func (n *node) close() error {
	n.mu.Lock()
	closed := n.closed
	n.closed = true
	n.mu.Unlock()
	if closed {
		return nil
	}
	n.listener.close()
	var err error
	if n.owned {
		err = n.client.Close()
	}
	n.wg.Wait()
	return err
}

// ask carries out a request, and returns when there is a reply or the context ends: the
// client itself looks at the deadlines of contexts at the most.
func ask[T any](ctx context.Context, n *node, request func(ctx context.Context) (T, error)) (T, error) {
	type outcome struct {
		reply T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan outcome, 1)
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return none, driver.ErrClosed
	}
	n.wg.Go(func() {
		reply, err := request(ctx)
		done <- outcome{reply, failed(err)}
	})
	n.mu.Unlock()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// failed is the driver's error for one of the client.
func failed(err error) error {
	var reply redis.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	case !errors.As(err, &reply):
		return err
	}
	for _, refusal := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "ERR AUTH", "ERR invalid password"} {
		if strings.HasPrefix(reply.Error(), refusal) {
			return fmt.Errorf("%w: %w", driver.ErrDenied, err)
		}
	}
	if strings.Contains(reply.Error(), "NOPERM") || strings.Contains(reply.Error(), "can't run this command") { // in a script
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return err
}

// A once is a command that the client does not repeat by itself.
type once struct{ *redis.Cmd }

// NoRetry tells the client so.
func (once) NoRetry() bool { return true }

// run runs a script, which is sent in full to a server that does not have it yet.
func (n *node) run(ctx context.Context, s script, keys []string, args ...any) (any, error) {
	return ask(ctx, n, func(ctx context.Context) (any, error) {
		reply, err := n.eval(ctx, "evalsha", s.sum, keys, args)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			reply, err = n.eval(ctx, "eval", s.source, keys, args)
		}
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		return reply, err
	})
}

// eval runs a script once: what recipes makes of the reply to a release depends on
// whether it was the first one.
func (n *node) eval(ctx context.Context, command, script string, keys []string, args []any) (any, error) {
	all := []any{command, script, len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	err := n.client.Process(ctx, once{cmd})
	return cmd.Val(), err
}

// milliseconds of a TTL, rounded up: what the server keeps is never less.
func milliseconds(ttl time.Duration) int64 {
	return int64((ttl + time.Millisecond - 1) / time.Millisecond)
}

// refuse returns an error for a name whose key accompanies other locks.
func (n *node) refuse(name string) error {
	if reserved.MatchString(n.layout.lock(name)) {
		return &recipes.InvalidError{Field: "name", Problem: `begins with a number in braces and "lockctl:", which is kept for tokens and notes`}
	}
	return nil
}

// take runs acquire or vote.
func (n *node) take(ctx context.Context, s script, want driver.Lease, ttl time.Duration) (driver.Lease, error) {
	if err := n.refuse(want.Name); err != nil {
		return want, err
	}
	reply, err := n.run(ctx, s, n.layout.keys(want.Name), want.ID, milliseconds(ttl), want.Value)
	if err != nil {
		return want, err
	}
	got, err := readLease(want.Name, reply)
	if err == nil && got.ID != want.ID {
		err = driver.ErrTaken
	}
	return got, err
}

func (n *node) renew(ctx context.Context, l driver.Lease, ttl time.Duration) error {
	return n.change(ctx, renew, n.layout.keys(l.Name)[:2], l.ID, milliseconds(ttl), l.Value, strconv.FormatUint(l.Token, 10))
}

// release releases the lease, of any attempt if attempts is set.
func (n *node) release(ctx context.Context, l driver.Lease, attempts bool) error {
	flag := "0"
	if attempts {
		flag = "1"
	}
	return n.change(ctx, release, n.layout.keys(l.Name)[:2], l.ID, n.layout.channel(l.Name), flag)
}

// change runs a script that tells whether it has done something.
func (n *node) change(ctx context.Context, s script, keys []string, args ...any) error {
	reply, err := n.run(ctx, s, keys, args...)
	if err == nil && reply == int64(0) {
		return driver.ErrGone
	}
	return err
}

// readLease reads what scripts tell of a lock. The note counts if it is the holder's.
func readLease(name string, reply any) (driver.Lease, error) {
	l := driver.Lease{Name: name}
	fields, ok := reply.([]any)
	if !ok || len(fields) != 6 {
		return l, fmt.Errorf("a reply that can't be read: %v", reply)
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i], _ = f.(string) // or nothing
	}
	left, _ := fields[1].(int64)
	l.ID, l.Left = texts[0], time.Duration(max(left, 0))*time.Millisecond
	if l.ID == "" || texts[2] != l.ID {
		return l, nil
	}
	var err error
	if l.Token, err = strconv.ParseUint(texts[3], 10, 63); err != nil {
		return l, fmt.Errorf("the note of %q has a bad token: %w", name, err)
	}
	if since, err := strconv.ParseInt(texts[4], 10, 64); err == nil { // it may have been lost
		l.Created = time.UnixMicro(since).UTC()
	}
	l.Value = []byte(texts[5])
	return l, nil
}
