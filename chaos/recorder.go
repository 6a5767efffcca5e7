//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

// A recorder collects the history of a run: what workers send it, and what the harness
// adds. It writes all to a file and keeps it. What a worker has sent before it is
// killed arrives all the same.
type recorder struct {
	listener net.Listener
	wg       sync.WaitGroup
	changed  chan struct{} // has a value after events were added

	mu       sync.Mutex
	file     *os.File
	out      *bufio.Writer
	events   []history.Event
	served   map[loopKey]time.Duration // the last grant
	grants   map[loopKey]int
	kinds    map[string]int           // grants
	sessions map[string]string        // the last one of each process
	waiting  map[string]chan struct{} // closed when a process keeps what it was granted
	long     time.Duration            // stalls of this length disturb what is measured
	stalled  time.Duration            // the end of the last of them
	problem  error
	failed   bool // something wrong was recorded
}

// A loopKey names a loop of a process.
type loopKey struct{ proc, loop string }

func newRecorder(socket, file string, long time.Duration) (*recorder, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(file)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	r := &recorder{
		listener: listener, file: f, long: long, out: bufio.NewWriter(f), changed: make(chan struct{}, 1),
		served: map[loopKey]time.Duration{}, grants: map[loopKey]int{}, kinds: map[string]int{}, sessions: map[string]string{},
		waiting: map[string]chan struct{}{},
	}
	r.wg.Go(r.accept)
	return r, nil
}

func (r *recorder) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() {
			defer conn.Close()
			if err := history.Read(conn, r.Add); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.problem = err
			}
		})
	}
}

// Add adds an event, stamped now if it has no time.
func (r *recorder) Add(e history.Event) {
	if e.T == 0 {
		e.T = history.Now()
	}
	line, err := json.Marshal(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	if err != nil && r.problem == nil {
		r.problem = err
	}
	r.events = append(r.events, e)
	switch key := (loopKey{e.Proc, e.Loop}); e.What {
	case history.Granted:
		r.served[key] = e.T
		r.grants[key]++
		r.kinds[e.Kind]++
	case history.Keeping:
		if keeping := r.waiting[e.Proc]; keeping != nil {
			close(keeping)
			delete(r.waiting, e.Proc)
		}
	case history.Stalled:
		if e.T-e.Since >= r.long {
			r.stalled = max(r.stalled, e.T)
		}
	case history.Session:
		r.sessions[e.Proc] = e.ID
	case history.Wrong:
		r.failed = true
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// note adds a remark.
func (r *recorder) note(format string, args ...any) {
	r.Add(history.Event{What: history.Note, Name: fmt.Sprintf(format, args...)})
}

// wrong adds a violation that the harness itself saw.
func (r *recorder) wrong(check, format string, args ...any) {
	r.Add(history.Event{What: history.Wrong, Name: check, Err: fmt.Sprintf(format, args...)})
}

// calm is the later one of a moment and the end of the last time for which a worker did
// not run for long. On a machine that is so busy, sessions end without any other fault.
func (r *recorder) calm(since time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(since, r.stalled)
}

// hasFailed reports whether something wrong was seen.
func (r *recorder) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// unserved are those of the loops that were granted nothing since.
func (r *recorder) unserved(loops []loopKey, since time.Duration) []loopKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []loopKey
	for _, l := range loops {
		if r.served[l] <= since {
			left = append(left, l)
		}
	}
	return left
}

// below are those of the loops that were granted less than n times, and the kinds less
// than of times.
func (r *recorder) below(loops []loopKey, n, of int) []loopKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []loopKey
	for kind, grants := range r.kinds {
		if grants < of {
			left = append(left, loopKey{loop: kind})
		}
	}
	for _, l := range loops {
		if r.grants[l] < n {
			left = append(left, l)
		}
	}
	return left
}

// keeping is closed when the process says that it keeps what it was granted.
func (r *recorder) keeping(proc string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[proc] == nil {
		r.waiting[proc] = make(chan struct{})
	}
	return r.waiting[proc]
}

// session is the last session of a process, as far as it was recorded.
func (r *recorder) session(proc string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[proc]
}

// close waits for what was sent and returns the history.
func (r *recorder) close() ([]history.Event, error) {
	_ = r.listener.Close() // it was open
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.out.Flush()
	if r.problem != nil {
		err = r.problem
	}
	_ = r.file.Close() // what was written is flushed
	return r.events, err
}
