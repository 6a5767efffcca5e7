package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/lockctl/lockctl/recipes/driver"
)

// key is the key that marks the session. It is bound to the lease.
func (s *session) key() string { return s.store.root + "/session/" + s.ID() }

// mark is the part of a transaction that makes the session's key. It goes with the
// first entry: a session without entries has nothing to lose.
func (s *session) mark() clientv3.Op {
	return clientv3.OpPut(s.key(), "", clientv3.WithLease(s.lease))
}

// noteMark notes that the session's key existed at a revision.
func (s *session) noteMark(revision int64) {
	s.marking.Do(func() {
		s.markedAt = revision
		close(s.hasMark)
	})
}

// isMarked reports whether the session's key was made.
func (s *session) isMarked() bool {
	select {
	case <-s.hasMark:
		return true
	default:
		return false
	}
}

// guard notices the end of the lease by the end of a key that is bound to it.
// Safety doesn't need it; it only makes a revoked lease known at once.
func (s *session) guard() {
	select {
	case <-s.hasMark:
	case <-s.ctx.Done():
		return
	}
	revision := s.markedAt // at which the key was last known to exist
	for pause := firstPause; s.ctx.Err() == nil; pause = min(2*pause, lastPause) {
		var err error
		revision, err = s.watchMark(revision)
		if errors.Is(err, driver.ErrSessionOver) {
			close(s.done)
		}
		if permanent(err) {
			return
		}
		if err == nil {
			pause = firstPause
			continue
		}
		pauseFor(s.ctx, pause)
	}
}

// watchMark returns ErrSessionOver when the session's key is gone, or nil when the
// watch has ended otherwise, with a revision at which the key still existed.
func (s *session) watchMark(revision int64) (int64, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.mu.Lock()
	s.rewatch = cancel
	s.mu.Unlock()
	stream := s.store.onStream(ctx, s.store.streams.Load())
	for resp := range s.store.client.Watch(stream, s.key(), clientv3.WithRev(revision+1), clientv3.WithFilterPut()) {
		if len(resp.Events) > 0 {
			return 0, driver.ErrSessionOver
		}
	}
	ctx, stop := context.WithTimeout(clientv3.WithRequireLeader(s.ctx), s.store.requestTimeout)
	defer stop()
	now, err := s.store.client.Get(ctx, s.key(), clientv3.WithKeysOnly())
	switch {
	case err != nil:
		return revision, s.store.failed(err)
	case len(now.Kvs) == 0:
		return 0, driver.ErrSessionOver
	}
	return now.Header.Revision, nil
}

// moveStream opens a new stream for all watches made from now on, unless that was
// done since the given one was in use. The guard's moves too, so that the stream
// stays open.
func (s *session) moveStream(old int64) {
	if !s.store.streams.CompareAndSwap(old, old+1) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rewatch != nil {
		s.rewatch()
	}
}

// onStream makes watches with this context go to the stream of the given number:
// the client library shares streams by the metadata of contexts.
func (s *store) onStream(ctx context.Context, number int64) context.Context {
	return metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "lockctl-stream", fmt.Sprint(number))
}
