package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes/driver"
)

// session implements driver.Session on a lease.
type session struct {
	store *store
	lease clientv3.LeaseID
	ttl   time.Duration
	done  chan struct{}
	count atomic.Uint64 // entries made, for their names
	seen  atomic.Int64  // the latest revision that the service told of

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	renewer renewer
	lanes   lanes

	marking  sync.Once
	hasMark  chan struct{} // closed when markedAt is set
	markedAt int64         // a revision at which the session's key existed

	mu      sync.Mutex
	rewatch context.CancelFunc // makes the guard watch anew
	ended   bool
	wg      sync.WaitGroup // every goroutine of the session
}

func newSession(s *store, lease clientv3.LeaseID, ttl time.Duration) *session {
	sess := &session{store: s, lease: lease, ttl: ttl, done: make(chan struct{}), hasMark: make(chan struct{})}
	sess.ctx, sess.stop = context.WithCancel(context.Background())
	sess.renewer = renewer{ctx: sess.ctx, turn: make(chan struct{}, 1)}
	sess.start(sess.guard)
	return sess
}

func (s *session) ID() string            { return sessionID(s.lease) }
func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Done() <-chan struct{} { return s.done }

// start runs f in a goroutine that Close waits for. It reports false, and runs
// nothing, after that.
func (s *session) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.wg.Go(f)
	return true
}

// end ends the session's goroutines and streams.
func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

// see remembers a revision of the service.
func (s *session) see(revision int64) {
	for {
		old := s.seen.Load()
		if revision <= old || s.seen.CompareAndSwap(old, revision) {
			return
		}
	}
}

// lineLimit is how many entries of a queue Enter reads. Up to so many it knows the
// whole queue. To find the last of more, the service would have to look at all.
const lineLimit = 17

// Enter makes the entry and reads what is ahead in one transaction. The read
// comes before the put, so it returns what is ahead.
func (s *session) Enter(ctx context.Context, q driver.Queue, value []byte) (driver.Entry, *driver.Entry, error) {
	id := fmt.Sprintf("%x-%x", int64(s.lease), s.count.Add(1))
	prefix := s.store.prefix(q)
	h := &handle{key: prefix + id}
	own := driver.Entry{Queue: q, ID: id, Session: s.ID(), Value: value, Handle: h}
	if err := s.store.closed(); err != nil {
		return own, nil, err
	}
	enter := []clientv3.Op{
		clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithLimit(lineLimit)),
		clientv3.OpPut(h.key, string(value), clientv3.WithLease(s.lease)),
	}
	if q.Raw == "" {
		enter = append(enter, s.follow(q, id))
	}
	if !s.isMarked() {
		enter = append(enter, s.mark())
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		start := time.Now()
		attempt, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.store.requestTimeout)
		resp, err := s.store.client.Txn(attempt).If(
			clientv3.Compare(clientv3.CreateRevision(h.key), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(s.void(id)), "=", 0),
		).Then(enter...).Else(clientv3.OpGet(h.key)).Commit()
		cancel()
		err = s.store.failed(err)
		full := isAny(err, rpctypes.ErrNoSpace)
		if (err == nil || full) && time.Since(start) > s.store.requestTimeout/2 {
			h.unsettled = true // the client library may have repeated a request that was about to time out
		}
		if full {
			resp, err = s.made(ctx, h, err)
		}
		switch {
		case err == nil:
			h.unsettled = h.unsettled || !resp.Succeeded
			return s.entered(ctx, own, resp)
		case isAny(err, driver.ErrSessionOver, driver.ErrClosed), permanent(err) && !h.unsettled, ctx.Err() != nil:
			return own, nil, err
		}
		h.unsettled = true // this attempt may have made the entry, or make it yet
		pauseFor(ctx, pause)
	}
}

// made looks whether the entry was made although the service says that it has no space:
// a transaction that was under way when the space ran out is done and refused. If so it
// returns the reply that entered takes for that of a repeated attempt, if not the refusal.
func (s *session) made(ctx context.Context, h *handle, refusal error) (resp *clientv3.TxnResponse, err error) {
	err = s.store.persist(ctx, func(ctx context.Context) (err error) {
		resp, err = s.store.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(h.key), "=", 0)).
			Else(clientv3.OpGet(h.key)).Commit()
		return err
	})
	switch {
	case err != nil:
		h.unsettled = true // it may be there
		return nil, err
	case resp.Succeeded:
		return nil, refusal
	}
	return resp, nil
}

