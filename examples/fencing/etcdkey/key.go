package main

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/recipes"
)

var (
	// ErrNotHeld says that the hold is over, so nothing was written.
	ErrNotHeld = errors.New("refused: the lock is not held any more")
	// ErrStale says that a later holder of the lock has been there, so nothing was
	// written. Whoever gets it has lost the lock.
	ErrStale = errors.New("refused: a later holder of the lock has been here")
)

// WriteHeld writes a key on the condition that the hold is not over. It is for keys
// in the etcd that the lock is kept in.
func WriteHeld(ctx context.Context, client *clientv3.Client, hold *recipes.Hold, key, value string) error {
	guard, err := etcd.Guard(hold)
	if err != nil {
		return err
	}
	resp, err := client.Txn(ctx).If(guard).Then(clientv3.OpPut(key, value)).Commit()
	if err == nil && !resp.Succeeded {
		err = ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("write key %q: %w", key, err)
	}
	return nil
}

// Write writes a key unless a later holder has been there: its token is stored in a
// key beside it. The lock can be kept anywhere.
func Write(ctx context.Context, client *clientv3.Client, token uint64, key, value string) error {
	if _, err := fenced(ctx, client, token, key, clientv3.OpPut(key, value)); err != nil {
		return fmt.Errorf("write key %q with token %d: %w", key, token, err)
	}
	return nil
}

// Read reads a key, "" if there is none. From then on all earlier holders are
// refused, although nothing was written yet: what was read stays true until the
// reader, or a later holder, writes.
func Read(ctx context.Context, client *clientv3.Client, token uint64, key string) (string, error) {
	resp, err := fenced(ctx, client, token, key, clientv3.OpGet(key))
	if err != nil {
		return "", fmt.Errorf("read key %q with token %d: %w", key, token, err)
	}
	for _, kv := range resp.GetResponseRange().Kvs {
		return string(kv.Value), nil
	}
	return "", nil
}

// fenced does op and stores the token beside the key, unless a larger one is stored
// there: all in one transaction.
func fenced(ctx context.Context, client *clientv3.Client, token uint64, key string, op clientv3.Op) (*etcdserverpb.ResponseOp, error) {
	fence := key + ".token"
	// etcd has no "<=", and compares values as text.
	notLater := clientv3.Compare(clientv3.Value(fence), "<", text(token+1))
	none := clientv3.Compare(clientv3.CreateRevision(fence), "=", 0) // then notLater is not met
	do := []clientv3.Op{clientv3.OpPut(fence, text(token)), op}
	resp, err := client.Txn(ctx).If(notLater).Then(do...).
		Else(clientv3.OpTxn([]clientv3.Cmp{none}, do, nil)).Commit()
	if err != nil {
		return nil, err
	}
	if resp.Succeeded {
		return resp.Responses[1], nil
	}
	if first := resp.Responses[0].GetResponseTxn(); first.Succeeded {
		return first.Responses[1], nil
	}
	return nil, ErrStale
}

// text is a token in a form whose order as text is that of the numbers: the largest
// has 19 digits.
func text(token uint64) string { return fmt.Sprintf("%019d", token) }
