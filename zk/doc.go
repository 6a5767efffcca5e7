// Package zk is the engine on ZooKeeper, version 3.5.3 or later.
//
// [Dial] connects by URL, [Open] works over the user's own go-zookeeper
// connection. Both give a *recipes.Client.
//
// # Layout
//
//	<root>/lock/<escaped name>                         a queue: a container node
//	<root>/lock/<escaped name>/_c_<uuid>-lock-<number> an entry: JSON, ephemeral, sequential
//	<root>/inbox/<session>/…                           notices to a session, in the same form
//	<root>/register/<escaped name>/_c_<uuid>-value-…   a value: JSON, persistent; beside it "present"
//
// Other recipes have nodes of their own beside lock and register, in the same forms.
//
// The server numbers the entries, and the first one holds the lock. The uuid is
// new for each entry, so a node whose creation was not acknowledged is found
// again, and a late request can't hit another's. The server removes a container
// some time after it became empty. Revisions, which tokens are made of, are
// zxids: unlike the numbers they go on when a container was removed, and they
// order the entries that the server gives the same number, as it does from
// 2147483647 on.
//
// # Guarantees
//
// Those of package recipes. The session is renewed with syncs, which the leader
// answers; pings prove nothing, as a server that is cut off answers them. An
// uncontended Lock and Unlock costs two writes and one read; a hand-off one watch
// event and one read. [Guard] makes a Multi of the same ZooKeeper depend on a hold.
//
// # Non-guarantees
//
//   - A watch that is set can't be withdrawn, as the client library has no request
//     for it. A wait that was given up leaves one, on the server too, until the
//     entry ahead is gone; the next wait for the same entry shares it.
//   - Client.Watch and Client.Objects leave out what this client may not read: locks,
//     and all of a kind where the node that they are below is another's. The lock itself
//     gives ErrDenied.
//   - Client.Watch costs a watch for each kind, queue and entry, and one listing for
//     each change of a queue, of that queue; a queue that changes all the time is listed
//     a hundred times a second. Each item of a work queue counts as a queue. Locks that
//     are used for the first time change the list of all, which is read again after 10 ms
//     and, with many locks, 5 µs for each of them.
//
// # Time
//
// The TTL is three quarters of the session timeout that the server has granted,
// because a follower tells the leader with a delay that it has heard from a
// session. It can be up to half a tick, and the shortest timeout is two ticks;
// don't set the servers' minSessionTimeout lower than that, and set it the same
// on all of them. With Open the timeout is Options.TTL.
//
// # Failure
//
// When the connection breaks the session lives on, and so do holds until their
// deadline: the library connects to the next server, requests whose answers were
// lost are settled by the name of the node, and watches are set again. A server
// that has answered nothing for a whole renewal is left for the next one. With
// Options.DisconnectIsLoss a broken connection is the end of the session instead.
//
// A session that Dial made is ended by Close; if its server does not answer,
// through another connection. On the user's connection Close removes the entries.
//
// When the session has expired the library makes a new one on the same
// connection. Dial prevents that: a connection has one session. With Open each
// answer counts only if the connection still has the session for which it was
// asked; a node that came to be in a newer session is removed.
//
// # Access
//
// With a user set, nodes are created with all rights for that user alone.
// ZooKeeper takes any user and password; a wrong one shows when a node's ACL
// refuses it, as ErrDenied. Give each application its own root, and the right to
// create nodes below it.
//
// # Compatibility
//
// With MutexOptions.Path set to the path that they use, a mutex and other
// clients' locks exclude each other: Curator's InterProcessMutex, the Lock of
// go-zookeeper, and kazoo's Lock if made with extra_lock_patterns=["-lock-"].
// Curator takes no notice of kazoo's nodes, nor go-zookeeper of any that it can't
// parse; that is between them. Children with other names are skipped.
package zk
