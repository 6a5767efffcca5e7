//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/cluster"
	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/internal/faultlink"
)

// A stage is what one fault acts on, for as long as it lasts.
type stage struct {
	cluster *cluster.Cluster
	crew    *crew
	log     *recorder
	ttl     time.Duration
	rand    *rand.Rand
	undo    []func() error // in reverse order
	acting  sync.WaitGroup
	over    context.Context
	end     context.CancelFunc
}

// A fault is one kind of thing that can go wrong.
type fault struct {
	name string
	// begin has it happen, and says to whom. What undoes it is given to stage.after.
	begin func(ctx context.Context, s *stage) (detail string, err error)
	// least is how long it lasts at least; up to half as long again.
	least func(ttl time.Duration) time.Duration
}

func (s *stage) after(f func() error) { s.undo = append(s.undo, f) }

// heal undoes the fault, but for what it did to the network.
func (s *stage) heal() error {
	var err error
	for i := len(s.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, s.undo[i]())
	}
	return err
}

// every does something again and again while the fault lasts.
func (s *stage) every(least, most time.Duration, f func()) {
	s.acting.Go(func() {
		for {
			timer := time.NewTimer(least + time.Duration(s.rand.Int64N(int64(most-least))))
			select {
			case <-s.over.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			f()
		}
	})
}

func (s *stage) member() int { return s.rand.IntN(cluster.Size) }
func (s *stage) worker() int { return s.rand.IntN(len(s.crew.configs)) }

// holder is a worker that mostly was made to hold a lock for longer than its session
// lasts by itself: what happens to one that holds nothing tells less.
func (s *stage) holder() int { return s.holderFor(s.ttl) }

// holderFor is a worker that mostly was made to hold a lock for so long, and some more.
func (s *stage) holderFor(d time.Duration) int {
	const patience = 2 * time.Second
	i := s.worker()
	if s.rand.IntN(4) == 0 {
		return i
	}
	keeping := s.log.keeping(s.crew.proc(i))
	s.crew.tell(i, fmt.Sprintf("keep %d", (d+patience).Milliseconds()))
	select {
	case <-keeping:
	case <-time.After(patience): // it is not granted anything, with another fault around
	}
	return i
}

// leader is the leader, or any member if there is none at present.
func (s *stage) leader(ctx context.Context) int {
	if i, err := s.cluster.Leader(ctx); err == nil {
		return i
	}
	return s.member()
}

// follower is any member but the leader.
func (s *stage) follower(ctx context.Context) int {
	return (s.leader(ctx) + 1 + s.rand.IntN(cluster.Size-1)) % cluster.Size
}

func short(time.Duration) time.Duration           { return 1500 * time.Millisecond }
func middle(time.Duration) time.Duration          { return 2500 * time.Millisecond }
func pastTTL(ttl time.Duration) time.Duration     { return ttl + time.Second }
func wellPastTTL(ttl time.Duration) time.Duration { return ttl * 3 / 2 }
func memberName(i int) string                     { return fmt.Sprintf("member %d", i+1) }
func workerName(i int) string                     { return fmt.Sprintf("w%d", i+1) }
func pairName(a, b int) string                    { return fmt.Sprintf("members %d and %d", a+1, b+1) }
func oneOf[T any](r *rand.Rand, choices ...T) T   { return choices[r.IntN(len(choices))] }

// faults are all kinds.
func faults() []fault {
	return []fault{
		{"kill-leader", func(ctx context.Context, s *stage) (string, error) { return s.killMember(s.leader(ctx)) }, short},
		{"kill-follower", func(ctx context.Context, s *stage) (string, error) { return s.killMember(s.follower(ctx)) }, short},
		{"pause-leader", func(ctx context.Context, s *stage) (string, error) { return s.pauseMember(s.leader(ctx)) }, middle},
		{"pause-follower", func(ctx context.Context, s *stage) (string, error) { return s.pauseMember(s.follower(ctx)) }, middle},
		{"kill-client", killClient, short},
		{"pause-client", pauseClient, pastTTL},
		{"isolate-leader", isolateLeader, middle},
		{"majority-ring", majorityRing, middle},
		{"isolate-client", isolateClient, pastTTL},
		{"one-way-members", oneWayMembers, middle},
		{"one-way-client", oneWayClient, middle},
		{"late-replies", lateReplies, wellPastTTL},
		{"slow-members", slowMembers, middle},
		{"slow-clients", slowClients, middle},
		{"slow-client", slowClient, middle},
		{"reset", resetLinks, middle},
		{"drop-replies", dropReplies, middle},
		{history.ExpireSession, expireSession, short},
		{"compact", compact, short},
		{"rolling-restart", rollingRestart, short},
		{"full-restart", fullRestart, short},
		{"disk-full", diskFull, pastTTL},
		{"shift-clock", shiftClock, short},
	}
}

func (s *stage) killMember(i int) (string, error) {
	s.after(func() error { return s.cluster.Run(i) })
	return memberName(i), s.cluster.Stop(i, syscall.SIGKILL)
}

func (s *stage) pauseMember(i int) (string, error) {
	s.after(func() error {
		s.log.Add(history.Event{What: history.Woken, Name: memberName(i)})
		return s.cluster.Resume(i)
	})
	return memberName(i), s.cluster.Pause(i)
}

func killClient(_ context.Context, s *stage) (string, error) {
	i := s.holder()
	s.crew.kill(i)
	s.after(func() error { return s.crew.start(i) })
	return workerName(i), nil
}

// pauseClient is where unfenced writes come from: the process goes on where it was.
func pauseClient(_ context.Context, s *stage) (string, error) {
	i := s.holder()
	s.after(func() error { return s.crew.resume(i) })
	return workerName(i), s.crew.pause(i)
}

func isolateLeader(ctx context.Context, s *stage) (string, error) {
	i := s.leader(ctx)
	for other := range cluster.Size {
		if other != i {
			s.cluster.Network.Peers(i, other).Stall(faultlink.Both)
		}
	}
	return memberName(i) + " from the others; clients reach it", nil
}

// majorityRing has each member see a majority, and not all the same.
func majorityRing(ctx context.Context, s *stage) (string, error) {
	a, b := s.leader(ctx), s.follower(ctx)
	if a == b {
		b = (a + 1) % cluster.Size
	}
	s.cluster.Network.Peers(a, b).Stall(faultlink.Both)
	return pairName(a, b) + " from each other", nil
}

func isolateClient(_ context.Context, s *stage) (string, error) {
	i := s.holder()
	s.cluster.Network.OfClient(i).Stall(faultlink.Both)
	return workerName(i), nil
}

func oneWayMembers(ctx context.Context, s *stage) (string, error) {
	i := oneOf(s.rand, s.leader(ctx), s.member())
	hears := s.rand.IntN(2) == 0
	for other := range cluster.Size {
		switch {
		case other == i:
		case hears:
			s.cluster.Network.Silence(i, other)
		default:
			s.cluster.Network.Silence(other, i)
		}
	}
	if hears {
		return memberName(i) + " hears the others, who don't hear it", nil
	}
	return memberName(i) + " does not hear the others, who hear it", nil
}

func oneWayClient(_ context.Context, s *stage) (string, error) {
	i := s.holder()
	dir := oneOf(s.rand, faultlink.Requests, faultlink.Replies)
	s.cluster.Network.OfClient(i).Stall(dir)
	if dir == faultlink.Requests {
		return workerName(i) + " is not heard", nil
	}
	return workerName(i) + " hears nothing", nil
}

// lateReplies holds replies up, then delivers them, and nothing that the client sends
// from then on. So it has proof of being alive that is old: as old as can be, for with
// a quarter of a TTL between renewals and an eighth as the margin, who gets none for
// five eighths has given up by itself. It lasts until proof that counted from its reply
// would be too old as well.
func lateReplies(_ context.Context, s *stage) (string, error) {
	i := s.holderFor(wellPastTTL(s.ttl))
	path := s.cluster.Network.OfClient(i)
	path.Stall(faultlink.Replies)
	s.acting.Go(func() {
		timer := time.NewTimer(s.ttl * 7 / 12)
		defer timer.Stop()
		select {
		case <-s.over.Done():
		case <-timer.C:
			path.Stall(faultlink.Requests)
			path.Release(faultlink.Replies)
		}
	})
	return "of " + workerName(i), nil
}

func (s *stage) slow(p cluster.Path) string {
	delay := time.Duration(20+s.rand.IntN(80)) * time.Millisecond
	jitter := 2 * delay
	p.Delay(delay, jitter)
	return fmt.Sprintf("by %v to %v", delay, delay+jitter)
}

func slowMembers(_ context.Context, s *stage) (string, error) {
	return s.slow(s.cluster.Network.AllPeers()), nil
}

func slowClients(_ context.Context, s *stage) (string, error) {
	return s.slow(s.cluster.Network.AllClients()), nil
}

// slowClient slows one client down, so that the others are faster than it.
func slowClient(_ context.Context, s *stage) (string, error) {
	i := s.worker()
	return workerName(i) + " " + s.slow(s.cluster.Network.OfClient(i)), nil
}

func resetLinks(_ context.Context, s *stage) (string, error) {
	n := s.cluster.Network
	i := s.worker()
	m := s.member()
	path, name := n.OfClient(i), workerName(i)
	switch s.rand.IntN(3) {
	case 0:
		path, name = n.ToMember(m), "clients of "+memberName(m)
	case 1:
		path, name = n.AllPeers(), "members"
	}
	path.Reset()
	s.every(100*time.Millisecond, 800*time.Millisecond, path.Reset)
	return name, nil
}

// dropReplies has requests carried out whose replies are lost.
func dropReplies(_ context.Context, s *stage) (string, error) {
	path := s.cluster.Network.AllClients()
	lose := func() { path.Lose(time.Duration(20+s.rand.IntN(300)) * time.Millisecond) }
	lose()
	s.every(400*time.Millisecond, 1200*time.Millisecond, lose)
	return "of all clients", nil
}

func expireSession(ctx context.Context, s *stage) (string, error) {
	i := s.holder()
	proc := s.crew.proc(i)
	session := s.log.session(proc)
	if session == "" {
		return workerName(i) + " has none", nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s.log.Add(history.Event{Proc: proc, What: history.Expire, ID: session})
	err := s.cluster.Expire(ctx, session)
	if err == nil {
		s.log.Add(history.Event{Proc: proc, What: history.Expired, ID: session})
	}
	return fmt.Sprintf("%s of %s", session, workerName(i)), err
}

func compact(ctx context.Context, s *stage) (string, error) {
	again := func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return s.cluster.Compact(ctx)
	}
	s.every(50*time.Millisecond, 300*time.Millisecond, func() { _ = again() }) // as far as the other faults let it
	return "again and again", again()
}

func rollingRestart(ctx context.Context, s *stage) (string, error) {
	s.acting.Go(func() {
		for i := range cluster.Size {
			_ = s.cluster.Stop(i, syscall.SIGTERM) // it is killed then
			if s.cluster.Run(i) != nil || s.cluster.AwaitHealth(ctx) != nil {
				return // what is wrong shows when faults are over
			}
		}
	})
	return "all members, one after the other", nil
}

func fullRestart(_ context.Context, s *stage) (string, error) {
	var all sync.WaitGroup
	for i := range cluster.Size {
		all.Go(func() { _ = s.cluster.Stop(i, syscall.SIGKILL) })
	}
	all.Wait()
	s.after(func() error {
		var err error
		for i := range cluster.Size {
			err = errors.Join(err, s.cluster.Run(i))
		}
		return err
	})
	return "all members at once", nil
}

func diskFull(_ context.Context, s *stage) (string, error) {
	if err := s.cluster.FillDisk(); err != nil {
		return "", err
	}
	i := s.cluster.Disk
	s.after(func() error {
		if !s.cluster.Running(i) {
			s.log.note("%s ended when its disk was full", memberName(i))
		}
		err := s.cluster.ClearDisk()
		return errors.Join(err, s.cluster.Stop(i, syscall.SIGKILL), s.cluster.Run(i))
	})
	return memberName(i), nil
}

func shiftClock(_ context.Context, s *stage) (string, error) {
	i := s.worker()
	seconds := oneOf(s.rand, -86400, -3600, -5, 5, 3600, 86400)
	s.crew.tell(i, fmt.Sprintf("clock %d", seconds))
	s.after(func() error {
		s.crew.tell(i, "clock 0")
		return nil
	})
	return fmt.Sprintf("of %s by %v", workerName(i), time.Duration(seconds)*time.Second), nil
}
