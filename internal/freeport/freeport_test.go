package freeport_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/freeport"
)

func TestAddr(t *testing.T) {
	t.Parallel()
	addr, err := freeport.Addr()
	require.NoError(t, err)
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
