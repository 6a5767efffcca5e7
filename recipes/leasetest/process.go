package leasetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/internal/wallclock"
	"github.com/lockctl/lockctl/recipes"
)

// processEnv has the URL of the store in a process that the suite has started.
const processEnv = "LEASETEST_STORE"

// An OpenFunc makes a client of the store that a URL of Server.URL names.
type OpenFunc func(ctx context.Context, url string, o Options) (Client, error)

// Main runs the tests of a package that runs the suite, and then looks for goroutines
// that are left. The package's TestMain calls it: the suite starts the test binary again
// for clients in other processes.
func Main(m *testing.M, open OpenFunc) {
	url := os.Getenv(processEnv)
	if url == "" {
		goleak.VerifyTestMain(m)
		return
	}
	p := &process{url: url, open: open}
	if err := p.serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// An order is what the suite has a process do.
type order struct {
	Do    string        // "open", "lock", "unlock" or "count"
	Shift time.Duration // of open: by how much the process's wall clock is ahead of the machine's
	TTL   time.Duration // of open
	Poll  time.Duration // of open
	Name  string        // of the lock
	File  string        // of count: where the number is
	Times int           // of count
}

// A report is how an order went.
type report struct {
	Err   string    // other than a loss
	Lost  bool      // of unlock: the hold was lost
	Clock time.Time // the process's wall clock
	Token uint64    // of lock, 0 if the store has none
}

// A process is one that the suite has started, from within.
type process struct {
	url    string
	open   OpenFunc
	client Client
	hold   Hold // the last one
}

// serve does as it is told until its input ends.
func (p *process) serve(in io.Reader, out io.Writer) error {
	orders, reports := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		r := report{}
		if err := p.do(o); errors.Is(err, recipes.ErrLost) {
			r.Lost = true
		} else if err != nil {
			r.Err = err.Error()
		} else if o.Do == "lock" {
			r.Token, _ = token(p.hold)
		}
		r.Clock = time.Now()
		if err := reports.Encode(r); err != nil {
			return err
		}
	}
	if p.client == nil {
		return nil
	}
	return p.client.Close()
}

func (p *process) do(o order) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	if o.Do == "open" {
		if o.Shift != 0 {
			clock, err := wallclock.Take()
			if err != nil {
				return err
			}
			clock.Shift(o.Shift)
		}
		p.client, err = p.open(ctx, p.url, Options{TTL: o.TTL, Poll: o.Poll})
		return err
	}
	m, err := p.client.Mutex(o.Name, nil)
	if err != nil {
		return err
	}
	switch o.Do {
	case "lock":
		p.hold, err = m.Lock(ctx)
		return err
	case "unlock":
		return p.hold.Unlock(ctx)
	case "count":
		for range o.Times {
			if err := m.Do(ctx, func(_ context.Context, h Hold) error { return count(o.File, h) }); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("unknown order %q", o.Do)
}

// count adds one to the number in a file, which nothing but the lock guards, and writes
// the hold's token beside it.
func count(file string, h Hold) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var n int
	var last uint64
	if _, err := fmt.Sscan(string(data), &n, &last); err != nil {
		return fmt.Errorf("the file has %q: %w", data, err)
	}
	now, ok := token(h)
	if ok && now <= last {
		return fmt.Errorf("token %d after %d", now, last)
	}
	return os.WriteFile(file, fmt.Appendln(nil, n+1, now), 0o600)
}

// A child is a process that the suite has started.
type child struct {
	orders  *json.Encoder
	reports chan report // closed when the process has closed its output
}

// child starts a process with a client, or skips the test if the store is of this
// process only. It ends, successfully, with the test.
func (w *world) child(t testing.TB, open order) *child {
	t.Helper()
	url := w.server.URL()
	if url == "" {
		t.Skip("the store is of one process")
	}
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processEnv+"="+url)
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{json.NewEncoder(in), make(chan report, 1)}
	go func() {
		defer close(c.reports)
		for all := json.NewDecoder(out); ; {
			var r report
			if all.Decode(&r) != nil {
				return
			}
			c.reports <- r
		}
	}()
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		for range c.reports { // until it has closed its output
		}
		require.NoError(t, cmd.Wait(), "the process said: %s", &said)
	})
	open.Do = "open"
	r := c.ask(t, open)
	ahead := time.Until(r.Clock) // which has no monotonic reading
	require.InDelta(t, open.Shift.Seconds(), ahead.Seconds(), patience.Seconds())
	return c
}

