package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// A group is the scenarios on one service.
type group struct {
	name, title string
	nodes       int
	start       func(ctx context.Context, w *workspace, nodes int) (service, error)
	scenarios   []scenario
}

// A scenario is something that several contenders can do.
type scenario struct {
	name, title string
	operation   string // what is timed
	clients     int
	contenders  []contender
	goals       []report.Goal
}

// groups are all scenarios, on services of the given sizes.
func groups(nodes []int) []group {
	var all []group
	for _, n := range nodes {
		suffix, title := "", ""
		if n > 1 {
			suffix, title = fmt.Sprint(n), fmt.Sprintf(", %d nodes", n)
		}
		onEtcd, onZK := etcdScenarios(), zkScenarios()
		if n == 1 { // it is the client, and one server, that have many of something
			onEtcd, onZK = append(onEtcd, etcdScale()...), append(onZK, zkScale()...)
		}
		all = append(all,
			group{"etcd" + suffix, "etcd" + title, n, startEtcd, onEtcd},
			group{"zookeeper" + suffix, "ZooKeeper" + title, n, startZK, onZK},
		)
	}
	return append(all, storeGroups()...)
}

func names(nodes []int) []string {
	var all []string
	for _, g := range groups(nodes) {
		for _, s := range g.scenarios {
			all = append(all, g.name+"/"+s.name)
		}
	}
	return all
}

// The contenders' names, where goals speak of them.
const (
	ours          = "lockctl"
	etcdMutex     = "concurrency.Mutex"
	rawPutDelete  = "raw put + delete"
	rawCommitWake = "one commit + one watch event"
	etcdctl       = "etcdctl lock NAME true"
	etcdElection  = "concurrency.Election"
	curatorLatch  = "Curator LeaderLatch"

	oursHoldingFew = "lockctl, holding 10"
	oursFewWaiting = "lockctl, 10 in line"
)

// Why goals are missed, where they are.
const (
	whyCycle = "to enter is a transaction that reads the queue too, which the service takes longer for than for a put; and each request " +
		"runs in a goroutine of its own, so that the caller returns when its context ends"
	whyHandOff2 = "a turn costs two commits, the release and the entry of who will be next, which the service mostly flushes one after the " +
		"other; the floor has one"
	whyHandOff16 = "a turn costs two commits, as the peer's, and a fifth of the peer's time is about what those take by themselves, or less"
	whyHandOff64 = "with so many clients both are busy with the same two commits, a watch and a read; the peer's wait of up to 100 ms " +
		"for an event hides behind the other clients' turns"
	whyCommand = "lockctl links the client libraries of all systems that can keep locks, which set themselves up at each start, and asks for " +
		"the session's end after the release was confirmed, so that it can tell of a lock that somebody else had removed: a commit more"
	whyZKCycle   = "both are two writes, one after the other; the listing that goes with the first has a reply that is waited for"
	whyZKHandOff = "the fastest peer sends the same requests but one: who enters behind others also asks for its own node, whose " +
		"czxid is the fencing token, which the peer does not have"
	whyZKElection = "a leader shows that it leads, and its term, by a write of its own, which the peer does not do"
)

func etcdScenarios() []scenario {
	lockctl := contender{ours, report.Ours, crewOf(lockctlOnEtcd)}
	stock := contender{etcdMutex, report.Peer, crewOf(concurrencyMutex)}
	floor := contender{rawPutDelete, report.Floor, crewOf(putAndDelete)}
	signal := contender{rawCommitWake, report.Floor, openSignals}
	return []scenario{
		{
			"cycle", "one client locks and unlocks", "cycle", 1, []contender{lockctl, stock, floor},
			[]report.Goal{report.Costs(report.Count{What: "commits", Each: 2}, report.Count{What: "reads", Each: 0}),
				report.AtMost(1.1, rawPutDelete).Because(whyCycle)},
		},
		{
			"handoff-2", "two clients take turns", "hand-off", 2, []contender{lockctl, stock, signal},
			[]report.Goal{report.AtMost(1.5, rawCommitWake).Because(whyHandOff2), report.Faster(30, etcdMutex).Because(whyHandOff2)},
		},
		{
			"handoff-16", "16 clients take turns", "hand-off", 16, []contender{lockctl, stock},
			[]report.Goal{report.Faster(5, etcdMutex).Because(whyHandOff16)},
		},
		{
			"handoff-64", "64 clients take turns", "hand-off", 64, []contender{lockctl, stock},
			[]report.Goal{report.Faster(1.5, etcdMutex).Because(whyHandOff64)},
		},
		{
			"inside-64", "64 goroutines of one process use one lock; of the peer, 64 sessions", "turn", 64,
			[]contender{{ours, report.Ours, lockctlInside}, stock},
			[]report.Goal{report.Faster(10, etcdMutex)},
		},
		{
			"retained", "a process locks again what nobody else wants, and retains it", "cycle", 1,
			[]contender{{ours, report.Ours, lockctlRetained}},
			[]report.Goal{report.Within(2 * time.Microsecond),
				report.Costs(report.Count{What: "commits", Each: 0}, report.Count{What: "reads", Each: 0})},
		},
		{
			"command", "a shell runs a command under a lock", "command", 1,
			[]contender{
				{"lockctl hold NAME -- true", report.Ours, lockctlHold},
				{etcdctl, report.Peer, etcdctlLock},
				{"true, without a lock", report.Floor, onlyTrue},
			},
			[]report.Goal{report.AtMost(1, etcdctl).Because(whyCommand)},
		},
		{
			"election", "a leader resigns, and the other candidate leads", "succession", 2,
			[]contender{{ours, report.Ours, crewOf(lockctlElection(dialEtcdClient))}, {etcdElection, report.Peer, crewOf(concurrencyElection)}},
			[]report.Goal{report.AtMost(1, etcdElection)},
		},
	}
}

func zkScenarios() []scenario {
	contenders := []contender{
		{ours, report.Ours, crewOf(lockctlOnZK)},
		{"go-zookeeper Lock", report.Peer, crewOf(goZooKeeperLock)},
		{"Curator InterProcessMutex", report.Peer, curator("CuratorMutex")},
		{"kazoo Lock", report.Peer, kazooLock},
	}
	floor := contender{"raw create + delete", report.Floor, crewOf(createAndDelete)}
	scenarios := []scenario{{
		"cycle", "one client locks and unlocks", "cycle", 1, append(contenders[:4:4], floor),
		[]report.Goal{report.Costs(report.Count{What: "commits", Each: 2}, report.Count{What: "reads", Each: 1}),
			report.AtMostBest(0.9).Because(whyZKCycle)},
	}}
	for _, n := range []int{2, 16, 64} {
		scenarios = append(scenarios, scenario{
			fmt.Sprintf("handoff-%d", n), fmt.Sprintf("%d clients take turns", n), "hand-off", n, contenders,
			[]report.Goal{report.AtMostBest(0.8).Because(whyZKHandOff)},
		})
	}
	return append(scenarios, scenario{
		"election", "a leader resigns, and the other candidate leads", "succession", 2,
		[]contender{{ours, report.Ours, crewOf(lockctlElection(dialZKClient))}, {curatorLatch, report.Peer, curator("CuratorLatch")}},
		[]report.Goal{report.AtMost(1, curatorLatch).Because(whyZKElection)},
	})
}
