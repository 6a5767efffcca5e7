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

// TestBreakAtTerminal types the lock's name, wrong at first, after another holder
// has come in between, and in the end right.
func TestBreakAtTerminal(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	url := "etcd://" + server.Addr()
	client, err := etcd.Dial(t.Context(), url, nil)
	require.NoError(t, err)
	defer client.Close()
	mutex, err := client.Mutex("job", nil)
	require.NoError(t, err)
	hold, err := mutex.Lock(t.Context())
	require.NoError(t, err)

	pty := ptytest.Open(t)
	var seen screenText
	var reading sync.WaitGroup
	reading.Go(func() { seen.read(pty) })
	prompts := 0
	breakJob := func(answer string, meanwhile func()) int {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "LOCKCTL_TEST_ARGS=--backend "+url+" break job --reason hangs")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = pty.Terminal, pty.Terminal, pty.Terminal
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, cmd.Start())
		prompts++
		require.Eventually(t, func() bool {
			return strings.Count(seen.String(), "Type the name of the lock to break it (job): ") == prompts
		}, patience, 10*time.Millisecond)
		meanwhile()
		pty.Type(t, answer)
		_ = cmd.Wait() // the exit code is looked at
		return cmd.ProcessState.ExitCode()
	}

	require.Equal(t, exitNotAcquired, breakJob("jobs\n", func() {}))
	require.NoError(t, hold.Context().Err())
	require.Equal(t, exitNotAcquired, breakJob("job\n", func() {
		require.NoError(t, hold.Unlock(t.Context()))
		hold, err = mutex.Lock(t.Context())
		require.NoError(t, err)
	}))
	require.NoError(t, hold.Context().Err(), "it was not the one that was shown")
	require.Equal(t, exitSignal+int(syscall.SIGINT), breakJob("\x03", func() {}))
	require.NoError(t, hold.Context().Err())
	require.Equal(t, exitOK, breakJob("job\n", func() {}))
	<-hold.Context().Done()

	require.NoError(t, pty.Terminal.Close()) // ends the reading
	reading.Wait()
	require.Contains(t, seen.String(), `lock "job" has changed hands; nothing was done`)
	require.Contains(t, seen.String(), `holds lock "job", queued since`)
}
