//go:build linux

package vault_test

import (
	"bytes"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/chaos/internal/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFenceAndTwin(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := vault.Serve(listener)
	defer server.Close()
	var recorded bytes.Buffer
	client, err := vault.Dial(socket, "w1.1", history.NewLog(&recorded, "w1.1"))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()

	op := history.Event{Op: 1}
	for _, token := range []uint64{5, 6} {
		value, err := client.Open(op, "r", token)
		require.NoError(t, err)
		require.Zero(t, value)
	}
	require.NoError(t, client.Write(op, "r", 6, 1))
	require.ErrorIs(t, client.Write(op, "r", 5, 1), vault.ErrRefused)
	_, err = client.Open(op, "r", 5)
	require.ErrorIs(t, err, vault.ErrRefused)
	require.Equal(t, vault.Register{Token: 6, Value: 1, Writes: 1, Late: 1, Twin: 1, Lost: 1}, server.Registers()["r"])

	var events []history.Event
	require.NoError(t, history.Read(&recorded, func(e history.Event) { events = append(events, e) }))
	require.Len(t, events, 10)
	require.Equal(t, history.RefusedByFence, events[7].Err)
}
