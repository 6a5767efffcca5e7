package redis

import "context"

// A ballot is what is on its way of an attempt that a majority may have granted before all
// have voted: a release must not overtake a vote, which would leave the key there.
type ballot struct {
	ended map[*node]chan struct{} // closed when the node has voted, or was given up
	left  int                     // of the nodes; guarded by redlock.mu
}

// open begins an attempt.
func (r *redlock) open(id string) *ballot {
	b := &ballot{ended: map[*node]chan struct{}{}, left: len(r.nodes)}
	for _, n := range r.nodes {
		b.ended[n] = make(chan struct{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.voting[id] = b
	return b
}

// voted notes that a node has voted.
func (r *redlock) voted(id string, b *ballot, n *node) {
	close(b.ended[n])
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.left--; b.left == 0 {
		delete(r.voting, id)
	}
}

// drop forgets an attempt that nobody will release.
func (r *redlock) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.voting, id)
}

// wait returns when the node has voted.
func (r *redlock) wait(ctx context.Context, id string, n *node) error {
	r.mu.Lock()
	b := r.voting[id]
	r.mu.Unlock()
	if b == nil {
		return nil
	}
	select {
	case <-b.ended[n]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
