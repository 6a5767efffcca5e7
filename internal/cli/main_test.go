package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/internal/etcdserver"
	"github.com/lockctl/lockctl/internal/faultlink"
)

// patience bounds every wait of a script, on a busy machine.
const patience = 30 * time.Second

// TestMain makes the test binary lockctl for the scripts, which run it as a
// process of its own, and for tests that give it arguments in the environment.
func TestMain(m *testing.M) {
	if args := os.Getenv("LOCKCTL_TEST_ARGS"); args != "" {
		os.Args = append(os.Args[:1], strings.Fields(args)...)
		withServer()
	}
	testscript.Main(leakless{m}, map[string]func(){"lockctl": withoutServer, "lockctl-dev": withServer})
}

func withoutServer() { os.Exit(Main(context.Background(), FromOS())) }

func withServer() {
	p := FromOS()
	p.StartServer = func(ctx context.Context, o ServerOptions) (Server, error) {
		return etcdserver.Start(ctx, etcdserver.Options{Dir: o.Dir, Listen: o.Listen, LogFile: o.LogFile})
	}
	os.Exit(Main(context.Background(), p))
}

// leakless fails when goroutines are left after all tests.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	code := m.M.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A scriptService is what the scripts run against.
type scriptService struct {
	scheme string
	addr   string
	expire func(t testing.TB, sessionID string)
	// plant puts an entry into a lock's queue behind lockctl's back. It may be nil.
	plant func(t testing.TB, root, name, value string)
	// fixed is the URL of each script's backend, in its directory, where that is not made
	// of the scheme, the address and a root. It may be nil.
	fixed func(dir string, addr string) string
	// env is what the service needs in the environment of the commands.
	env map[string]string
}

// url is a backend's URL with a root for one script, at another address than the
// service's own if it is given.
func (s scriptService) url(addr string, root int64, ttl string) string {
	return fmt.Sprintf("%s://%s/script%d?ttl=%s", s.scheme, addr, root, ttl)
}

// runScripts runs the scripts in a directory, or only those, against the service. Each has a root
// of its own, in LOCKCTL_BACKEND, and a link that it can stall, in $LINK.
func runScripts(t *testing.T, s scriptService, dir string, only ...string) {
	t.Helper()
	var files []string
	for _, name := range only {
		files = append(files, filepath.Join(dir, name+".txtar"))
	}
	if len(files) > 0 {
		dir = ""
	}
	var scripts atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Files:               files,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			link, err := faultlink.New(s.addr)
			if err != nil {
				return err
			}
			env.Defer(link.Close)
			started := processes{}
			env.Defer(started.kill)
			env.Values["link"], env.Values["service"], env.Values["started"] = link, s, started
			root := scripts.Add(1)
			env.Setenv("LOCKCTL_BACKEND", s.url(s.addr, root, "15s"))
			env.Setenv("LINK", s.url(link.Addr(), root, "3s"))
			if s.fixed != nil {
				env.Setenv("LOCKCTL_BACKEND", s.fixed(env.WorkDir, s.addr))
				env.Setenv("LINK", s.fixed(env.WorkDir, link.Addr()))
			}
			for name, value := range s.env {
				env.Setenv(name, value)
			}
			env.Setenv("ADDR", s.addr)
			env.Setenv("ROOT", fmt.Sprintf("/script%d", root))
			for i, port := range freePorts(3) {
				env.Setenv(fmt.Sprintf("PORT%d", i+1), port)
			}
			return nil
		},
		Condition: scriptCondition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": scriptCode, "until": scriptUntil, "file": scriptFile, "dead": scriptDead,
			"start": scriptStart, "signal": scriptSignal, "ended": scriptEnded,
			"stall": scriptStall, "expire": scriptExpire, "plant": scriptPlant, "get": scriptGet, "furnish": scriptFurnish,
		},
	})
}

// code N CMD… runs a command and checks its exit code.
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if args[0] != strconv.Itoa(code) {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// until REGEXP CMD… runs a command again and again until its output matches.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until regexp command…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	poll(ts, "the output of "+strings.Join(args[1:], " "), func() bool {
		_ = ts.Exec(args[1], args[2:]...) // what it writes is looked at
		return want.MatchString(ts.ReadFile("stdout")) != neg
	})
}

// file NAME… waits until the files exist and are not empty.
func scriptFile(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		poll(ts, "file "+name, func() bool {
			info, err := os.Stat(ts.MkAbs(name))
			return err == nil && info.Size() > 0
		})
	}
}

// dead PIDFILE waits until the process is gone, or a zombie.
func scriptDead(ts *testscript.TestScript, neg bool, args []string) {
	pid := strings.TrimSpace(ts.ReadFile(args[0]))
	poll(ts, "the end of process "+pid, func() bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// stall requests|replies|both|none makes the script's link do that.
func scriptStall(ts *testscript.TestScript, neg bool, args []string) {
	link := ts.Value("link").(*faultlink.Link)
	switch args[0] {
	case "requests":
		link.Stall(faultlink.Requests)
	case "replies":
		link.Stall(faultlink.Replies)
	case "both":
		link.Stall(faultlink.Both)
	case "none":
		link.Resume()
	default:
		ts.Fatalf("unknown stall %q", args[0])
	}
}

// expire LOCK ends the session of a lock's holder a session as the
// service does when its TTL has passed.
func scriptExpire(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("service").(scriptService)
	ts.Check(ts.Exec("lockctl", "show", args[0], "-o", "json"))
	var lock objectJSON
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &lock))
	s.expire(failer{ts: ts}, lock.Holders[0].Session)
}

// plant NAME VALUE puts an entry into a lock's queue behind lockctl's back.
func scriptPlant(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("service").(scriptService)
	s.plant(failer{ts: ts}, ts.Getenv("ROOT"), args[0], args[1])
}

// get URL PATTERN reads a page until the pattern is in it: what it shows comes by a
// watch.
func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get url pattern")
	}
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	pattern := regexp.MustCompile(args[1])
	poll(ts, args[1]+" in "+args[0], func() bool {
		response, err := client.Get(args[0])
		ts.Check(err)
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		ts.Check(err)
		return pattern.Match(page)
	})
}

// scriptCondition knows default-free: nothing serves at lockctl's default address.
func scriptCondition(name string) (bool, error) {
	if name != "default-free" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	listener, err := net.Listen("tcp", devAddress)
	if err != nil {
		return false, nil // something does
	}
	return true, listener.Close()
}

// freePorts returns ports that nobody used a moment ago.
func freePorts(n int) (ports []string) {
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err) // no loopback interface: no test can run
		}
		defer func() { _ = listener.Close() }() // all at once, so that they differ
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		ports = append(ports, port)
	}
	return ports
}

// failer fails a script where a testing.TB is asked for.
type failer struct {
	testing.TB
	ts *testscript.TestScript
}

func (f failer) Helper()                           {}
func (f failer) Errorf(format string, args ...any) { f.ts.Fatalf(format, args...) }
func (f failer) FailNow()                          { f.ts.Fatalf("failed") }

func poll(ts *testscript.TestScript, what string, condition func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for !condition() {
		idle(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			ts.Fatalf("waited too long for %s", what)
		}
	}
}
