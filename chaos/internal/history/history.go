//go:build linux

// Package history records what happened in a run: one event for each thing that a
// worker or the nemesis did or learned, as a line of JSON. All processes of the
// machine stamp their events by one clock, which no change of the time of day moves.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the reading of the machine's monotonic clock, the same in all processes.
// It asks the kernel itself, past what a process may have been made to believe.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(ts.Nano())
}

// Wall is the time of day, by the same way.
func Wall() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Unix(ts.Unix())
}

// What says what an event is about.
type What string

// The events of an operation, in their order. A lock, a semaphore, an election and an
// item of a queue are asked for, granted, held and released.
const (
	Called   What = "called"   // is about to ask
	Granted  What = "granted"  // has it; Token says under which token
	Failed   What = "failed"   // was refused, or gave up; Err says why
	Ended    What = "ended"    // learned that it was lost; Err says why
	Changed  What = "changed"  // a writer's hold is a reader's now
	Release  What = "release"  // is about to give it back
	Released What = "released" // gave it back; Err says if that is not certain
)

// The other events.
const (
	Opening What = "opening" // of the fenced register: is about to read under Token
	Opened  What = "opened"  // has read Value; or was refused, with Err
	Writing What = "writing" // is about to write Value under Token
	Wrote   What = "wrote"   // has written; or was refused, with Err

	Asking   What = "asking"   // is about to ask the holder to release it
	Breaking What = "breaking" // is about to remove the entry with Token, of the process ID

	Resetting What = "resetting" // is about to reset a job, whose next tick is ID

	Putting What = "putting" // is about to put the item ID
	Put     What = "put"     // has put it, or with Err perhaps

	Saw What = "saw" // an observer was told of the leader of term Token

	Started What = "started" // the process runs; PID
	Session What = "session" // the process has the session ID
	Stalled What = "stalled" // the process did not run from Since until T
	Keeping What = "keeping" // the process holds what it was granted for long, as it was told
	Stopped What = "stopped" // the process has ended by itself; Err and Left say what was not in order

	Begin   What = "begin"   // the fault Name begins
	End     What = "end"     // the fault is over
	Killed  What = "killed"  // the process was killed, after T
	Paused  What = "paused"  // the process was paused, from Since until T
	Expire  What = "expire"  // the service is told, after T, to end the session that the process has
	Expired What = "expired" // and has confirmed it, before T
	Woken   What = "woken"   // a member goes on after a pause; an etcd leader then ends leases early, see docs/found-bugs.md
	Renewed What = "renewed" // a member that had lost data got that of the others; Err says what differed
	Healed  What = "healed"  // all faults are over, and most members serve
	Served  What = "served"  // after Healed all loops have been served
	Note    What = "note"    // for people
	Wrong   What = "wrong"   // the harness saw a violation itself; Err says which
)

// The kinds of objects.
const (
	Mutex     = "mutex"
	Writer    = "writer" // of a reader/writer lock
	Reader    = "reader" // of the same
	Semaphore = "semaphore"
	Election  = "election"
	Queue     = "queue"
	Limiter   = "limiter"
	Counter   = "counter"
	Once      = "once"
	Shard     = "shard"
	Seized    = "seized"   // a mutex that operators ask for, and break
	Operator  = "operator" // of such a mutex
	Group     = "group"
	View      = "view"  // of a group: who looks at it
	Round     = "round" // of a double barrier
	Barrier   = "barrier"
	Passer    = "passer" // of a barrier: who waits until it is not set
	Latch     = "latch"
	Awaiter   = "awaiter" // of a latch: who waits until it is open
	Job       = "job"
	Register  = "register"
)

// What is done to barriers and latches, as the ID of their events.
const (
	Set       = "set"
	Lift      = "lift"
	CountDown = "count down"
	Remove    = "remove"
)

// ExpireSession is the fault by which the service ends a session that is alive.
const ExpireSession = "expire-session"

// RefusedByFence is the Err of an access to the register under a token that was
// smaller than one seen before.
const RefusedByFence = "stale token"

// An Event is one line of a history.
type Event struct {
	T     time.Duration `json:"t"`              // when, see Now
	Proc  string        `json:"proc,omitempty"` // the process, such as w1.2: the second one of worker w1
	Loop  string        `json:"loop,omitempty"` // who in the process, such as mutex/0
	Op    int64         `json:"op,omitempty"`   // the number of the operation in its process
	What  What          `json:"what"`
	Kind  string        `json:"kind,omitempty"`
	Name  string        `json:"name,omitempty"`
	Token uint64        `json:"token,omitempty"`
	N     int           `json:"n,omitempty"` // permits, tokens of a limiter, what is added, or the attempt at an item
	Value int64         `json:"value,omitempty"`
	ID    string        `json:"id,omitempty"`
	IDs   []string      `json:"ids,omitempty"` // the members that a group was seen to have
	Since time.Duration `json:"since,omitempty"`
	PID   int           `json:"pid,omitempty"`
	Err   string        `json:"err,omitempty"`
	Left  []string      `json:"left,omitempty"`
}

// A Log writes events to one writer, each by one call. All methods may be called at
// the same time.
type Log struct {
	proc string
	mu   sync.Mutex
	w    io.Writer
	err  error
}

// NewLog makes a log of the process called proc.
func NewLog(w io.Writer, proc string) *Log { return &Log{proc: proc, w: w} }

// Add stamps the event, if it has no time yet, and writes it.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.T == 0 {
		e.T = Now()
	}
	if e.Proc == "" {
		e.Proc = l.proc
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.w.Write(append(line, '\n'))
	}
	if l.err == nil {
		l.err = err
	}
}

// Err is the first error of writing.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

const longestLine = 1 << 20

// Read reads events until the end. A last line that is not complete, as a process
// leaves it that is killed, is left out.
func Read(r io.Reader, each func(Event)) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(line) > longestLine {
			return fmt.Errorf("a line of a history has %d bytes", len(line))
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("a line of a history can't be read: %w: %.100q", err, line)
		}
		each(e)
	}
}
