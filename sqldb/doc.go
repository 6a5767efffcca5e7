// Package sqldb keeps locks in a table of a relational database: PostgreSQL, MySQL or
// MariaDB, and SQLite. It is what the packages below it have in common, which have the
// functions to open one.
//
//	db, err := sql.Open("pgx", url)
//	…
//	err = postgres.Migrate(ctx, db, nil) // once
//	client, err := postgres.Open(db, nil)
//	mutex, err := client.Mutex("jobs/daily", nil)
//
// # Guarantees
//
//   - Those of recipes.LeaseMutex, as far as the database keeps what it has confirmed:
//     one holder at a time, who learns of a loss before another gets the lock; fencing
//     tokens that grow; release and renewal by identity only.
//   - What is compared and stored is the database's clock, in UTC. The clocks and time
//     zones of clients don't matter.
//   - No connection is held while a lock is held or waited for, and each request is one
//     statement of its own, or two: so poolers that share connections between
//     transactions are fine, and many waiters don't drain the pool. Nothing depends on
//     a database session.
//   - A Guard, called in the user's own transaction, refuses to let it commit once
//     another has the lock.
//
// # Non-guarantees
//
//   - A failover to a replica that has not got everything can bring an old state back,
//     with a lock that was given since: use synchronous replication, or Guard, which
//     lives in the same database as what it guards.
//   - Who waits gets the lock in any order.
//   - SQLite is for processes of one machine, on a file system whose locks work.
//
// # The table
//
// A lock has a row from its first use on, which stays when it is released: it has the
// last token. To delete rows of locks in use lets tokens begin anew. Where "id" is empty
// or "expires_at" has passed, the lock is free.
//
// # Costs
//
// A request of any kind is one statement, but for to acquire on MySQL and SQLite, which is
// two. On PostgreSQL waiters are woken by LISTEN and NOTIFY where there is a
// connection for that, see package postgres; others poll, see recipes.LeaseOptions.Poll.
package sqldb
