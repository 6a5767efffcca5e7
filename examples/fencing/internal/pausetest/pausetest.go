// Package pausetest has former holders of a lock write: a real process that was
// stopped for longer than its lock lasts, and one whose request is late.
package pausetest

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/examples/fencing/internal/demo"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
)

// A Resource is what is written under the lock, by the program and by the test.
type Resource struct {
	Backend string   // of the lock, its URL without parameters
	Lock    string   // its name
	Args    []string // for the program, so that it writes to the same resource

	// Write writes as the program does. Read returns what is there, whoever asks.
	Write func(ctx context.Context, hold *recipes.Hold, value string) error
	Read  func() string
	// Enter shows the resource that the hold has begun, and writes nothing. It is nil
	// where the resource knows.
	Enter func(ctx context.Context, hold *recipes.Hold) error

	Refused error // what former holders get
}

// Etcd starts an etcd and returns its URL as a backend.
func Etcd(t testing.TB) (server *etcdtest.Server, backend string) {
	t.Helper()
	server = etcdtest.Start(t)
	return server, "etcd://" + server.Addr()
}

// ZooKeeper starts a ZooKeeper and returns its URL as a backend.
func ZooKeeper(t testing.TB) (server *zkserver.Server, backend string) {
	t.Helper()
	server = zkserver.Start(t, 1)
	return server, "zk://" + strings.Join(server.Addrs(), ",")
}

const (
	// TTL is for the program, which is to lose the lock.
	TTL = 2 * time.Second
	// calmTTL is for who is not to lose it, on a busy machine.
	calmTTL = 30 * time.Second
)

// Expiring is a backend's URL with TTL.
func Expiring(backend string) string { return backend + "?ttl=" + TTL.String() }

// PausedHolder stops a process that holds the lock until another has got it, and
// lets it go on. Its write must be refused: after the other has written, and also if
// it has only begun.
func PausedHolder(t *testing.T, r Resource) {
	t.Run("Written", func(t *testing.T) {
		pausedHolder(t, r, func(t *testing.T, next *recipes.Hold) string {
			require.NoError(t, r.Write(within(t), next, "of the next"))
			return "of the next"
		})
	})
	t.Run("Begun", func(t *testing.T) {
		pausedHolder(t, r, func(t *testing.T, next *recipes.Hold) string {
			if r.Enter != nil {
				require.NoError(t, r.Enter(within(t), next))
			}
			return "of an earlier one"
		})
	})
}

// pausedHolder has the next holder do something, which returns what is written then.
func pausedHolder(t *testing.T, r Resource, do func(t *testing.T, next *recipes.Hold) string) {
	client := r.dial(t)
	earlier := r.lock(t, client)
	require.NoError(t, r.Write(within(t), earlier, "of an earlier one"))
	require.NoError(t, earlier.Unlock(within(t)))

	former := start(t, append(r.Args, "-lock", r.Lock, "-wait", "of the former")...)
	token := former.token(t)
	former.signal(t, syscall.SIGSTOP)
	next := r.lock(t, client) // when the former one's TTL has passed
	require.Greater(t, next.Token(), token)
	there := do(t, next)

	former.signal(t, syscall.SIGCONT)
	code, errs := former.proceed(t)
	require.Equal(t, 1, code)
	require.Contains(t, errs, r.Refused.Error())
	require.Contains(t, errs, "lost", "it learns that it has lost the lock as well")
	require.Equal(t, there, r.Read())

	require.NoError(t, next.Context().Err())
	require.NoError(t, r.Write(within(t), next, "of the next"), "the holder itself")
	require.NoError(t, r.Write(within(t), next, "of the next, again"), "with an equal token")
	require.Equal(t, "of the next, again", r.Read())
	require.NoError(t, next.Unlock(within(t)))
}

// LateRequest has a holder write through a link that holds its request back. The
// holder gives up and unlocks, as it should, and the request arrives when the next
// holder has written. It returns how the write ended.
func LateRequest(t *testing.T, r Resource, link *faultlink.Link, write func(ctx context.Context, hold *recipes.Hold, value string) error) error {
	t.Helper()
	client := r.dial(t)
	former := r.lock(t, client)
	require.NoError(t, write(within(t), former, "of the former"), "in time")
	link.Stall(faultlink.Requests)
	late := make(chan error, 1)
	go func() { late <- write(within(t), former, "of the former, late") }()
	eventually(t, "the request to be on its way", func() bool { return link.Waiting() > 0 })
	require.NoError(t, former.Unlock(within(t)))

	next := r.lock(t, client)
	require.NoError(t, r.Write(within(t), next, "of the next"))
	link.Resume()
	err := <-late
	require.NoError(t, next.Unlock(within(t)))
	return err
}

// Through returns a link to a server that the test can stall.
func Through(t *testing.T, addr string) *faultlink.Link {
	t.Helper()
	link, err := faultlink.New(addr)
	require.NoError(t, err)
	t.Cleanup(link.Close)
	return link
}

// Rejected runs the program with arguments that it does not accept.
func Rejected(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	got, errs := start(t, args...).end(t)
	require.Contains(t, errs, says)
	require.Equal(t, code, got, errs)
}

func (r Resource) dial(t *testing.T) *recipes.Client {
	t.Helper()
	client, err := demo.Dial(within(t), r.Backend+"?ttl="+calmTTL.String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func (r Resource) lock(t *testing.T, client *recipes.Client) *recipes.Hold {
	t.Helper()
	mutex, err := client.Mutex(r.Lock, nil)
	require.NoError(t, err)
	hold, err := mutex.Lock(within(t))
	require.NoError(t, err)
	return hold
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // between looks; nothing depends on how long
	}
}
