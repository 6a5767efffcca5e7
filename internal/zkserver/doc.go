// Package zkserver runs real ZooKeeper servers for tests and benchmarks: one
// alone or an ensemble, on free ports of the loopback interface, with data in a
// temporary directory, from the jars that Debian's package zookeeper installs.
//
// The servers tick every 200 ms, so that sessions may be as short as 400 ms.
// Everything else that matters is as it comes: each write reaches the disk
// before it is answered.
//
// A machine without Java or the jars skips the test, unless the environment's CI
// says that nothing may be skipped.
package zkserver
