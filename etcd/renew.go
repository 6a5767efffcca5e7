package etcd

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// renewer renews leases over a stream that it keeps open. The client library's
// own ways don't do: its channel doesn't tell when a renewal was sent, and its
// single renewal opens a stream each time, which with a password means a slow
// hash and a commit.
type renewer struct {
	ctx    context.Context // of the stream
	turn   chan struct{}   // has a value while one renewal is under way
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// Renew asks for one renewal. If the stream turns out to have ended since it was
// last used, it is opened again, once.
func (s *session) Renew(ctx context.Context) error {
	r := &s.renewer
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn := s.store.client.ActiveConnection()
	used := r.stream != nil
	ttl, err := r.ask(ctx, conn, s.lease)
	if err != nil && used && ctx.Err() == nil {
		ttl, err = r.ask(ctx, conn, s.lease)
	}
	switch {
	case err == nil && ttl <= 0:
		err = rpctypes.ErrLeaseNotFound
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	}
	return s.store.failed(err)
}

// ask sends one request and waits for its reply. After a failure the stream is
// given up: a late reply must not be taken for the next one's.
func (r *renewer) ask(ctx context.Context, conn grpc.ClientConnInterface, lease clientv3.LeaseID) (int64, error) {
	if r.stream == nil {
		if err := r.open(ctx, conn); err != nil {
			return 0, err
		}
	}
	stop := context.AfterFunc(ctx, r.cancel)
	resp, err := r.exchange(&pb.LeaseKeepAliveRequest{ID: int64(lease)})
	if !stop() || err != nil {
		r.cancel()
		r.stream = nil
	}
	if err != nil {
		return 0, err
	}
	return resp.TTL, nil
}

func (r *renewer) open(ctx context.Context, conn grpc.ClientConnInterface) error {
	streamCtx, cancel := context.WithCancel(clientv3.WithRequireLeader(r.ctx))
	defer context.AfterFunc(ctx, cancel)()
	stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(streamCtx, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		return err
	}
	r.stream, r.cancel = stream, cancel
	return nil
}

func (r *renewer) exchange(req *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	if err := r.stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return r.stream.Recv() // after an io.EOF it tells what has happened
}
