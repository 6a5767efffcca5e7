package main

import (
	"strings"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// etcdScale are the scenarios with many of something, on one server.
func etcdScale() []scenario {
	return []scenario{
		waiters("10,000", []contender{
			{ours, report.Ours, crowdOf(manyWaiters, overFew, etcdEvents(), enterEtcd)},
			{oursFewWaiting, report.Floor, crowdOf(fewWaiters, overFew, etcdEvents(), enterEtcd)},
		}, report.AtMostCount(3, msToEnter, oursFewWaiting)),
		watching(contender{ours, report.Ours, watchedOf(watchedLocks, dialEtcdClient, etcdURL, etcdWatchers)}),
		held(dialEtcdClient, etcdSessions),
	}
}

func zkScale() []scenario {
	return []scenario{
		waiters("1,000", []contender{
			{ours, report.Ours, crowdOf(manyWaitersZK, eachItsOwn, zkEvents(), nil)},
			{oursFewWaiting, report.Floor, crowdOf(fewWaiters, eachItsOwn, zkEvents(), nil)},
		}),
		watching(contender{ours, report.Ours, watchedOf(watchedLocks, dialZKClient, zkURL, zkWatches)}),
		held(dialZKClient, zkSessions),
	}
}

// whyZKWatches is why goals are missed on ZooKeeper.
const whyZKWatches = "the client library has no watches of whole trees, so each lock has one, which is set anew for each change"

// watching is what it takes to show what happens.
func watching(console contender) scenario {
	return scenario{
		"watched-10000", "a console shows 10,000 locks, of which 1,000 change in a second, to 4 viewers", "change, until it is seen", 1,
		[]contender{console}, []report.Goal{
			report.Costs(report.Count{What: consoleWatches, Each: 1}).Because(whyZKWatches), report.Costs(report.Count{What: consoleCPU, Each: 25}).Because(whyZKWatches),
			report.Costs(report.Count{What: unseenChanges, Each: 0}), report.Mostly(0.99, 250*time.Millisecond).Because(whyZKWatches),
		},
	}
}

// waiters is what it costs that many wait for one lock.
func waiters(many string, contenders []contender, goals ...report.Goal) scenario {
	return scenario{
		"waiters-" + strings.ReplaceAll(many, ",", ""), many + " sessions wait for one lock, which one has after the other", "hand-off", 1,
		contenders, append(goals, report.Costs(report.Count{What: eventsEach, Each: 1})),
	}
}

// held is what it costs to hold many locks. That is the same whatever the size of the
// service.
func held(dial dialer, sessions sessionCounter) scenario {
	return scenario{
		"held-100000", "a process locks and unlocks while it holds 100,000 other locks", "cycle", 1,
		[]contender{{ours, report.Ours, holderOf(manyLocks, dial, &sessions)}, {oursHoldingFew, report.Floor, holderOf(fewLocks, dial, nil)}},
		[]report.Goal{report.Costs(report.Count{What: holdsSessions, Each: 1}), report.Costs(report.Count{What: bytesPerLock, Each: 1024}),
			report.NoMore(renewalsMany, renewalsFew, 1)},
	}
}
