//go:build linux

package cluster

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOwner(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }() // it was open
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	index, ok := owner(conn, []int{0, 1, os.Getpid()})
	require.True(t, ok)
	require.Equal(t, 2, index)
	_, ok = owner(conn, []int{1})
	require.False(t, ok)
	require.NoError(t, client.Close())
	_, ok = owner(conn, []int{os.Getpid()})
	require.False(t, ok)
}
