// Package recipes has the recipes of distributed coordination: locks that are
// held by one process among many, and the view of who holds and who waits.
//
// A [Client] comes from an engine: etcd.Open or etcd.Dial, zk.Open or zk.Dial,
// memory.Open. It makes recipes such as [Mutex]; locking one gives a [Hold].
//
//	client, err := etcd.Dial(ctx, "etcd://127.0.0.1:2379", nil)
//	…
//	defer client.Close()
//	mutex, err := client.Mutex("jobs/daily", nil)
//	…
//	err = mutex.Do(ctx, func(ctx context.Context, hold *recipes.Hold) error {
//		return run(ctx, hold.Token())
//	})
//
// Besides Mutex there are [RWMutex] and [Semaphore], and [Multi] holds several locks
// as one. [Latch], [Barrier] and [DoubleBarrier] make processes wait for each other.
// [Register] and [Counter] are values that all see, [Group] is who is alive, and
// [Once] runs an operation once for each key. [Queue] hands out work, and [Partition]
// divides shards among members. The package imports the standard library only.
//
// All of them can be seen from outside: [Client.Objects] lists them, and [Client.Watch]
// follows them, with who takes part and what is stored.
//
// # Guarantees
//
//   - At most one hold of a lock exists at a time, by the order of the service.
//   - A hold's context ends before the service can give the lock to another, as
//     long as the process runs: the deadline is computed from the moment the last
//     successful renewal was sent and needs no reply to be noticed.
//   - Each hold has a token larger than the tokens of all earlier holds.
//   - Waiting is first come, first served, in the order in which the service
//     received the requests. A release wakes one waiter. Goroutines of one process
//     that share a Mutex are one of those who wait: see [Mutex].
//   - A wait that was given up leaves nothing behind. If the service can't be
//     reached at that moment, the removal is repeated until it confirms or until
//     the session is over.
//   - Unlock never removes another's hold, however late or often it runs.
//
// # Non-guarantees
//
//   - A process that is paused, or whose clock runs at another rate, can go on
//     working after its hold was lost, until it looks at its context. Only a
//     resource that checks the token refuses such late work.
//   - An entry that someone removes in the service itself, without Client.Break, is
//     noticed by a waiter when its turn comes and by a holder at Unlock, not at once.
//   - After the service itself was restored from a backup, tokens can repeat.
//   - Locks are not reentrant. A Lock whose context comes from a hold of the same
//     lock is refused with ErrDeadlock; one with another context waits for itself.
//
// # Time
//
// Only durations matter, never the time of day on another machine. The times in
// [Owner] entries are for people. A machine that was suspended is noticed by the
// wall clock; a wall clock set forward by more than what is left of the TTL
// therefore costs a hold.
//
// # Failure
//
// A caller can always tell what happened: see [ErrHeld], [ErrLost],
// [ErrUnavailable], [ErrDenied], [ErrInvalid], [ErrConflict], [ErrDeadlock] and
// [ErrClosed].
// While the service is away a wait goes on, and holds stay, for as long as the
// session can last: seven eighths of its TTL after the last renewal.
package recipes
