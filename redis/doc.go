// Package redis keeps locks in Redis or Valkey: on one server, on the master that
// Sentinels tell of, or on a cluster; and, as Redlock, on several servers that know
// nothing of each other.
//
//	client, err := redis.Dial(ctx, "redis://127.0.0.1:6379/0?ttl=15s", nil)
//	mutex, err := client.Mutex("jobs/daily", nil)
//
// # Guarantees
//
//   - Those of recipes.LeaseMutex, as long as the server that has confirmed a lock
//     keeps it: one holder at a time, who learns of a loss before another gets the lock;
//     fencing tokens that grow; release and renewal by identity only.
//   - A lock always has an expiry: it is taken, given its token and its expiry by one
//     script.
//   - Tokens come from a counter of the server's that never lags behind its clock. So
//     they also grow after data was lost, unless the clock was set back.
//   - Who waits is woken by the release, and asks from time to time in addition.
//
// # Non-guarantees
//
//   - Redis confirms a lock before its replicas have it. When a replica takes over, by
//     Sentinel or in a cluster, it may not know of locks that were given shortly before:
//     another can get such a lock at once, while the holder has it until its next renewal
//     is refused, a quarter of its TTL later at the most. The same goes for a server that
//     comes back with less than it had: without appendfsync always it may lose the
//     last second, or all. A resource that checks tokens refuses the former holder, since
//     the other's token is larger; without tokens two may work at once. Where that must
//     not be, use etcd, ZooKeeper or a database.
//   - A cut-off master goes on giving locks to the clients that are cut off with it until
//     it hears of the other. The server's min-replicas-to-write and
//     min-replicas-max-lag bound that time.
//   - A server's clock that is set forward ends locks early.
//   - A server that evicts keys with an expiry under memory pressure ends locks early: use
//     maxmemory-policy noeviction for them.
//   - Who waits gets the lock in any order.
//   - Redlock has no fencing tokens, and its own conditions: see OpenRedlock and
//     docs/redlock.md.
//
// # Keys
//
//	jobs/daily                           the lock: a string, the lease's ID; expires
//	{1234}lockctl:note:jobs/daily        who holds it, and its token: a hash; expires
//	{1234}lockctl:token                  the last token of the locks of a slot
//
// The number in braces is a hash tag, which puts the three into one slot of a cluster.
// Only the last stays, of which there are 16,384 at the most. Releases are told in
// the channel lockctl:released:jobs/daily.
//
// # Compatibility
//
// The lock's key is what SET key id NX PX makes, so that redsync, redislock and others that
// do so exclude these locks and are excluded by them, where Options.Prefix and the name make
// the same key. Their releases are not told: they are found by asking. They have no note, so
// it is not known who they are. A key of another type, such as Redisson's hash, is a lock
// that another has. Redis 5 or later, and Valkey.
//
// # Permissions
//
// A user needs, for the prefix "locks:":
//
//	~locks:* ~{*}lockctl:* &lockctl:released:locks:* +@scripting +ping
//	+get +set +del +pexpire +pttl +hset +hmget +time +publish +subscribe +unsubscribe +scan
//
// and in a cluster +cluster|slots +cluster|shards +command +asking. Without the channel, who waits polls.
//
// # Costs
//
// To acquire, renew and release is one round trip and one script each. Waiting costs a
// subscription, on one connection for all who wait in a client. Listing, and Watch, which
// does so after each LeaseOptions.Poll, scans all keys of all masters: don't use it
// on a database with millions of other keys.
//
// The library go-redis writes what it meets to the standard error; SetLogger of that library
// changes this, for the whole program.
package redis
