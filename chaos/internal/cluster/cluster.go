//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Size is the number of members.
const Size = 3

const (
	startTimeout = 90 * time.Second // for Java processes on a busy machine, and an election
	askTimeout   = 2 * time.Second
	stopTimeout  = 15 * time.Second
)

// An engine is what is different between services.
type engine interface {
	// command is the process of a member.
	command(i int) *exec.Cmd
	// url is the service for a client of the addresses.
	url(addrs []string) string
	// state asks a member whether it serves, and leads.
	state(ctx context.Context, i int) (leads bool, err error)
	// version asks a member what it is.
	version(ctx context.Context, i int) (string, error)
	// expire ends a session as the service itself would.
	expire(ctx context.Context, session string) error
	// compact forgets the past.
	compact(ctx context.Context) error
	// tidy removes what a member keeps of the past if its data takes more bytes than that.
	tidy(ctx context.Context, i int, most int64) error
	// left is what clients have left behind below a root.
	left(ctx context.Context, root string) ([]string, error)
	close() error
}

// ErrNotHere says that a service has no such thing.
var ErrNotHere = errors.New("this service has no such thing")

// A member is one server process, or the place for one.
type member struct {
	dir     string
	cmd     *exec.Cmd
	exited  chan struct{}
	stopped bool // by SIGSTOP
}

// A Cluster is a service of three members. Its methods may be called at the same time,
// if not for the same member.
type Cluster struct {
	Network *Network
	// Disk is the member whose disk can be filled, or -1.
	Disk int

	engine  engine
	mu      sync.Mutex
	members []*member
}

// Options say what cluster to run.
type Options struct {
	Engine  string // "etcd" or "zookeeper"
	Dir     string // for data and logs
	Clients int    // how many clients get paths of their own
	// Serve is the command that runs a member of etcd, with what follows as its last
	// argument: see ServeEtcd.
	Serve []string
}

// attempts is how often a cluster is started whose ports others have taken.
const attempts = 3

// Start runs a cluster and returns when all of its members serve.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	for attempt := 1; ; attempt++ {
		c, err := o.start(ctx, filepath.Join(o.Dir, fmt.Sprintf("cluster%d", attempt)))
		switch {
		case err == nil:
			return c, nil
		case attempt == attempts || !errors.Is(err, errEnded):
			return nil, err
		}
	}
}

// errEnded says that a member has ended by itself before it served: its port was free
// when it was looked for, and is not any more.
var errEnded = errors.New("a member has ended while the cluster started")

func (o Options) start(ctx context.Context, dir string) (_ *Cluster, err error) {
	c := &Cluster{Network: newNetwork(Size, o.Clients), Disk: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for i := range Size {
		m := &member{dir: filepath.Join(dir, fmt.Sprintf("m%d", i+1))}
		if err = os.MkdirAll(m.dir, 0o700); err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
	}
	last := Size - 1
	if mountDisk(c.members[last].dir) == nil {
		c.Disk = last
	}
	switch o.Engine {
	case "etcd":
		c.engine, err = newEtcd(c, o.Serve)
	case "zookeeper":
		c.engine, err = newZooKeeper(c)
	default:
		err = fmt.Errorf("engine %q is neither etcd nor zookeeper", o.Engine)
	}
	if err != nil {
		return nil, err
	}
	for i := range Size {
		if err = c.Run(i); err != nil {
			return nil, err
		}
	}
	return c, c.awaitStart(ctx)
}

// awaitStart returns when all members serve, or one has ended.
func (c *Cluster) awaitStart(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	for _, m := range c.members {
		exited := m.exited // by now nobody else starts members
		watching.Go(func() {
			select {
			case <-exited:
				cancel(errEnded)
			case <-ctx.Done():
			}
		})
	}
	err := c.AwaitHealth(ctx)
	if errors.Is(context.Cause(ctx), errEnded) {
		return errEnded
	}
	return err
}

// URL is the service as a client is to use it, through its own links.
func (c *Cluster) URL(client int) string { return c.engine.url(c.Network.Client(client)) }

// Run starts a member that is down. It does not wait until it serves.
func (c *Cluster) Run(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[i]
	if m.running() {
		return nil
	}
	log, err := os.OpenFile(m.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := c.engine.command(i)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start member %d: %w", i+1, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ends by a signal
		close(exited)
	}()
	m.cmd, m.exited, m.stopped = cmd, exited, false
	return nil
}

func (m *member) running() bool {
	if m.cmd == nil {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// Running reports whether a member's process is there.
func (c *Cluster) Running(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i].running()
}

// pids are the processes of the members, 0 for one that is down.
func (c *Cluster) pids() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	pids := make([]int, len(c.members))
	for i, m := range c.members {
		if m.running() {
			pids[i] = m.cmd.Process.Pid
		}
	}
	return pids
}

// Stop ends a member's process and waits for it: SIGKILL at once, SIGTERM in order.
func (c *Cluster) Stop(i int, sig syscall.Signal) error {
	c.mu.Lock()
	m := c.members[i]
	running, exited := m.running(), m.exited
	if running {
		_ = m.cmd.Process.Signal(sig)             // it may just have ended
		_ = m.cmd.Process.Signal(syscall.SIGCONT) // in case it is paused
	}
	c.mu.Unlock()
	if !running {
		return nil
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-exited:
		return nil
	case <-timer.C:
		_ = m.cmd.Process.Kill() // the same
		<-exited
		return fmt.Errorf("member %d did not end within %v", i+1, stopTimeout)
	}
}

// Pause stops a member's process without ending it.
func (c *Cluster) Pause(i int) error { return c.signal(i, syscall.SIGSTOP) }

// Resume ends a Pause.
func (c *Cluster) Resume(i int) error { return c.signal(i, syscall.SIGCONT) }

func (c *Cluster) signal(i int, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[i]
	if !m.running() {
		return nil
	}
	return m.cmd.Process.Signal(sig)
}

// Version is what the servers say they are, such as "etcd 3.7.3".
func (c *Cluster) Version(ctx context.Context) (string, error) { return c.engine.version(ctx, 0) }

// Leader is the member that takes itself for the leader and that most agree on, or
// an error if there is none.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	for i := range c.members {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		leads, err := c.engine.state(ask, i)
		cancel()
		if err == nil && leads {
			return i, nil
		}
	}
	return 0, errors.New("there is no leader")
}

