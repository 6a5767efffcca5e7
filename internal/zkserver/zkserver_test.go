package zkserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/internal/zkserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAlone(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 1)
	require.Equal(t, 0, s.Leader(t))
	require.Equal(t, "standalone", s.Mntr(t, 0)["zk_server_state"])
	before := s.Zxid(t)
	addrs := s.Addrs()
	s.Restart(t)
	require.Equal(t, addrs, s.Addrs())
	require.GreaterOrEqual(t, s.Zxid(t), before)
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	s := zkserver.Start(t, 3)
	require.Len(t, s.Addrs(), 3)
	leader := s.Leader(t)
	s.Kill(t, leader)
	s.Run(t)
	s.Leader(t)
}
