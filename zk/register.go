package zk

import (
	"context"
	"errors"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/recipes/driver"
)

// The nodes of a register, below the node of its queue: one that is there while
// the register has a value, so that it is made once, and one for the value
// itself. Each value has a node of a new name. So a comparison with a value
// cannot succeed on a register that was removed and made again, whose versions
// start over; and the node above is removed by the server when it is empty.
// The first is written with each value, without data: the reply to that tells the
// transaction's zxid, which that to a creation does not.
const presentNode = "present"

// Update implements driver.Line. The name of a node is never used twice, so the
// data can't be another's.
func (s *session) Update(ctx context.Context, own driver.Entry, value []byte) (driver.Entry, error) {
	dir, err := s.store.dir(own.Queue)
	if err != nil {
		return own, err
	}
	path := dir + "/" + own.ID
	stat, err := call(ctx, s.link, func() (*gozk.Stat, error) { return s.link.conn.zk.Set(path, value, -1) })
	switch {
	case errors.Is(err, gozk.ErrNoNode):
		return own, driver.ErrGone
	case err != nil:
		return own, at("write", path, declined(err))
	}
	own.Value, own.Version = value, uint64(stat.Mzxid)
	return own, nil
}

// Swap implements driver.Store: one transaction deletes the old value's node and
// creates the new one's. A register belongs to no session: if that of the link ends before
// the reply is in, the outcome is unknown, and can be read in the next one.
func (s *store) Swap(ctx context.Context, old driver.Entry, value []byte) (entry driver.Entry, err error) {
	dir, err := s.dir(old.Queue)
	if err != nil {
		return driver.Entry{}, err
	}
	err = s.promptly(ctx, func(ctx context.Context) error {
		l, err := insist(ctx, func() (*link, error) {
			l, err := s.link(ctx, false)
			if err == nil && old.ID == "" { // who puts an item can't settle a lost reply in every case
				err = l.sync(ctx)
			}
			return l, resumable(err)
		})
		if err == nil {
			entry, err = s.swap(ctx, l, dir, old, value)
		}
		return resumable(err)
	})
	return entry, err
}

// swap needs no server that has caught up: the transaction is the leader's. Who made it
// fail is seen by what the same session reads after that.
func (s *store) swap(ctx context.Context, l *link, dir string, old driver.Entry, value []byte) (driver.Entry, error) {
	name := newName(valueMarker) + "0000000000"
	ops := s.swapOps(dir, old.ID, name, value)
	var stat *gozk.Stat
	var err error
	for {
		stat, err = l.multi(ctx, ops)
		if errors.Is(err, gozk.ErrNoNode) && old.ID == "" {
			if err = s.makeDir(ctx, l, dir); err == nil {
				continue
			}
		}
		break
	}
	switch {
	case errors.Is(err, gozk.ErrNoNode), errors.Is(err, gozk.ErrNodeExists):
		return l.present(ctx, old.Queue, dir), driver.ErrConflict
	case err != nil:
		return driver.Entry{}, at("write register", dir, declined(err))
	case value == nil:
		return driver.Entry{Queue: old.Queue}, nil
	}
	return driver.Entry{
		Queue: old.Queue, ID: name, Value: value,
		Revision: uint64(stat.Mzxid), Version: uint64(stat.Mzxid), Created: time.UnixMilli(stat.Mtime),
	}, nil
}

// present is what a register has, or the zero Entry if that can't be read.
func (l *link) present(ctx context.Context, q driver.Queue, dir string) driver.Entry {
	entries, err := l.queue(ctx, q, dir, false)
	switch {
	case err != nil:
		return driver.Entry{}
	case len(entries) == 0:
		return driver.Entry{Queue: q}
	}
	return entries[len(entries)-1]
}

func (s *store) swapOps(dir, oldName, newName string, value []byte) []any {
	var ops []any
	present := dir + "/" + presentNode
	if oldName == "" {
		ops = append(ops, &gozk.CreateRequest{Path: present, Acl: s.opts.ACL, Flags: gozk.FlagPersistent})
	} else {
		ops = append(ops, &gozk.DeleteRequest{Path: dir + "/" + oldName, Version: -1})
	}
	if value == nil {
		return append(ops, &gozk.DeleteRequest{Path: present, Version: -1})
	}
	return append(ops,
		&gozk.CreateRequest{Path: dir + "/" + newName, Data: value, Acl: s.opts.ACL, Flags: gozk.FlagPersistent},
		&gozk.SetDataRequest{Path: present, Version: -1})
}

// multi runs a transaction, and returns the error of the operation that failed it, or what
// the last one says of its node.
func (l *link) multi(ctx context.Context, ops []any) (*gozk.Stat, error) {
	return call(ctx, l, func() (stat *gozk.Stat, err error) {
		results, err := l.conn.zk.Multi(ops...)
		for _, r := range results {
			if r.Error != nil && !errors.Is(r.Error, gozk.ErrAPIError) && err == nil {
				err = r.Error
			}
			stat = r.Stat
		}
		return stat, err
	})
}
