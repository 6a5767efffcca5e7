package etcd

import (
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/recipes/driver"
)

// handle is what the engine remembers of an entry.
type handle struct {
	key     string
	created int64
	// unsettled says that a request to make the key may still be on its way.
	unsettled bool
	// line has the keys ahead as of the revision created, if all of them were read.
	line     []string
	complete bool
	clear    bool // the queue was long once and is short again: its tail can go
}

// prefix is where a queue's keys begin.
func (s *store) prefix(q driver.Queue) string {
	if q.Raw != "" {
		return q.Raw + "/"
	}
	return s.root + "/" + q.Space + "/" + driver.Escape(q.Name) + "/"
}

// tail is the key that tells of a long queue who was the last to enter it.
func (s *store) tail(q driver.Queue) string {
	return s.root + "/tail/" + q.Space + "/" + driver.Escape(q.Name)
}

// reach is the shortest prefix that covers a scope.
func (s *store) reach(scope driver.Scope) string {
	switch {
	case scope.Raw != "" || !scope.Prefix:
		return s.prefix(driver.Queue{Space: scope.Space, Name: scope.Name, Raw: scope.Raw})
	case scope.Space == "":
		return s.root + "/"
	case strings.Trim(scope.Name, ".") == "": // not a prefix of longer names once escaped
		return s.root + "/" + scope.Space + "/"
	default:
		return s.root + "/" + scope.Space + "/" + driver.Escape(scope.Name)
	}
}

// queue is the queue that a key in scope belongs to.
func (s *store) queue(key string, scope driver.Scope) (driver.Queue, bool) {
	if scope.Raw != "" {
		return driver.Queue{Raw: scope.Raw}, true
	}
	rest, ok := strings.CutPrefix(key, s.root+"/")
	space, rest, below := strings.Cut(rest, "/")
	element, _, _ := strings.Cut(rest, "/")
	name, err := driver.Unescape(element)
	if !ok || !below || err != nil {
		return driver.Queue{}, false
	}
	q := driver.Queue{Space: space, Name: name}
	return q, scope.Has(q)
}

// entry reads a key of the queue. Keys that are not an entry's are foreign:
// those further down, those without a lease that are not a register's, and those whose last element is not
// of the form that we, or etcd's own recipes, give to entries.
func (s *store) entry(kv *mvccpb.KeyValue, q driver.Queue) (driver.Entry, bool) {
	key := string(kv.Key)
	id, ok := strings.CutPrefix(key, s.prefix(q))
	entry := driver.Entry{
		Queue: q, ID: id, Revision: uint64(kv.CreateRevision), Version: uint64(kv.ModRevision),
		Value: kv.Value, Handle: &handle{key: key, created: kv.CreateRevision},
	}
	switch {
	case !ok:
		return entry, false
	case id == registerID && kv.Lease == 0:
		entry.Revision = entry.Version
		return entry, true
	}
	entry.Session = sessionID(clientv3.LeaseID(kv.Lease))
	return entry, kv.Lease != 0 && isID(id)
}

// isID reports whether a key's last element is an entry's: hexadecimal digits,
// with hyphens in between for ours.
func isID(id string) bool {
	return id != "" && strings.Trim(id, "0123456789abcdef-") == "" && id[0] != '-'
}

func sessionID(lease clientv3.LeaseID) string { return fmt.Sprintf("%x", int64(lease)) }
