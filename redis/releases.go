package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pingEvery is how often a connection that listens is checked, and what nobody waits for
// any more is given up.
const pingEvery = 5 * time.Second

// A listener has one connection that hears of releases, while someone wants to know.
type listener struct {
	client redis.UniversalClient

	mu     sync.Mutex
	live   *listening // nil while nobody wants to know
	closed bool
	wg     sync.WaitGroup // of listenings
}

// A listening is one connection of a listener's. What is not atomic is guarded by the
// listener's mu.
type listening struct {
	pubsub *redis.PubSub
	stop   context.CancelFunc
	kick   chan struct{} // there may be something to subscribe to
	heard  atomic.Bool   // something, since the last ping
	topics map[string]*topic
	ended  bool
}

// A topic is a channel of Redis that is subscribed to, or is about to be or not to be.
type topic struct {
	waiting map[chan struct{}]struct{}
	on      bool          // as of the last command
	pending int           // commands that are not confirmed
	ready   chan struct{} // closed when it is on, and that is confirmed
}

func newListener(client redis.UniversalClient) *listener { return &listener{client: client} }

var (
	errListenerClosed = errors.New("listener closed")
	errListenerBroken = errors.New("the connection that listens broke")
)

// watch has messages in the channel told until the context ends, or the connection does.
func (l *listener) watch(ctx context.Context, channel string) (<-chan struct{}, error) {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errListenerClosed
	}
	if l.live == nil {
		l.begin()
	}
	now := l.live
	t := now.topics[channel]
	if t == nil {
		t = &topic{waiting: map[chan struct{}]struct{}{}, ready: make(chan struct{})}
		now.topics[channel] = t
	}
	t.waiting[c] = struct{}{}
	ready := t.ready
	wake(now.kick)
	l.mu.Unlock()

	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, ok := t.waiting[c]; ok {
			delete(t.waiting, c)
			close(c)
		}
	})
	select {
	case <-ready:
		l.mu.Lock()
		defer l.mu.Unlock()
		if now.ended {
			return nil, errListenerBroken
		}
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// begin starts a connection. It is called with l.mu held.
func (l *listener) begin() {
	ctx, stop := context.WithCancel(context.Background())
	now := &listening{pubsub: l.client.Subscribe(ctx), stop: stop, kick: make(chan struct{}, 1), topics: map[string]*topic{}}
	l.live = now
	l.wg.Go(func() {
		l.command(ctx, now)
		stop()
		_ = now.pubsub.Close() // so that receive returns
	})
}

// command subscribes, starts to receive, checks the connection, and returns when it is of
// no more use.
func (l *listener) command(ctx context.Context, now *listening) {
	defer l.end(now)
	check := time.NewTicker(pingEvery)
	defer check.Stop()
	receiving := false
	now.heard.Store(true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-now.kick:
			channels := l.wanted(now)
			if len(channels) == 0 {
				continue
			}
			if now.pubsub.Subscribe(ctx, channels...) != nil {
				return
			}
			if !receiving { // which connects, if that was not done
				receiving = true
				l.wg.Go(func() { l.receive(ctx, now) })
			}
		case <-check.C:
			channels, idle := l.unwanted(now)
			if idle || !now.heard.Swap(false) {
				return
			}
			if len(channels) > 0 && now.pubsub.Unsubscribe(ctx, channels...) != nil {
				return
			}
			if now.pubsub.Ping(ctx) != nil {
				return
			}
		}
	}
}

// wanted are the channels to subscribe to.
func (l *listener) wanted(now *listening) (channels []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel, t := range now.topics {
		if !t.on && len(t.waiting) > 0 {
			t.on = true
			t.pending++
			channels = append(channels, channel)
		}
	}
	return channels
}

// unwanted are the channels that nobody waits for. If there are no others, the listening
// is idle, and nobody finds it any more.
func (l *listener) unwanted(now *listening) (channels []string, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle = true
	for channel, t := range now.topics {
		if len(t.waiting) > 0 {
			idle = false
			continue
		}
		if t.on {
			t.on = false
			t.pending++
			t.ready = make(chan struct{})
			channels = append(channels, channel)
		}
	}
	if idle && l.live == now {
		l.live = nil
	}
	return channels, idle
}

// receive reads from the connection until it breaks.
func (l *listener) receive(ctx context.Context, now *listening) {
	defer now.stop()
	for {
		message, err := now.pubsub.ReceiveTimeout(ctx, 0)
		if err != nil {
			return
		}
		now.heard.Store(true)
		l.mu.Lock()
		switch m := message.(type) {
		case *redis.Message:
			if t := now.topics[m.Channel]; t != nil {
				for c := range t.waiting {
					wake(c)
				}
			}
		case *redis.Subscription:
			now.confirm(m.Channel)
		}
		l.mu.Unlock()
	}
}

// confirm notes that a command was carried out. It is called with the listener's mu held.
func (now *listening) confirm(channel string) {
	t := now.topics[channel]
	switch {
	case t == nil:
		return
	case t.pending == 0: // the library has connected anew by itself: releases may have been missed
		now.stop()
		return
	}
	t.pending--
	switch {
	case t.pending > 0:
	case t.on:
		close(t.ready)
	case len(t.waiting) == 0:
		delete(now.topics, channel)
	default:
		wake(now.kick)
	}
}

// end tells all who wait that releases may be missed.
func (l *listener) end(now *listening) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now.ended = true
	if l.live == now {
		l.live = nil
	}
	for _, t := range now.topics {
		for c := range t.waiting {
			close(c)
		}
		clear(t.waiting)
		select {
		case <-t.ready:
		default:
			close(t.ready)
		}
	}
}

// close ends the connection, and waits until it has ended.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	if l.live != nil {
		l.live.stop()
	}
	l.mu.Unlock()
	l.wg.Wait()
}
