package zk

import "sync"

// A gate lets calls in until it is shut, and tells when those inside have left.
type gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // nil until the gate is shut; closed when nobody is inside any more
}

// enter reports whether the caller is inside, and so has to leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
	}
}

// shut lets nobody in from now on. It may be called again.
func (g *gate) shut() (empty <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil {
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}
