package etcd

import (
	"bytes"
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes/driver"
)

// registerID is the last element of a register's key, which has no lease.
const registerID = "value"

// Update puts the key again, if it is still the one that Enter made. It compares
// the version too, so that a request that is delivered late can't undo a newer one.
// Only this session writes the key: another version is that of an earlier request
// whose reply was lost, or that was done and refused for want of space, see made.
func (s *session) Update(ctx context.Context, own driver.Entry, value []byte) (driver.Entry, error) {
	h := own.Handle.(*handle)
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.store.requestTimeout)
	defer cancel()
	put := clientv3.OpPut(h.key, string(value), clientv3.WithLease(s.lease))
	for {
		resp, err := s.ifPresent(ctx, own, put)
		refusal := err
		if isAny(err, rpctypes.ErrNoSpace) {
			resp, err = s.ifPresent(ctx, own)
		}
		switch {
		case err != nil:
			return own, refusal
		case resp.Succeeded && refusal != nil:
			return own, &meaning{driver.ErrRefused, refusal}
		case resp.Succeeded:
			own.Value, own.Version = value, uint64(resp.Header.Revision)
			return own, nil
		}
		present := resp.Responses[1].GetResponseRange().Kvs
		if len(present) == 0 || present[0].CreateRevision != h.created {
			return own, s.whyGone(resp.Responses[0].GetResponseRange().Kvs)
		}
		own.Version = uint64(present[0].ModRevision)
		if bytes.Equal(present[0].Value, value) {
			own.Value = value
			return own, nil
		}
	}
}

// ifPresent does something if the entry has the version that it is known by. If not it
// reads whether the session is there, and the entry.
func (s *session) ifPresent(ctx context.Context, own driver.Entry, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	h := own.Handle.(*handle)
	resp, err := s.store.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(h.key), "=", h.created),
			clientv3.Compare(clientv3.ModRevision(h.key), "=", int64(own.Version))).
		Then(ops...).
		Else(clientv3.OpGet(s.key(), clientv3.WithKeysOnly()), clientv3.OpGet(h.key)).Commit()
	if err != nil {
		return nil, s.store.failed(err)
	}
	s.see(resp.Header.Revision)
	return resp, nil
}

// Swap compares the key's last revision, which no later value of the register
// can have. If it is another, the same transaction reads what is there.
func (s *store) Swap(ctx context.Context, old driver.Entry, value []byte) (driver.Entry, error) {
	key := s.prefix(old.Queue) + registerID
	op := clientv3.OpDelete(key)
	if value != nil {
		op = clientv3.OpPut(key, string(value))
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), s.requestTimeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(old.Version))).
		Then(op).Else(clientv3.OpGet(key)).Commit()
	switch {
	case err != nil:
		return driver.Entry{}, s.notSwapped(ctx, key, old, s.failed(err))
	case !resp.Succeeded:
		present := driver.Entry{Queue: old.Queue}
		for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
			if e, ok := s.entry(kv, old.Queue); ok {
				present = e
			}
		}
		return present, driver.ErrConflict
	}
	revision := uint64(resp.Header.Revision)
	return driver.Entry{
		Queue: old.Queue, ID: registerID, Revision: revision, Version: revision, Value: value,
		Handle: &handle{key: key, created: resp.Header.Revision},
	}, nil
}

// notSwapped tells whether a refusal for want of space means that nothing was written,
// see made: if the key is as it was.
func (s *store) notSwapped(ctx context.Context, key string, old driver.Entry, refusal error) error {
	if !isAny(refusal, rpctypes.ErrNoSpace) {
		return refusal
	}
	resp, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(old.Version))).
		Else(clientv3.OpGet(key, clientv3.WithKeysOnly())).Commit()
	if err != nil || !resp.Succeeded {
		return refusal // its outcome is for the caller to find out
	}
	return &meaning{driver.ErrRefused, refusal}
}
