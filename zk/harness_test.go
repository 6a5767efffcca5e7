package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

var limits = recipetest.Limits{CycleCommits: 2, CycleReads: 1, WakeReads: 1, TurnReads: 4}

func TestConformance(t *testing.T) {
	recipetest.Run(t, limits, func(t testing.TB) recipetest.Server { return newHarness(t, 1) })
}

func TestConformanceEnsemble(t *testing.T) {
	recipetest.Run(t, limits, func(t testing.TB) recipetest.Server { return newHarness(t, 3) })
}

// TestConformanceOpen has each client work over a user's connection of its own.
func TestConformanceOpen(t *testing.T) {
	recipetest.Run(t, limits, func(t testing.TB) recipetest.Server {
		h := newHarness(t, 1)
		h.users = true
		return h
	})
}

// harness is a ZooKeeper service for the suite. All traffic goes through links
// that listen in: they count requests and learn the sessions' passwords.
type harness struct {
	*zkserver.Server
	users bool // clients are made by Open, not by Dial
	admin *gozk.Conn
	next  atomic.Int64
	calm  []*faultlink.Link // one for each member

	guarded sync.Once // makes the node that is written under guards

	mu       sync.Mutex
	cost     recipetest.Cost
	writes   int // requests that write
	sessions map[int64]greeting
}

func newHarness(t testing.TB, n int) *harness {
	h := &harness{Server: zkserver.Start(t, n), sessions: map[int64]greeting{}}
	h.admin = connect(t, h.Addrs(), 20*time.Second)
	for _, addr := range h.Addrs() {
		h.calm = append(h.calm, h.link(t, addr))
	}
	return h
}

// connect makes a user's connection.
func connect(t testing.TB, addrs []string, timeout time.Duration) *gozk.Conn {
	t.Helper()
	conn, events, err := gozk.Connect(addrs, timeout, gozk.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the library has ended
			continue
		}
	})
	return conn
}

func (h *harness) link(t testing.TB, addr string) *faultlink.Link {
	t.Helper()
	link, err := faultlink.New(addr)
	require.NoError(t, err)
	t.Cleanup(link.Close)
	type stream struct {
		conn int
		dir  faultlink.Direction
	}
	streams := map[stream]*listener{}
	link.Observe(func(conn int, dir faultlink.Direction, data []byte) { // one call at a time
		s := stream{conn, dir}
		if streams[s] == nil {
			streams[s] = &listener{}
		}
		streams[s].feed(data, func(first bool, packet []byte) { h.count(dir, first, packet) })
	})
	return link
}

// listener cuts one direction of a connection into packets.
type listener struct {
	packets packets
	greeted bool
}

func (l *listener) feed(data []byte, show func(first bool, packet []byte)) {
	l.packets.feed(data, func(packet []byte) {
		show(!l.greeted, packet)
		l.greeted = true
	})
}

func (h *harness) count(dir faultlink.Direction, first bool, packet []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case first && dir == faultlink.Replies:
		if g, ok := readGreeting(packet); ok && g.session != 0 {
			h.sessions[g.session] = g
		}
	case first:
	case dir == faultlink.Replies:
		if int32(binary.BigEndian.Uint32(packet)) == -1 {
			h.cost.Events++
		}
	default:
		switch int32(binary.BigEndian.Uint32(packet[4:])) {
		case 1, 2, 5, 14, 19, -11: // create, delete, setData, multi, createContainer, closeSession
			h.writes++
		case 3, 4, 8, 12: // exists, getData, getChildren, getChildren2
			h.cost.Reads++
		case 9, 11: // sync, ping
			h.cost.Renewals++
		default:
			h.cost.Other++
		}
	}
}

