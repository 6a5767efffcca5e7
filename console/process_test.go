package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/recipes"
)

// holdVariable makes the test binary a program that takes a lock: its value is
// the backend's URL, the lock's name and a label.
const holdVariable = "CONSOLE_TEST_HOLD"

func TestMain(m *testing.M) {
	if what := os.Getenv(holdVariable); what != "" {
		if err := hold(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// hold takes a lock, says so, and gives it up when its input ends.
func hold(what string) error {
	words := strings.Fields(what)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, err := etcd.Dial(ctx, words[0], &etcd.Options{Client: recipes.ClientOptions{
		Owner: recipes.Owner{Program: "worker", Host: "worker-7", Label: words[2]},
	}})
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := client.Mutex(words[1], nil)
	if err != nil {
		return err
	}
	return mutex.Do(ctx, func(context.Context, *recipes.Hold) error {
		fmt.Println("held")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
}

// A contender is a process that holds a lock or waits for it.
type contender struct {
	cmd   *exec.Cmd
	stdin io.Closer
	held  chan struct{} // closed when it says so
}

// contend runs a program that takes a lock.
func contend(t *testing.T, url, name, label string) *contender {
	t.Helper()
	p := &contender{cmd: exec.Command(os.Args[0]), held: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), holdVariable+"="+url+" "+name+" "+label)
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if lines.Text() == "held" {
				close(p.held)
			}
		}
	}()
	t.Cleanup(func() {
		p.kill()
		<-read
		_ = p.cmd.Wait() // reports the signal, or that it was waited for
	})
	return p
}

// release makes the process give the lock up and end.
func (p *contender) release(t *testing.T) {
	t.Helper()
	select {
	case <-p.held:
	case <-time.After(patience):
		t.Fatal("the process did not get the lock")
	}
	require.NoError(t, p.stdin.Close())
}

func (p *contender) kill() { _ = p.cmd.Process.Kill() } // it may have ended
