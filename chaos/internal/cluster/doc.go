//go:build linux

// Package cluster runs three servers of one service as processes of this machine,
// with a fault proxy in every path: between each two members, for each direction and
// connection, and between each client and each member. So members and clients can be
// cut off from each other, in one direction too, slowed down and reset without a
// packet filter and without root.
//
// A member of etcd tells the others one address. The proxy behind that address finds
// out which member a connection comes from: by the process that has its other end.
// A server of ZooKeeper has a file with the addresses of the others, so each is given
// addresses of its own; the one that it tells the others of itself is rewritten on the
// way.
package cluster