// Cost counts commits by the service's own transaction ids.
func (h *harness) Cost(t testing.TB) recipetest.Cost {
	t.Helper()
	zxid := h.Zxid(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	cost := h.cost
	cost.Commits = int(zxid & math.MaxUint32)
	return cost
}

func (h *harness) Open(t testing.TB, o recipetest.Options) *recipes.Client {
	t.Helper()
	var addrs []string
	for _, link := range h.calm {
		addrs = append(addrs, link.Addr())
	}
	if o.Link != nil {
		addrs = []string{o.Link.(disturbed).Addr()}
	}
	opts := patient(&Options{Root: o.Root, TTL: o.TTL})
	opts.Client.Owner.Label = o.Label
	if h.users {
		c, err := Open(within(t), connect(t, addrs, o.TTL), opts)
		require.NoError(t, err)
		return c
	}
	c, err := Dial(within(t), "zk://"+strings.Join(addrs, ","), opts)
	require.NoError(t, err)
	return c
}

// disturbed is a faultlink.Link as the suite wants it.
type disturbed struct{ *faultlink.Link }

func (d disturbed) StallRequests() { d.Stall(faultlink.Requests) }
func (d disturbed) StallReplies()  { d.Stall(faultlink.Replies) }
func (d disturbed) StallBoth()     { d.Stall(faultlink.Both) }

func (h *harness) Link(t testing.TB) recipetest.Link {
	t.Helper()
	addrs := h.Addrs()
	return disturbed{h.link(t, addrs[int(h.next.Add(1))%len(addrs)])}
}

// Expire opens the same session a second time and closes it.
func (h *harness) Expire(t testing.TB, sessionID string) {
	t.Helper()
	id, err := strconv.ParseUint(strings.TrimPrefix(sessionID, "0x"), 16, 64)
	require.NoError(t, err)
	h.mu.Lock()
	g, ok := h.sessions[int64(id)]
	h.mu.Unlock()
	require.True(t, ok, "session %s was not seen", sessionID)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = insist(ctx, func() (struct{}, error) { // the owner may take the session back in between
		conn, err := net.Dial("tcp", h.Addrs()[0])
		if err == nil {
			defer conn.Close()
			err = endSession(ctx, conn, g)
		}
		return struct{}{}, err
	})
	require.NoError(t, err)
}

func queueDir(root, name string) string {
	return root + "/" + driver.SpaceLock + "/" + driver.Escape(name)
}

func (h *harness) Foreign(t testing.TB, root, name string) {
	t.Helper()
	path := fmt.Sprintf("%s/not-an-entry-%d", queueDir(root, name), h.next.Add(1))
	_, err := h.admin.Create(path, []byte("something else"), gozk.FlagPersistent, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
}

func (h *harness) Reap(t testing.TB, root, name string) {
	t.Helper()
	err := h.admin.Delete(queueDir(root, name), -1)
	if err != nil && !errors.Is(err, gozk.ErrNotEmpty) {
		require.ErrorIs(t, err, gozk.ErrNoNode)
	}
}

func (h *harness) Remove(t testing.TB, root, name string) {
	t.Helper()
	dir := queueDir(root, name)
	_, err := h.admin.Sync(dir)
	require.NoError(t, err)
	children, _, err := h.admin.Children(dir)
	require.NoError(t, err)
	line := contenders(children)
	require.NotEmpty(t, line)
	require.NoError(t, h.admin.Delete(dir+"/"+line[0].name, -1))
}

func (h *harness) Left(t testing.TB, root string) []string {
	t.Helper()
	_, err := h.admin.Sync(root)
	require.NoError(t, err)
	return h.ephemerals(t, root)
}

func (h *harness) ephemerals(t testing.TB, path string) []string {
	t.Helper()
	children, stat, err := h.admin.Children(path)
	if errors.Is(err, gozk.ErrNoNode) {
		return nil
	}
	require.NoError(t, err)
	var left []string
	if stat.EphemeralOwner != 0 && stat.EphemeralOwner != math.MinInt64 { // which is a container's
		left = append(left, path)
	}
	for _, name := range children {
		left = append(left, h.ephemerals(t, path+"/"+name)...)
	}
	return left
}
