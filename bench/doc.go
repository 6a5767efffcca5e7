// Bench measures lockctl's locks against their peers: on the same servers, in the
// same run, taking turns.
//
//	go run ./bench                          a table on standard output
//	go run ./bench -o docs/performance.md   the page, with charts beside it
//	go run ./bench -quick                   in about a minute, to see that it works
//	go run ./bench -run etcd/handoff        some of the scenarios
//	go run ./bench rates                    limits that processes share, which have a page of their own
//
// It starts etcd, ZooKeeper, databases, Redis and dynalite itself, on free ports of the
// loopback interface, and removes everything afterwards. Servers and peers that are not
// installed are named in the tables. On Debian they are in the packages zookeeper,
// default-jdk-headless, libcurator-recipes-java, python3-kazoo, etcd-client, redis-server,
// postgresql and mariadb-server; tools/setup.sh installs all of them.
//
// # Adding a scenario
//
// A scenario is a value in the tables of scenarios.go: a name, a number of
// clients, contenders and goals. A contender opens a runner. Most runners are a
// crew: one function for each client that locks, tells that it was granted, and
// unlocks. See contender and crew. Those with many of something are in scale.go: a
// crowd that waits, a holder of many locks, a console that is watched. The stores of
// leases, and what is used on them otherwise, are in stores.go and storepeers.go.
package main
