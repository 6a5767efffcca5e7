//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/chaos/internal/worker"
)

// stopTimeout is what a worker may take to release everything and end.
const stopTimeout = 45 * time.Second

// A crew is the workers of a run, which are processes of this program. Its methods may
// be called at the same time, if not for the same worker.
type crew struct {
	self    []string // the command that runs a worker
	configs []worker.Config
	log     *recorder
	stderr  io.Writer

	mu      sync.Mutex
	workers []*hand
}

// A hand is one worker, by its present process.
type hand struct {
	number int // of its processes so far
	proc   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{}
	alive  bool
	paused time.Duration // since when, 0 if it is not
}

func newCrew(self []string, configs []worker.Config, log *recorder, stderr io.Writer) *crew {
	c := &crew{self: self, configs: configs, log: log, stderr: stderr}
	for range configs {
		c.workers = append(c.workers, &hand{})
	}
	return c
}

// start runs a worker that is not there.
func (c *crew) start(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.workers[i]
	if h.alive {
		return nil
	}
	h.number++
	h.proc = fmt.Sprintf("w%d.%d", i+1, h.number)
	config := c.configs[i]
	config.Proc = h.proc
	config.Seed += uint64(i*1000 + h.number)
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	cmd := exec.Command(c.self[0], append(c.self[1:len(c.self):len(c.self)], string(text))...)
	cmd.Stdout, cmd.Stderr = c.stderr, c.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if h.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	proc := h.proc
	go func() {
		defer close(exited)
		err := cmd.Wait()
		var failed *exec.ExitError
		if errors.As(err, &failed) && failed.Exited() { // and was not killed
			c.log.wrong("worker", "%s ended by itself: %v", proc, err)
		}
	}()
	h.cmd, h.exited, h.alive, h.paused = cmd, exited, true, 0
	return nil
}

// kill ends a worker at once.
func (c *crew) kill(i int) {
	c.mu.Lock()
	h := c.workers[i]
	if !h.alive {
		c.mu.Unlock()
		return
	}
	h.alive = false
	c.log.Add(history.Event{Proc: h.proc, What: history.Killed})
	c.wake(h)
	_ = h.cmd.Process.Kill() // it may have ended by itself, which is noticed
	c.mu.Unlock()
	<-h.exited
}

// pause stops a worker's process without ending it.
func (c *crew) pause(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.workers[i]
	if !h.alive || h.paused != 0 {
		return nil
	}
	h.paused = history.Now()
	return h.cmd.Process.Signal(syscall.SIGSTOP)
}

// resume ends a pause.
func (c *crew) resume(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.workers[i]
	if !h.alive || h.paused == 0 {
		return nil
	}
	err := h.cmd.Process.Signal(syscall.SIGCONT)
	c.wake(h)
	return err
}

// wake records that a pause is over.
func (c *crew) wake(h *hand) {
	if h.paused != 0 {
		c.log.Add(history.Event{Proc: h.proc, What: history.Paused, Since: h.paused})
		h.paused = 0
	}
}

// tell writes a command to a worker.
func (c *crew) tell(i int, command string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.workers[i]; h.alive {
		_, _ = io.WriteString(h.stdin, command+"\n") // fails if it has just died
	}
}

// proc is the present process of a worker, "" if it has none.
func (c *crew) proc(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.workers[i]; h.alive {
		return h.proc
	}
	return ""
}

// loops are all loops that run, by process and name.
func (c *crew) loops() []loopKey {
	var keys []loopKey
	for i, config := range c.configs {
		proc := c.proc(i)
		for _, l := range config.Loops {
			for n := range max(1, l.Times) {
				if proc != "" {
					keys = append(keys, loopKey{proc, worker.LoopName(l, n)})
				}
			}
		}
	}
	return keys
}

// stop has all workers end in order, and waits.
func (c *crew) stop() error {
	for i := range c.workers {
		_ = c.resume(i)
		c.tell(i, "stop")
	}
	return c.await(stopTimeout)
}

// await waits until all workers have ended by themselves.
func (c *crew) await(limit time.Duration) error {
	var err error
	deadline := time.After(limit)
	for _, h := range c.workers {
		if !h.alive {
			continue
		}
		select {
		case <-h.exited:
		case <-deadline:
			err = errors.Join(err, fmt.Errorf("%s did not end within %v", h.proc, limit))
			_ = h.cmd.Process.Signal(syscall.SIGQUIT) // it prints what its goroutines do
			<-h.exited
		}
		h.alive = false
	}
	return err
}

// end kills what is left.
func (c *crew) end() {
	for i := range c.workers {
		c.kill(i)
	}
}

// self is this program.
func self() (string, error) { return os.Executable() }