// follow is the part of a transaction that joins a long queue: if its tail is
// noted, it reads who that is, and notes the entry in its place.
func (s *session) follow(q driver.Queue, id string) clientv3.Op {
	tail := s.store.tail(q)
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(tail), ">", 0)},
		[]clientv3.Op{clientv3.OpGet(tail), clientv3.OpPut(tail, id, clientv3.WithLease(s.lease))},
		nil)
}

// entered reads the reply to the transaction that made the entry. If an earlier
// attempt had made it, its place has to be asked for.
func (s *session) entered(ctx context.Context, own driver.Entry, resp *clientv3.TxnResponse) (driver.Entry, *driver.Entry, error) {
	h := own.Handle.(*handle)
	s.see(resp.Header.Revision) // a member that is behind must not be asked for the place
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if !resp.Succeeded {
		if len(kvs) == 0 {
			return own, nil, driver.ErrGone // made by an earlier attempt, and removed since
		}
		h.created = kvs[0].CreateRevision
		s.noteMark(h.created)
		own.Revision, own.Version = uint64(h.created), uint64(kvs[0].ModRevision)
		ahead, err := s.place(ctx, own)
		return own, ahead, err
	}
	h.created = resp.Header.Revision
	s.noteMark(h.created)
	own.Revision, own.Version = uint64(h.created), uint64(h.created)
	tail := followed(resp)
	switch {
	case !resp.Responses[0].GetResponseRange().More:
		var ahead *driver.Entry
		h.line, ahead = s.line(kvs, own.Queue)
		h.complete, h.clear = true, ahead == nil && tail != ""
		return own, ahead, nil
	case tail != "":
		last := driver.Entry{Queue: own.Queue, ID: tail, Handle: &handle{key: s.store.prefix(own.Queue) + tail}}
		return own, &last, nil
	}
	ahead, err := s.place(ctx, own)
	if err == nil && own.Queue.Raw == "" {
		s.noteTail(ctx, own)
	}
	return own, ahead, err
}

// followed is the ID that the tail of the queue had noted, or "".
func followed(resp *clientv3.TxnResponse) string {
	if len(resp.Responses) < 3 {
		return ""
	}
	if txn := resp.Responses[2].GetResponseTxn(); txn == nil || !txn.Succeeded {
		return ""
	}
	return string(resp.Responses[2].GetResponseTxn().Responses[0].GetResponseRange().Kvs[0].Value)
}

// line are the keys of all entries in a queue, and the last of the entries.
func (s *session) line(kvs []*mvccpb.KeyValue, q driver.Queue) (keys []string, last *driver.Entry) {
	for _, kv := range kvs {
		entry, ok := s.store.entry(kv, q)
		if !ok {
			continue
		}
		keys = append(keys, string(kv.Key))
		if last == nil || entry.Revision > last.Revision {
			last = &entry
		}
	}
	return keys, last
}

// place asks what is ahead until the service tells: to give up would leave the
// entry there.
func (s *session) place(ctx context.Context, own driver.Entry) (*driver.Entry, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		ahead, err := s.Ahead(ctx, own)
		if err == nil || isAny(err, driver.ErrGone, driver.ErrSessionOver, driver.ErrClosed) || ctx.Err() != nil {
			return ahead, err
		}
		pauseFor(ctx, pause)
	}
}

// noteTail notes the entry as the last of a long queue, for those who enter later.
// It is a hint: whoever waits for the wrong entry looks at the queue when that is
// gone. So it doesn't matter that another may have entered meanwhile, or whether
// this succeeds.
func (s *session) noteTail(ctx context.Context, own driver.Entry) {
	ctx, cancel := context.WithTimeout(ctx, s.store.requestTimeout)
	defer cancel()
	tail := s.store.tail(own.Queue)
	_, _ = s.store.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(tail), "=", 0)).
		Then(clientv3.OpPut(tail, own.ID, clientv3.WithLease(s.lease))).Commit()
}

// void is the key whose existence keeps a late request from making the entry.
func (s *session) void(id string) string { return s.store.root + "/void/" + id }

