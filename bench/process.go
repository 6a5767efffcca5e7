package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// endTimeout is how long a process may take to end when its input has ended.
const endTimeout = 15 * time.Second

// A process is a child that is told what to do by lines on its standard input,
// answers by lines, and ends when its input does.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // closed when the output ends
	stderr tail
}

// startProcess runs a child. Its owner calls end.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, lines: make(chan string)}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin, cmd.Stderr = stdin, &p.stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		r := bufio.NewReader(stdout)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			p.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return p, nil
}

// say writes a line to the child.
func (p *process) say(line string) error {
	_, err := io.WriteString(p.stdin, line+"\n")
	return err
}

// line is the child's next line.
func (p *process) line(timeout time.Duration) (string, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("%s ended by itself: %s", p.cmd.Args[0], p.stderr.String())
		}
		return line, nil
	case <-timer.C:
		return "", fmt.Errorf("%s did not answer within %v: %s", p.cmd.Args[0], timeout, p.stderr.String())
	}
}

// end ends the child's input and waits for the child, which is killed if it does
// not end by itself.
func (p *process) end() error {
	_ = p.stdin.Close() // fails if the child is gone, which Wait tells
	killed := false
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	for open := true; open; {
		select {
		case _, open = <-p.lines: // what it still says is of no use
		case <-timer.C:
			killed = true
			_ = p.cmd.Process.Kill() // fails if it has just ended
		}
	}
	err := p.cmd.Wait()
	if killed {
		err = errors.Join(err, fmt.Errorf("did not end within %v", endTimeout))
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", p.cmd.Args[0], err, p.stderr.String())
	}
	return nil
}

// interrupt is end for a child that takes no notice of its input.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // fails if the child is gone, which Wait tells
	return p.end()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > tailSize {
		t.data = bytes.Clone(t.data[len(t.data)-tailSize:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.data))
}
