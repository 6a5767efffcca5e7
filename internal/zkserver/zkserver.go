package zkserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockctl/lockctl/internal/freeport"
)

// Tick is the servers' tick, the unit of their timeouts. The shortest session
// they grant is two ticks.
const Tick = 200 * time.Millisecond

const config = `tickTime=%d
initLimit=50
syncLimit=25
maxSessionTimeout=60000
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
dataDir=%s
`

// A Server is one ZooKeeper service. Use it from one goroutine at a time.
type Server struct {
	classPath string
	members   []*member
}

// Start runs a service of n members and returns when each of them serves. n is 1
// for a server alone, or an odd number for an ensemble. The extra lines are
// added to the configuration. The service ends with the test.
func Start(t testing.TB, n int, extra ...string) *Server {
	t.Helper()
	s := &Server{classPath: ClassPath(t)}
	var ensemble strings.Builder
	for i := range n {
		client := FreePort(t)
		s.members = append(s.members, &member{dir: t.TempDir(), addr: fmt.Sprintf("127.0.0.1:%d", client)})
		fmt.Fprintf(&ensemble, "server.%d=127.0.0.1:%d:%d;127.0.0.1:%d\n", i+1, FreePort(t), FreePort(t), client)
	}
	for i, m := range s.members {
		text := fmt.Sprintf(config, Tick.Milliseconds(), m.dir) + strings.Join(append(extra, ""), "\n")
		if n > 1 {
			text += ensemble.String()
		} else {
			host, port, _ := strings.Cut(m.addr, ":")
			text += fmt.Sprintf("clientPortAddress=%s\nclientPort=%s\n", host, port)
		}
		write(t, filepath.Join(m.dir, "zoo.cfg"), text)
		write(t, filepath.Join(m.dir, "myid"), strconv.Itoa(i+1))
	}
	t.Cleanup(func() {
		for _, m := range s.members {
			m.stop(t, syscall.SIGKILL)
			if t.Failed() {
				t.Logf("ZooKeeper at %s said:\n%s", m.addr, m.log())
			}
		}
	})
	s.run(t)
	return s
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) run(t testing.TB) {
	t.Helper()
	for _, m := range s.members {
		if m.cmd == nil {
			m.start(t, s.classPath)
		}
	}
	for _, m := range s.members {
		m.await(t)
	}
}

// FreePort returns a port of 127.0.0.1 that nobody listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Addrs are the members' addresses for clients, host:port each.
func (s *Server) Addrs() []string {
	addrs := make([]string, len(s.members))
	for i, m := range s.members {
		addrs[i] = m.addr
	}
	return addrs
}

// Stop shuts all members down and waits until they have ended.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	for _, m := range s.members {
		m.stop(t, syscall.SIGTERM)
	}
}

// Restart stops all members, and starts them on the same ports with the same
// data. It returns when each of them serves.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.run(t)
}

// Kill ends one member as a power failure would.
func (s *Server) Kill(t testing.TB, i int) {
	t.Helper()
	s.members[i].stop(t, syscall.SIGKILL)
}

// Run starts the members that are down and returns when all serve.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.run(t)
}

// Forget takes all data from a member that is down, which will then take itself for as up
// to date as the leader is now: so are members that have lost transactions.
func (s *Server) Forget(t testing.TB, i, leader int) {
	t.Helper()
	dir := filepath.Join(s.members[i].dir, "version-2")
	files, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Base(file) == "snapshot.0" {
			err = errors.Join(err, os.Rename(file, filepath.Join(dir, fmt.Sprintf("snapshot.%x", s.zxidOf(t, leader)))))
			continue
		}
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Pause stops one member's process without ending it; its connections stay open.
func (s *Server) Pause(t testing.TB, i int) {
	t.Helper()
	s.signal(t, i, syscall.SIGSTOP)
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB, i int) {
	t.Helper()
	s.signal(t, i, syscall.SIGCONT)
}

func (s *Server) signal(t testing.TB, i int, sig syscall.Signal) {
	t.Helper()
	if err := s.members[i].cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal ZooKeeper at %s: %v", s.members[i].addr, err)
	}
}

// Leader is the index of the member that leads, or of the one that is alone.
func (s *Server) Leader(t testing.TB) int {
	t.Helper()
	for i := range s.members {
		if mode := s.srvr(t, i)["Mode"]; mode == "leader" || mode == "standalone" {
			return i
		}
	}
	t.Fatal("ZooKeeper has no leader")
	return 0
}

// Zxid is the id of the last transaction; its low 32 bits count the writes.
func (s *Server) Zxid(t testing.TB) uint64 {
	t.Helper()
	return s.zxidOf(t, s.Leader(t))
}

func (s *Server) zxidOf(t testing.TB, i int) uint64 {
	t.Helper()
	text := s.srvr(t, i)["Zxid"]
	zxid, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("zxid %q: %v", text, err)
	}
	return zxid
}

// Mntr returns what one member tells of itself in answer to "mntr".
func (s *Server) Mntr(t testing.TB, i int) map[string]string {
	t.Helper()
	return s.table(t, i, "mntr", "\t")
}

func (s *Server) srvr(t testing.TB, i int) map[string]string {
	t.Helper()
	return s.table(t, i, "srvr", ": ")
}

func (s *Server) table(t testing.TB, i int, letters, separator string) map[string]string {
	t.Helper()
	table := map[string]string{}
	for line := range strings.Lines(s.Word(t, i, letters)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			table[key] = value
		}
	}
	return table
}

// Word returns one member's answer to one of ZooKeeper's four letter words.
func (s *Server) Word(t testing.TB, i int, letters string) string {
	t.Helper()
	answer, err := word(s.members[i].addr, letters)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
