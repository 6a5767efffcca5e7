package cli

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// processes are what a script has started in the background, by name.
type processes map[string]*process

type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd was waited for
}

// kill ends what is left when a script has ended. What lockctl runs dies with it.
func (ps processes) kill() {
	for _, p := range ps {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
}

// start NAME CMD… runs a command in the background, with its output in the files
// NAME.out and NAME.err.
func scriptStart(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: start name command…")
	}
	name := args[0]
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close()

	cmd := exec.Command(args[1], args[2:]...)
	if path := ts.Getenv("PATH"); cmd.Err != nil { // it is in the script's PATH
		cmd = exec.Command("/usr/bin/env", append([]string{"PATH=" + path}, args[1:]...)...)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), out, errs
	names := []string{"PATH", "HOME", "TMPDIR", "LOCKCTL_BACKEND", "LINK", "WORK"}
	names = slices.AppendSeq(names, maps.Keys(ts.Value("service").(scriptService).env))
	for _, e := range names {
		cmd.Env = append(cmd.Env, e+"="+ts.Getenv(e))
	}
	ts.Check(cmd.Start())
	p := &process{cmd, make(chan struct{})}
	ts.Value("started").(processes)[name] = p
	go func() {
		_ = cmd.Wait() // the exit code is looked at by ended
		close(p.done)
	}()
}

func started(ts *testscript.TestScript, name string) *process {
	p := ts.Value("started").(processes)[name]
	if p == nil {
		ts.Fatalf("no %q was started", name)
	}
	return p
}

// signal NAME SIGNAL sends a signal, such as TERM, to what was started.
func scriptSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig := unix.SignalNum("SIG" + args[1])
	if sig == 0 {
		ts.Fatalf("unknown signal %q", args[1])
	}
	ts.Check(started(ts, args[0]).cmd.Process.Signal(sig))
}

// ended NAME CODE waits until what was started has ended, and checks its exit
// code, -1 if a signal ended it.
func scriptEnded(ts *testscript.TestScript, _ bool, args []string) {
	p := started(ts, args[0])
	poll(ts, "the end of "+args[0], func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if code := strconv.Itoa(p.cmd.ProcessState.ExitCode()); code != args[1] {
		ts.Fatalf("%s: exit code %s, want %s; it said: %s", args[0], code, args[1], ts.ReadFile(args[0]+".err"))
	}
}
