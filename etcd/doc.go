// Package etcd is the engine on etcd, version 3.4 or later.
//
// [Dial] connects by URL, [Open] works over the user's own client. Both give a
// *recipes.Client.
//
// # Layout
//
//	<root>/lock/<escaped name>/<lease>-<n>   an entry: JSON, bound to the lease
//	<root>/inbox/<lease>/<lease>-<n>         a notice: to a session, bound to its writer's lease
//	<root>/register/<escaped name>/value     a value: JSON, bound to nothing
//	<root>/session/<lease>                   a session, bound to its lease
//	<root>/void/<lease>-<n>                  see session.Leave; bound to the lease
//
// Other recipes have prefixes of their own beside lock and register, in the same forms.
//
// A queue is ordered by create revision, and the first entry holds the lock. An
// entry's key is never used twice. Everything but values is bound to the session's
// lease, so nothing else stays when a client is gone.
//
// # Guarantees
//
// Those of package recipes. A session is a lease, renewed by calls whose start
// is known. An uncontended Lock and Unlock costs two commits and no read; a
// hand-off one watch event and one read, or a second one where the member that
// served the first lags behind. [Guard] makes transactions of the same etcd depend on
// a hold.
//
// # Non-guarantees
//
// A lease that an operator revokes is noticed through a watch: soon, but not
// before the next in line is granted the lock.
//
// # Time
//
// A lease has whole seconds, and the server can demand more than was asked for
// (by default at least 2 s). The TTL that the server granted counts.
//
// # Failure
//
// A change of leader restarts every lease, so a lock of a dead process can take
// up to a TTL longer to become free. Requests go to members that have a leader.
//
// A member that does not answer is left for another after 3 s, one that is cut off
// from the others when it has noticed: after three election timeouts. While the
// service has no space left, new entries are refused and old ones can be released.
//
// # Access
//
// A user needs permission to read and write below <root>/, and below the prefix of
// each MutexOptions.Path. When tokens expire, new ones are fetched. A user whose
// permission is taken away can neither renew nor release: locks go with the TTL.
//
// # Compatibility
//
// With MutexOptions.Path set to the prefix that they use, a mutex and etcd's own
// concurrency.Mutex or "etcdctl lock" exclude each other.
package etcd
