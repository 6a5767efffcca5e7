package zk

import "sync"

// A group is goroutines that someone waits for.
type group struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start runs f in a goroutine, unless the group was closed.
func (g *group) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Go(f)
	return true
}

// close has start refuse from now on, so that wait may be called.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// wait returns when all goroutines have ended.
func (g *group) wait() { g.wg.Wait() }
