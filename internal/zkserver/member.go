package zkserver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 60 * time.Second // for a Java process on a busy machine, and an election
	stopTimeout  = 10 * time.Second
	wordTimeout  = 2 * time.Second
)

// A member is one server process, or the place for one.
type member struct {
	dir  string
	addr string // for clients

	cmd    *exec.Cmd     // nil while it is down
	exited chan struct{} // closed when cmd was waited for
}

// jars are looked up in the directory that JarsEnv names, and else in Debian's. The netty
// jars serve TLS. In Debian's packages zookeeper.jar names an absolute path for the rest,
// which is why it comes last.
var jars = []string{
	"slf4j-api", "slf4j-simple", "snappy-java", "metrics-core",
	"netty-handler", "netty-transport", "netty-common", "netty-buffer", "netty-codec",
	"netty-resolver", "netty-transport-native-epoll", "netty-transport-native-unix-common",
	"zookeeper-jute", "zookeeper",
}

const jarDir = "/usr/share/java"

// JarsEnv names a directory of jars that come before Debian's, by the same names: tests
// then run on that version of ZooKeeper.
const JarsEnv = "ZOOKEEPER_JARS"

// ClassPath returns what java needs to find ZooKeeper and its client. It skips the test,
// or fails it in CI, if something is missing.
func ClassPath(t testing.TB, more ...string) string {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("CI") != "" {
		missing = t.Fatalf
	}
	path, err := FindClassPath(more...)
	if err != nil {
		missing("%v", err)
	}
	return path
}

// FindClassPath is ClassPath for what is not a test.
func FindClassPath(more ...string) (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("no java: %w", err)
	}
	var paths []string
	for _, name := range append(jars[:len(jars):len(jars)], more...) {
		path, err := findJar(name)
		if err != nil {
			return "", fmt.Errorf("no ZooKeeper: %w", err)
		}
		paths = append(paths, path)
	}
	return strings.Join(paths, string(os.PathListSeparator)), nil
}

func findJar(name string) (string, error) {
	if dir := os.Getenv(JarsEnv); dir != "" {
		path := filepath.Join(dir, name+".jar")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path := filepath.Join(jarDir, name+".jar")
	_, err := os.Stat(path)
	return path, err
}

// start runs the process; it does not wait until it serves.
func (m *member) start(t testing.TB, classPath string) {
	t.Helper()
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own
	// Tests count transactions, and remove empty containers themselves where that is
	// the point: the server's own sweep, once a minute, would be among what they count.
	cmd := exec.Command("java", "-cp", classPath, "-Xmx256m", "-XX:+UseSerialGC",
		"-Dznode.container.checkIntervalMs=86400000",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(m.dir, "zoo.cfg"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = procAttr()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start ZooKeeper: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ends by a signal
		close(exited)
	}()
	m.cmd, m.exited = cmd, exited
}

// stop ends the process and waits for it: by its own shutdown, or at once.
func (m *member) stop(t testing.TB, sig syscall.Signal) {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(syscall.SIGCONT) // in case it is paused
	_ = m.cmd.Process.Signal(sig)             // fails if it has ended by itself
	select {
	case <-m.exited:
	case <-time.After(stopTimeout):
		t.Errorf("ZooKeeper at %s did not end within %v", m.addr, stopTimeout)
		_ = m.cmd.Process.Kill() // the same
		<-m.exited
	}
	m.cmd = nil
}

// await returns when the member serves.
func (m *member) await(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		answer, err := word(m.addr, "srvr")
		if err == nil && strings.Contains(answer, "\nMode: ") {
			return
		}
		select {
		case <-m.exited:
			t.Fatalf("ZooKeeper at %s ended by itself:\n%s", m.addr, m.log())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("ZooKeeper at %s does not serve after %v: %q, %v\n%s", m.addr, startTimeout, answer, err, m.log())
		}
	}
}

func (m *member) logFile() string { return filepath.Join(m.dir, "log") }

// log is the end of what the process has printed.
func (m *member) log() []byte {
	data, err := os.ReadFile(m.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(data, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-40):], []byte("\n"))
}

// word sends one of ZooKeeper's four letter words.
func word(addr, letters string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, wordTimeout)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wordTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, letters); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("%s: %w", letters, err)
	}
	return string(answer), nil
}