// Ahead reads the queue up to the own entry, latest first.
func (s *session) Ahead(ctx context.Context, own driver.Entry) (*driver.Entry, error) {
	prefix, created := s.store.prefix(own.Queue), own.Handle.(*handle).created
	opts := []clientv3.OpOption{
		clientv3.WithPrefix(), clientv3.WithMaxCreateRev(created),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend),
	}
	resp, err := s.read(ctx, s.seen.Load(), prefix, append(opts, clientv3.WithLimit(2))...)
	for {
		if err != nil {
			return nil, err
		}
		if len(resp.Kvs) == 0 || string(resp.Kvs[0].Key) != own.Handle.(*handle).key {
			return nil, s.missing(ctx)
		}
		for _, kv := range resp.Kvs[1:] {
			if ahead, ok := s.store.entry(kv, own.Queue); ok {
				return &ahead, nil
			}
		}
		if !resp.More {
			return nil, nil
		}
		resp, err = s.read(ctx, s.seen.Load(), prefix, opts...) // what is ahead is foreign: look at all
	}
}

// missing is why the own entry is not in its queue.
func (s *session) missing(ctx context.Context) error {
	resp, err := s.read(ctx, s.seen.Load(), s.key(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	return s.whyGone(resp.Kvs)
}

// read returns a state of the service that is not older than the revision. Any
// member can serve it from its own copy if that is recent enough, even one that
// has no leader; otherwise it is read through the leader.
func (s *session) read(ctx context.Context, revision int64, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.store.requestTimeout)
	defer cancel()
	local := append([]clientv3.OpOption{clientv3.WithSerializable()}, opts...)
	resp, err := s.store.client.Get(ctx, key, local...)
	if err == nil && resp.Header.Revision < revision {
		resp, err = s.store.client.Get(clientv3.WithRequireLeader(ctx), key, opts...)
	}
	if err != nil {
		return nil, s.store.failed(err)
	}
	s.see(resp.Header.Revision)
	return resp, nil
}

// Leave deletes the key. A key of ours is never used twice, so its name is enough
// to know it by. Others may use theirs again, so their revision is compared.
func (s *session) Leave(ctx context.Context, own driver.Entry) error {
	h := own.Handle.(*handle)
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.store.requestTimeout)
	defer cancel()
	if h.unsettled || h.clear || own.Session != s.ID() {
		return s.leaveIf(ctx, own, h)
	}
	resp, err := s.store.client.Delete(ctx, h.key)
	if err != nil {
		return s.store.failed(err)
	}
	s.see(resp.Header.Revision)
	if resp.Deleted == 0 {
		return s.missing(ctx)
	}
	return nil
}

// leaveIf deletes the key if it is still the one that is meant. Where a request
// to make it may still be on its way, the same transaction leaves a void key that
// such a request checks; it goes with the lease. A service without space refuses
// that key, and for as long as it has none the late request too.
func (s *session) leaveIf(ctx context.Context, own driver.Entry, h *handle) error {
	ops := []clientv3.Op{clientv3.OpDelete(h.key)}
	if h.clear {
		ops = append(ops, clientv3.OpDelete(s.store.tail(own.Queue)))
	}
	if !h.unsettled {
		return s.leaveBy(ctx, own, ops)
	}
	void := clientv3.OpPut(s.void(own.ID), "", clientv3.WithLease(s.lease))
	err := s.leaveBy(ctx, own, append(slices.Clone(ops), void))
	if isAny(err, rpctypes.ErrNoSpace) {
		err = s.leaveBy(ctx, own, ops)
	}
	return err
}

// leaveBy does what leaves the queue. The void key tells of an earlier request that
// has done it, which the service may have refused all the same, see made.
func (s *session) leaveBy(ctx context.Context, own driver.Entry, ops []clientv3.Op) error {
	h := own.Handle.(*handle)
	resp, err := s.store.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(h.key), "=", h.created)).
		Then(ops...).
		Else(clientv3.OpGet(s.key(), clientv3.WithKeysOnly()), clientv3.OpGet(s.void(own.ID), clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return s.store.failed(err)
	}
	s.see(resp.Header.Revision)
	if resp.Succeeded || len(resp.Responses[1].GetResponseRange().Kvs) > 0 {
		return nil
	}
	return s.whyGone(resp.Responses[0].GetResponseRange().Kvs)
}

// whyGone is ErrGone or, if the session's key is gone too, ErrSessionOver.
func (s *session) whyGone(mark []*mvccpb.KeyValue) error {
	if s.isMarked() && len(mark) == 0 {
		return driver.ErrSessionOver
	}
	return driver.ErrGone
}

// Close revokes the lease, which deletes all its keys in one commit.
func (s *session) Close(ctx context.Context) error {
	s.end()
	err := s.store.persist(ctx, func(ctx context.Context) error {
		_, err := s.store.client.Revoke(ctx, s.lease)
		return err
	})
	if errors.Is(err, driver.ErrSessionOver) {
		return nil
	}
	return err
}
