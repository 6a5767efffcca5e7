//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/lockctl/lockctl/internal/etcdserver"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/freeport"
)

// walSegment is the size of etcd's log files. It is small, so that a disk that is
// full is noticed soon, and so that files change while things go wrong.
const walSegment = 256 << 10

// etcdMember says what member to run.
type etcdMember struct {
	Dir, Name, Listen, ListenPeer string
	Members                       map[string]string
}

// ServeEtcd runs a member of etcd until it gets SIGTERM.
func ServeEtcd(text string) error {
	var m etcdMember
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	wal.SegmentSizeBytes = walSegment
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := etcdserver.Start(ctx, etcdserver.Options{
		Dir: m.Dir, Name: m.Name, Members: m.Members, Listen: m.Listen, ListenPeer: m.ListenPeer, LogFile: "stderr",
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		server.Close()
		return nil
	case err := <-server.Err():
		return err
	}
}

type etcdEngine struct {
	serve   []string
	members []etcdMember
	admin   *clientv3.Client
}

func newEtcd(c *Cluster, serve []string) (engine, error) {
	e := &etcdEngine{serve: serve}
	public := map[string]string{}
	var addrs []string
	for i := range Size {
		client, err := freeport.Addr()
		if err != nil {
			return nil, err
		}
		peer, err := freeport.Addr()
		if err != nil {
			return nil, err
		}
		door, err := listen("127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		for from := range Size {
			if from != i {
				c.Network.peers[from][i] = []*faultlink.Link{faultlink.Over(peer)}
			}
		}
		if err := c.Network.addClients(client); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("m%d", i+1)
		public[name] = door.Addr().String()
		addrs = append(addrs, client)
		e.members = append(e.members, etcdMember{
			Dir: filepath.Join(c.members[i].dir, "data"), Name: name, Listen: client, ListenPeer: peer, Members: public,
		})
		c.Network.door(door, func(conn net.Conn) (int, bool) { return owner(conn, c.pids()) }, i)
	}
	var err error
	e.admin, err = clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: askTimeout, Logger: zap.NewNop()})
	return e, err
}

func (e *etcdEngine) command(i int) *exec.Cmd {
	text, err := json.Marshal(e.members[i])
	if err != nil {
		panic(err) // of strings
	}
	args := append(e.serve[1:len(e.serve):len(e.serve)], string(text))
	cmd := exec.Command(e.serve[0], args...)
	cmd.Env = os.Environ()
	return cmd
}

func (e *etcdEngine) url(addrs []string) string { return "etcd://" + strings.Join(addrs, ",") }

func (e *etcdEngine) state(ctx context.Context, i int) (bool, error) {
	status, err := e.admin.Status(ctx, e.members[i].Listen)
	switch {
	case err != nil:
		return false, err
	case status.Leader == 0:
		return false, errors.New("it knows no leader")
	}
	return status.Leader == status.Header.MemberId, nil
}

func (e *etcdEngine) version(ctx context.Context, i int) (string, error) {
	status, err := e.admin.Status(ctx, e.members[i].Listen)
	if err != nil {
		return "", err
	}
	return "etcd " + status.Version, nil
}

func (e *etcdEngine) expire(ctx context.Context, session string) error {
	id, err := strconv.ParseInt(session, 16, 64)
	if err != nil {
		return err
	}
	_, err = e.admin.Revoke(ctx, clientv3.LeaseID(id))
	return err
}

func (e *etcdEngine) compact(ctx context.Context) error {
	got, err := e.admin.Get(ctx, "compaction")
	if err != nil {
		return err
	}
	_, err = e.admin.Compact(ctx, got.Header.Revision, clientv3.WithCompactPhysical())
	return err
}

func (e *etcdEngine) tidy(context.Context, int, int64) error { return nil } // it does so by itself

// left: everything that is bound to a lease, items, and the leases.
func (e *etcdEngine) left(ctx context.Context, root string) ([]string, error) {
	keys, err := e.admin.Get(ctx, root+"/", clientv3.WithPrefix()) // with keys only, leases are left out
	if err != nil {
		return nil, err
	}
	var left []string
	for _, kv := range keys.Kvs {
		if key := string(kv.Key); kv.Lease != 0 || strings.HasPrefix(key, root+"/item/") {
			left = append(left, key)
		}
	}
	leases, err := e.admin.Leases(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range leases.Leases {
		left = append(left, fmt.Sprintf("lease %x", int64(l.ID)))
	}
	return left, nil
}

func (e *etcdEngine) close() error { return e.admin.Close() }
