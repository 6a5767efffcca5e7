// Package dynamodb keeps locks in a table of DynamoDB.
//
//	client, err := dynamodb.Dial(ctx, "dynamodb://eu-west-1/locks?ttl=15s", nil)
//	mutex, err := client.Mutex("jobs/daily", nil)
//
// # Guarantees
//
//   - Those of recipes.LeaseMutex: one holder at a time, who learns of a loss before
//     another gets the lock; fencing tokens that grow; release and renewal by identity only.
//     Each change is a conditional write of one item, each read a consistent one.
//
// # Time
//
// DynamoDB has no clock to compare with. The item says for how long its holder's lease is,
// and each renewal gives it another version. Who waits takes the lock over when the version
// has stood still for that time, by their own monotonic clock, from after they first read it;
// the write is on the condition that it still has that version. So clocks need not
// agree, they only have to run at about the same rate. What a client has seen it
// keeps, so that calls of TryLock from time to time find out as well.
//
// A lock whose holder has died is therefore free after up to its TTL from when somebody first
// looked at it, and is listed as held until then.
//
// # Non-guarantees
//
//   - Who waits gets the lock in any order, and finds that it is free by asking; those of one
//     process ask together.
//   - A table that is replicated to other regions (a global table with eventual consistency)
//     locks in each region by itself. Use it from one region.
//   - After a table was restored from a backup tokens go on from there.
//
// # The table
//
// It has a partition key "key" of type string, and no sort key. Items have these attributes:
//
//	key                  the name of the lock
//	ownerName            the lease's ID
//	leaseDuration        for how long it is, in milliseconds, as text
//	recordVersionNumber  another with each write
//	isReleased           "1" when the lock is free
//	data                 who holds it, as JSON in bytes
//	fencingToken         the last token, a number
//
// The item stays when the lock is released: it has the last token. A token is one more than
// the last, and the first one is the client's time in microseconds.
//
// # Compatibility
//
// All but the last are the attributes of the AWS lock client for Java and those that are
// compatible with it. On one table they exclude these locks, and are excluded by them. They
// replace items, and delete them when they release, unless they are told not to
// (withUpdateExistingLockRecord, withDeleteLock); that drops the last token, and the next
// one begins with the time again: larger than earlier ones as long as the clocks of clients
// are right.
//
// The Go library dynamolock uses the same attributes, but writes leaseDuration with a unit,
// as in "20s". Its locks are respected, and taken over when they have expired. It can't read
// one in milliseconds, and so fails on every item that this package has written: use
// tables of their own for the two.
//
// # Permissions
//
// dynamodb:GetItem and dynamodb:UpdateItem; dynamodb:Scan for listing; for Migrate, and for Dial
// where the table may be missing, dynamodb:DescribeTable and dynamodb:CreateTable. Conditions on
// dynamodb:LeadingKeys can bound the names that an application may lock.
//
// # Costs
//
// To acquire, renew and release is one write each. An attempt that finds the lock held is one
// consistent read, after the first one, which is a write that is refused and costs the same. Who
// waits asks after LeaseOptions.Poll, a second by default, each process once for all its
// waiters. Listing, and Watch, which does so after each Poll, scans the table.
//
// Requests that are throttled are repeated by the AWS library, with backoff, within a quarter of
// the TTL; then Lock goes on, and TryLock returns ErrUnavailable. Neither takes it for a lock
// that is held.
package dynamodb
