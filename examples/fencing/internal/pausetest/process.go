package pausetest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience bounds everything that must happen; reaching it is a failure.
const patience = 60 * time.Second

// argsVariable makes the test binary the program: its value has the arguments, one
// on each line.
const argsVariable = "FENCING_TEST_ARGS"

// Main is for TestMain. In a process that a test has started it runs the program,
// otherwise the tests.
func Main(m *testing.M, program func()) {
	if args, ok := os.LookupEnv(argsVariable); ok {
		os.Args = append(os.Args[:1], strings.FieldsFunc(args, func(r rune) bool { return r == '\n' })...)
		program()
		return
	}
	goleak.VerifyTestMain(m)
}

// A process runs the program.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	held   chan uint64   // the token, when it holds the lock
	exited chan struct{} // closed when cmd was waited for
	errs   lines
}

// start runs the program with arguments.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), held: make(chan uint64, 1), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), argsVariable+"="+strings.Join(args, "\n"))
	p.cmd.Stderr = &p.errs
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if _, token, ok := strings.Cut(lines.Text(), "held, token "); ok {
				n, _ := strconv.ParseUint(token, 10, 64) // 0 is no token
				p.held <- n
			}
		}
		_ = p.cmd.Wait() // the exit code is looked at
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.exited
	})
	return p
}

// token waits until the program holds the lock.
func (p *process) token(t testing.TB) uint64 {
	t.Helper()
	select {
	case token := <-p.held:
		require.NotZero(t, token)
		return token
	case <-p.exited:
		t.Fatalf("the program has ended: %s", p.errs.String())
	case <-time.After(patience):
		t.Fatalf("the program did not get the lock within %v: %s", patience, p.errs.String())
	}
	return 0
}

func (p *process) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig))
}

// proceed presses Enter, waits for the program's end, and returns its exit code and
// what it had to say.
func (p *process) proceed(t testing.TB) (code int, errs string) {
	t.Helper()
	_, err := io.WriteString(p.stdin, "\n")
	require.NoError(t, err)
	return p.end(t)
}

func (p *process) end(t testing.TB) (code int, errs string) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("the program has not ended within %v: %s", patience, p.errs.String())
	}
	return p.cmd.ProcessState.ExitCode(), p.errs.String()
}

// lines is what a process writes while others read it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
