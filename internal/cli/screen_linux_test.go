package cli

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/ptytest"
)

// screenText collects what a terminal was sent.
type screenText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screenText) read(pty ptytest.PTY) {
	buf := make([]byte, 4096)
	for {
		n, err := pty.Master.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return // the other side was closed
		}
	}
}

func (s *screenText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestWatchOnTerminal looks at the table as it is drawn.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	url := "etcd://" + server.Addr()
	client, err := etcd.Dial(t.Context(), url, nil)
	require.NoError(t, err)
	defer client.Close()

	pty := ptytest.Open(t)
	pty.Resize(t, 120, 20)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "LOCKCTL_TEST_ARGS=--backend "+url+" watch")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pty.Terminal, pty.Terminal, pty.Terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	var seen screenText
	var reading sync.WaitGroup
	reading.Go(func() { seen.read(pty) })
	shows := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(seen.String(), text) }, patience, 10*time.Millisecond, text)
	}

	shows("0 objects  live")
	mutex, err := client.Mutex("on/screen", nil)
	require.NoError(t, err)
	hold, err := mutex.Lock(t.Context())
	require.NoError(t, err)
	shows("on/screen")
	require.NoError(t, hold.Unlock(t.Context()))
	pty.Type(t, "\x03") // Ctrl-C
	require.NoError(t, cmd.Wait())
	shows(leaveScreen)
	require.NoError(t, pty.Terminal.Close()) // ends the reading
	reading.Wait()
	require.True(t, strings.HasPrefix(seen.String(), enterScreen))
	require.NotContains(t, seen.String(), "\x1b[1m", "NO_COLOR is set")
}
