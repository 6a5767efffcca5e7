package recipes

import (
	"context"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A relay that retains its lock keeps the place in the queue when nobody of the
// process holds it. A watch of the queue tells when another wants it.

// A relayWatch is a relay's watch of the queue. Its fields are guarded by the
// relay's mutex.
type relayWatch struct {
	session *session
	stop    context.CancelFunc
	timer   *time.Timer
	used    time.Time           // when the lock was last kept
	synced  bool                // it has told of everybody
	lost    bool                // it can't tell
	others  map[string]struct{} // who is in the queue beside the relay
	removed string              // ID of an entry of the relay that somebody removed
}

// keep keeps the place of a hold that is being released, unless it is wanted. It is
// called with r.mu held.
func (r *relay) keep(h *Hold) bool {
	if h.passes >= maxPasses || h.published() {
		return false
	}
	if r.watch == nil || r.watch.session != h.session {
		if !r.follow(h.session) {
			return false
		}
	}
	if r.watch.lost || len(r.watch.others) > 0 || r.watch.removed == h.entry.ID || !h.unregister() {
		return false
	}
	r.watch.used = time.Now()
	r.kept, r.keeps = h.stint, true
	r.holder, r.busy = nil, false
	return true
}

// resume makes a hold of the place that is kept, if there is one. It is called with
// r.mu held.
func (r *relay) resume(ctx context.Context) *Hold {
	if !r.keeps {
		return nil
	}
	h := r.kept.next(ctx, r.lock)
	if h == nil {
		r.giveUp()
		return nil
	}
	r.keeps = false
	r.holder, r.busy = h, true
	return h
}

// giveUp leaves the place that is kept. It is called with r.mu held.
func (r *relay) giveUp() {
	if !r.keeps {
		return
	}
	r.keeps = false
	(&seat{session: r.kept.session, name: r.lock.name, own: r.kept.entry}).abandon()
}

// heed gives up the place that is kept if a notice concerns it.
func (r *relay) heed(n notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keeps && n.concerns(r.kept.entry) {
		r.giveUp()
	}
}

// follow starts to watch the queue. It is called with r.mu held, and reports false
// if the client is closed.
func (r *relay) follow(s *session) bool {
	ctx, stop := context.WithCancel(s.ctx)
	w := &relayWatch{session: s, stop: stop, used: time.Now(), others: map[string]struct{}{}}
	q := r.lock.queue
	scope := driver.Scope{Space: q.Space, Name: q.Name, Raw: q.Raw}
	if !s.client.start(func() {
		_ = s.client.store.Watch(ctx, scope, func(ev driver.Event) { r.hear(w, ev) })
		r.unfollow(w)
	}) {
		stop()
		return false
	}
	if r.watch != nil {
		r.watch.end()
	}
	r.watch = w
	w.timer = time.AfterFunc(r.retain, func() { r.expire(w) })
	s.mu.Lock()
	s.keeping[r] = struct{}{}
	s.mu.Unlock()
	return true
}

func (w *relayWatch) end() {
	w.stop()
	w.timer.Stop()
}

// unfollow is called when a watch has ended: whether another wants the lock can't
// be known any more.
func (r *relay) unfollow(w *relayWatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.end()
	if r.watch == w {
		r.watch = nil
		r.giveUp()
	}
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	if r.watch == nil || r.watch.session != w.session {
		delete(w.session.keeping, r)
	}
}

// expire gives up a lock that was kept for long enough, and ends the watch of one
// that was not used for as long.
func (r *relay) expire(w *relayWatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.retain - time.Since(w.used)
	switch {
	case r.watch != w:
	case r.busy:
		w.timer.Reset(r.retain)
	case left > 0:
		w.timer.Reset(left)
	default:
		r.giveUp()
		w.end() // and unfollow follows
	}
}

// hear takes an event of the watch.
func (r *relay) hear(w *relayWatch, ev driver.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watch != w {
		return
	}
	switch ev.Type {
	case driver.Reset:
		clear(w.others)
		w.synced = false
	case driver.Put:
		if !r.owns(ev.Entry.ID) {
			w.others[ev.Entry.ID] = struct{}{}
			r.giveUp()
		}
	case driver.Delete:
		delete(w.others, ev.Entry.ID)
		if r.owns(ev.Entry.ID) {
			w.removed = ev.Entry.ID
			r.giveUp()
		}
	case driver.Synced:
		w.synced, w.lost = true, false
	case driver.Lost:
		w.synced, w.lost = false, true
		r.giveUp()
	}
}

// owns reports whether the entry is the relay's own.
func (r *relay) owns(id string) bool {
	return r.keeps && r.kept.entry.ID == id || r.holder != nil && r.holder.entry.ID == id
}
