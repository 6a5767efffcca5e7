package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes/driver"
)

// Await watches the entry's key from now on. A watch from an earlier revision
// would have to catch up, which the server lets it do every 100 ms only. So the
// watch is made first and the key read then, in a state that is not older than
// the watch: either the read or the watch sees the key go.
//
// All watches share one stream, which keeps the token that it was opened with. If
// the service does not know that any more, a new stream is opened.
func (s *session) Await(ctx context.Context, other driver.Entry) error {
	stream := s.store.streams.Load()
	err := s.awaitOn(ctx, stream, other)
	if err != nil && stale(err) {
		s.moveStream(stream)
		err = s.awaitOn(ctx, s.store.streams.Load(), other)
	}
	return s.store.failed(err)
}

// awaitOn waits with a watch on the stream of the given number.
func (s *session) awaitOn(ctx context.Context, stream int64, other driver.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	made := make(chan clientv3.WatchChan, 1)
	done := make(chan struct{})
	defer close(done)
	if !s.start(func() { s.watchKey(other.Handle.(*handle).key, stream, made, done) }) {
		return driver.ErrClosed
	}
	var watch clientv3.WatchChan
	for {
		select {
		case watch = <-made:
		case <-ctx.Done():
			return ctx.Err()
		case resp, ok := <-watch:
			switch {
			case !ok:
				return errWatchClosed
			case resp.Err() != nil:
				return resp.Err()
			case len(resp.Events) > 0:
				s.see(resp.Header.Revision)
				return nil
			case resp.Created:
				same, err := s.same(ctx, other, resp.Header.Revision)
				if !same || err != nil {
					return err
				}
			}
		}
	}
}

// watchKey keeps a watch on the key until done is closed. It does not end while
// the watch is being made, whatever the caller's context says: the client library
// would forget such a watch and leave it on the server.
func (s *session) watchKey(key string, stream int64, made chan<- clientv3.WatchChan, done <-chan struct{}) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	made <- s.store.client.Watch(s.store.onStream(ctx, stream), key, clientv3.WithCreatedNotify())
	<-done
}

// same reports whether the entry is as it was, as of the revision or later.
func (s *session) same(ctx context.Context, other driver.Entry, revision int64) (bool, error) {
	now, err := s.read(ctx, revision, other.Handle.(*handle).key, clientv3.WithKeysOnly())
	if err != nil || len(now.Kvs) == 0 {
		return false, err
	}
	kv := now.Kvs[0]
	if other.Revision == 0 { // Enter has not read it
		return true, nil
	}
	return kv.CreateRevision == other.Handle.(*handle).created && uint64(kv.ModRevision) == other.Version, nil
}