// AwaitHealth starts members that are down and returns when all serve and one leads.
func (c *Cluster) AwaitHealth(ctx context.Context) error { return c.await(ctx, Size) }

// AwaitQuorum is AwaitHealth for a majority of the members.
func (c *Cluster) AwaitQuorum(ctx context.Context) error { return c.await(ctx, Size/2+1) }

func (c *Cluster) await(ctx context.Context, members int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		sick := c.sick(ctx, members)
		if sick == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster does not serve after %v: %w", startTimeout, sick)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// sick says why less than so many members serve, or not exactly one leads.
func (c *Cluster) sick(ctx context.Context, members int) error {
	type answer struct {
		leads bool
		err   error
	}
	answers := make([]answer, len(c.members))
	var all sync.WaitGroup
	for i := range c.members {
		all.Go(func() {
			a := &answers[i]
			if a.err = c.Run(i); a.err == nil {
				ask, cancel := context.WithTimeout(ctx, askTimeout)
				defer cancel()
				a.leads, a.err = c.engine.state(ask, i)
			}
		})
	}
	all.Wait()
	serving, leaders := 0, 0
	var err error
	for i, a := range answers {
		if a.err != nil {
			err = errors.Join(err, fmt.Errorf("member %d: %w", i+1, a.err))
			continue
		}
		serving++
		if a.leads {
			leaders++
		}
	}
	if serving >= members && leaders == 1 {
		return nil
	}
	return errors.Join(err, fmt.Errorf("%d members serve, %d of them lead", serving, leaders))
}

// Expire ends a session as the service itself would.
func (c *Cluster) Expire(ctx context.Context, session string) error {
	return c.engine.expire(ctx, session)
}

// Compact has the service forget the past. It returns ErrNotHere if it has none.
func (c *Cluster) Compact(ctx context.Context) error { return c.engine.compact(ctx) }

// Tidy has members remove what they keep of the past, where that takes much of a small disk.
func (c *Cluster) Tidy(ctx context.Context) error {
	var err error
	for i := range Size {
		err = errors.Join(err, c.engine.tidy(ctx, i, tidyFrom))
	}
	return err
}

// Left is what clients have left behind below the root: entries, sessions and items.
func (c *Cluster) Left(ctx context.Context, root string) ([]string, error) {
	return c.engine.left(ctx, root)
}

// Close ends everything.
func (c *Cluster) Close() error {
	var err error
	for i := range c.members {
		err = errors.Join(err, c.Stop(i, syscall.SIGKILL))
	}
	if c.engine != nil {
		err = errors.Join(err, c.engine.close())
	}
	c.Network.close()
	if c.Disk >= 0 {
		err = errors.Join(err, syscall.Unmount(c.members[c.Disk].dir, 0))
	}
	return err
}

// Logs is the end of what each member has printed.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	for i, m := range c.members {
		data, err := os.ReadFile(m.dir + ".log")
		if err != nil {
			continue
		}
		all := strings.Split(strings.TrimSpace(string(data)), "\n")
		fmt.Fprintf(&b, "member %d:\n%s\n", i+1, strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
	return b.String()
}
