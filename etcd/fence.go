package etcd

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes"
)

// Guard is a condition for transactions: that the hold's entry is in its queue
// still, so that nobody else can have been granted the lock. With it, a key in the
// etcd that the lock is kept in can be written by the present holder alone:
//
//	guard, err := etcd.Guard(hold)
//	if err != nil { … }
//	resp, err := client.Txn(ctx).If(guard).Then(clientv3.OpPut(key, value)).Commit()
//
// If resp.Succeeded is false the hold is over, whatever its context says: lost,
// released or broken. The service decides that, in the order of its transactions,
// so a write that was delayed on its way is refused as well.
//
// Guard asks nothing of the service, and gives the same condition for as long as
// hold exists. It costs the transaction one comparison: of the create revision of
// the entry's key, which is never used twice. Publishing and changes of a lock's
// mode don't touch it.
//
// The transaction must go to the etcd that the hold is kept in: in another one, or
// through a client that package namespace wraps, the condition is never met. Its
// user must be permitted to read the lock's keys. For a resource outside of that
// etcd check the hold's token.
//
// A hold that was asked for its guard is not passed on inside the process, nor
// retained, see recipes.Mutex: its entry stays its own.
//
// It returns ErrInvalid if the hold is nil or not of a lock on etcd, and ErrLost if it
// is over and had been passed on or retained. A *recipes.MultiHold has a guard for
// each of its Holds, and a *election.Lead one for its Hold.
func Guard(hold *recipes.Hold) (clientv3.Cmp, error) {
	if hold == nil {
		return clientv3.Cmp{}, &recipes.InvalidError{Field: "hold", Problem: "is nil"}
	}
	entry, err := hold.Pin()
	if err != nil {
		return clientv3.Cmp{}, err
	}
	h, ok := entry.Handle.(*handle)
	if !ok {
		return clientv3.Cmp{}, &recipes.InvalidError{Field: "hold", Problem: "is not of a lock on etcd"}
	}
	return clientv3.Compare(clientv3.CreateRevision(h.key), "=", h.created), nil
}
