package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/lockctl/lockctl/recipes/driver"
)

// The times of a watch: how often it asks for a sign of life, how long it waits for
// any, and how long it lets the reading of everything take at most.
const (
	signInterval = 2 * time.Second
	silence      = 5 * time.Second
	longestList  = 5 * time.Minute
)

var errSilence = errors.New("no sign of life from the service for too long")

func (s *store) Watch(ctx context.Context, scope driver.Scope, sink func(driver.Event)) error {
	patience := silence // for reading everything
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		start := time.Now()
		err := s.watchOnce(ctx, scope, &patience, sink)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isAny(err, driver.ErrDenied, driver.ErrClosed) && !stale(err):
			return err
		case errors.Is(err, rpctypes.ErrCompacted): // the service is there, only too far ahead
		default:
			sink(driver.Event{Type: driver.Lost, Err: err})
		}
		if time.Since(start) > lastPause {
			pause = firstPause
		}
		pauseFor(ctx, pause)
	}
}

// watchOnce reads everything and watches from there on, until something is wrong
// or the service has been silent for too long.
func (s *store) watchOnce(ctx context.Context, scope driver.Scope, patience *time.Duration, sink func(driver.Event)) (err error) {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	watchdog := time.AfterFunc(silence, func() { cancel(errSilence) })
	var asking sync.WaitGroup
	defer func() {
		if errors.Is(context.Cause(ctx), errSilence) {
			err = errSilence
		}
		watchdog.Stop()
		cancel(nil)
		asking.Wait()
	}()

	resp, err := s.listPatiently(ctx, scope, patience, watchdog)
	if err != nil {
		return err
	}
	watchdog.Stop() // working on it is not waiting for it
	alive := func() { watchdog.Reset(silence) }
	if scope.Lazy {
		alive = func() {}
	}
	sink(driver.Event{Type: driver.Reset})
	for _, e := range s.entries(resp, scope) {
		sink(driver.Event{Type: driver.Put, Entry: e})
	}
	sink(driver.Event{Type: driver.Synced})
	alive()

	// From the revision that was listed, not the next: for a watch of what is yet to
	// come the service gives no sign of life until something is written.
	listed := resp.Header.Revision
	stream, err := s.openWatch(ctx, s.reach(scope), listed)
	if err != nil {
		return s.failed(err)
	}
	if !scope.Lazy {
		asking.Go(func() { askForSigns(ctx, stream) })
	}
	for {
		resp, err := stream.Recv()
		watchdog.Stop()
		if err == nil {
			err = refusal(resp)
		}
		if err != nil {
			return s.failed(err)
		}
		s.report(resp.Events, listed, scope, sink)
		alive()
	}
}

// listPatiently reads everything. While the reply comes in nothing tells that it does. So
// each time that takes too long, the next time may take twice as long; but then the
// service must first answer what is answered at once.
func (s *store) listPatiently(ctx context.Context, scope driver.Scope, patience *time.Duration, watchdog *time.Timer) (*clientv3.GetResponse, error) {
	if *patience > silence {
		if _, err := s.client.Get(ctx, s.reach(scope), clientv3.WithCountOnly()); err != nil {
			return nil, s.failed(err)
		}
		watchdog.Reset(*patience)
	}
	resp, err := s.list(ctx, scope)
	if errors.Is(context.Cause(ctx), errSilence) {
		*patience = min(2**patience, longestList)
	}
	return resp, err
}

// openWatch watches all keys with the prefix on a stream of its own. The client
// library's watches would do, but it connects again silently, it leaves a stream
// behind when a watch is given up before it was made, and it can't ask for a sign
// of life while there is no connection.
func (s *store) openWatch(ctx context.Context, prefix string, revision int64) (pb.Watch_WatchClient, error) {
	stream, err := pb.NewWatchClient(s.client.ActiveConnection()).Watch(ctx,
		grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return nil, err
	}
	return stream, stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{
			Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)), StartRevision: revision,
		},
	}})
}

// askForSigns requests a progress notification now and then. That a request fails
// is no matter: silence tells.
func askForSigns(ctx context.Context, stream pb.Watch_WatchClient) {
	ticks := time.NewTicker(signInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			_ = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
				ProgressRequest: &pb.WatchProgressRequest{},
			}})
		}
	}
}

// refusal is why the service has ended a watch, or nil.
func refusal(resp *pb.WatchResponse) error {
	switch {
	case resp.CompactRevision != 0:
		return rpctypes.ErrCompacted
	case resp.Canceled:
		return fmt.Errorf("the service has ended the watch: %w", served(errors.New(resp.CancelReason)))
	}
	return nil
}

// report tells of the events after the revision that was listed.
func (s *store) report(events []*mvccpb.Event, listed int64, scope driver.Scope, sink func(driver.Event)) {
	for _, ev := range events {
		q, ok := s.queue(string(ev.Kv.Key), scope)
		if !ok || ev.Kv.ModRevision <= listed {
			continue
		}
		if ev.Type == mvccpb.Event_PUT {
			if e, ok := s.entry(ev.Kv, q); ok {
				sink(driver.Event{Type: driver.Put, Entry: e})
			}
			continue
		}
		if id, ok := strings.CutPrefix(string(ev.Kv.Key), s.prefix(q)); ok && (isID(id) || id == registerID) {
			sink(driver.Event{Type: driver.Delete, Entry: driver.Entry{Queue: q, ID: id}})
		}
	}
}
