//go:build unix

package supervise

import "time"

const (
	tellAhead = 16          // what may wait to be told; more is dropped
	tellWait  = time.Second // for what is not told yet when the command has ended
)

// A teller tells in a goroutine of its own, because telling may block: standard error
// is the command's too, which may have filled a pipe that nobody reads.
type teller struct {
	news chan news
	done chan struct{} // closed when all is told
}

type news struct {
	tell func(what string)
	what string
}

func newTeller() *teller {
	t := &teller{make(chan news, tellAhead), make(chan struct{})}
	go func() {
		defer close(t.done)
		for n := range t.news {
			n.tell(n.what)
		}
	}()
	return t
}

// say has something told, and never blocks.
func (t *teller) say(tell func(what string), what string) {
	if tell == nil {
		return
	}
	select {
	case t.news <- news{tell, what}:
	default:
	}
}

// close waits until all is told, for a while. The goroutine ends when what it is
// telling does not block any more.
func (t *teller) close() {
	close(t.news)
	timer := time.NewTimer(tellWait)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
	}
}
