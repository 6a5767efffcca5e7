package zk

import (
	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes"
)

// anyVersion has a check look only whether the node exists.
const anyVersion = -1

// Guard is a condition for Multi: that the hold's node exists, so that nobody else
// can have been granted the lock. With it, a znode of the ZooKeeper that the lock
// is kept in can be written by the present holder alone:
//
//	guard, err := zk.Guard(hold)
//	if err != nil { … }
//	_, err = conn.Multi(guard, &gozk.SetDataRequest{Path: path, Data: data, Version: version})
//
// gozk.ErrNoNode as the error of the guard's own answer, the first, says that the
// hold is over, whatever its context says: lost, released or broken. The service
// decides that, in the order of its transactions, so a write that was delayed on
// its way is refused as well.
//
// Guard asks nothing of the service, and gives the same condition for as long as
// hold exists. That the node exists is enough: its name has a number that is never
// used twice, it belongs to the session that the hold was made under, and it goes
// with that session. Its version is left out, because publishing and changes of a
// lock's mode change it.
//
// Any connection will do, in any session, as long as it is to the ZooKeeper that
// the hold is kept in; in another one the node does not exist. Its user must be
// permitted to read the lock's nodes, or the answer is gozk.ErrNoAuth. For a
// resource outside of that ZooKeeper check the hold's token.
//
// A hold that was asked for its guard is not passed on inside the process, nor
// retained, see recipes.Mutex: its node stays its own.
//
// It returns ErrInvalid if the hold is nil or not of a lock on ZooKeeper, and ErrLost
// if it is over and had been passed on or retained. A *recipes.MultiHold has a guard
// for each of its Holds, and a *election.Lead one for its Hold.
func Guard(hold *recipes.Hold) (*gozk.CheckVersionRequest, error) {
	if hold == nil {
		return nil, invalid("hold", "is nil")
	}
	entry, err := hold.Pin()
	if err != nil {
		return nil, err
	}
	own, ok := entry.Handle.(*ownNode)
	if !ok {
		return nil, invalid("hold", "is not of a lock on ZooKeeper")
	}
	return &gozk.CheckVersionRequest{Path: own.path, Version: anyVersion}, nil
}