// tell gives an order.
func (c *child) tell(t testing.TB, o order) {
	t.Helper()
	require.NoError(t, c.orders.Encode(o))
}

// report waits for the outcome of an order.
func (c *child) report(t testing.TB) report {
	t.Helper()
	select {
	case r, ok := <-c.reports:
		require.True(t, ok, "the process has ended")
		require.Empty(t, r.Err)
		return r
	case <-time.After(4 * patience):
		t.Fatal("the process does not answer")
		return report{}
	}
}

func (c *child) ask(t testing.TB, o order) report {
	t.Helper()
	c.tell(t, o)
	return c.report(t)
}

// testClocks has processes whose wall clocks are an hour ahead and an hour behind wait for
// the lock, get it and hold it: it is as with any other clock.
func testClocks(t *testing.T, w *world) {
	if !wallclock.Supported() {
		t.Skip(wallclock.ErrUnsupported)
	}
	const poll = 50 * time.Millisecond
	for name, shift := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			m := w.mutex(t, w.client(t, Options{TTL: shortTTL, Poll: poll}), name)
			other := w.child(t, order{Shift: shift, TTL: shortTTL, Poll: poll})
			for rounds := 1; !takeTurns(t, m, other, w.prefix+name); rounds++ {
				require.Less(t, rounds, 10, "holds were lost each time")
			}
		})
	}
}

// takeTurns has a client hold a lock, and then a process, each for longer than the TTL,
// while the other waits. It returns false if one of them lost it: that is no mistake on a
// machine that is too busy to renew in time, unless the other got it before.
func takeTurns(t *testing.T, m Mutex, other *child, name string) bool {
	t.Helper()
	h := lock(t, m)
	other.tell(t, order{Do: "lock", Name: name})
	time.Sleep(5 * shortTTL / 4) // what is not renewed expires
	if len(other.reports) > 0 {
		require.ErrorIs(t, context.Cause(h.Context()), recipes.ErrLost, "two holders")
	}
	kept := released(t, h)
	granted := other.report(t)
	if last, ok := token(h); ok {
		require.Greater(t, granted.Token, last)
	}

	next := lockAside(suite.Within(t), m)
	time.Sleep(5 * shortTTL / 4) // the same
	early := false
	select {
	case <-next.done:
		early = true
	default:
	}
	end := other.ask(t, order{Do: "unlock", Name: name})
	if early {
		require.True(t, end.Lost, "two holders")
	}
	require.NoError(t, next.wait(t).err)
	if now, ok := token(next.hold); ok {
		require.Greater(t, now, granted.Token)
	}
	return released(t, next.hold) && kept && !end.Lost
}

// released unlocks a hold, and reports whether it had not been lost.
func released(t *testing.T, h Hold) bool {
	t.Helper()
	err := h.Unlock(suite.Within(t))
	if err != nil {
		require.ErrorIs(t, err, recipes.ErrLost)
	}
	return err == nil
}

// testProcesses has several processes add to a number in a file that is guarded by
// nothing but the lock.
func testProcesses(t *testing.T, w *world) {
	const processes, each = 4, 60
	file := filepath.Join(t.TempDir(), "number")
	require.NoError(t, os.WriteFile(file, []byte("0 0\n"), 0o600))
	var children []*child
	for range processes {
		children = append(children, w.child(t, order{TTL: patience, Poll: 20 * time.Millisecond}))
	}
	for _, c := range children {
		c.tell(t, order{Do: "count", Name: w.prefix + "processes", File: file, Times: each})
	}
	for _, c := range children {
		c.report(t)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	number, _, _ := strings.Cut(string(data), " ")
	require.Equal(t, fmt.Sprint(processes*each), number)
}
