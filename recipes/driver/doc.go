// Package driver is the contract between the recipes and an engine: what a
// coordination service must be able to do so that every recipe runs on it.
//
// Users of lockctl do not need this package; they import recipes and an engine
// such as etcd or zk. Authors of engines implement [Store] and [Session] and
// prove them with package recipetest.
//
// # What an engine provides
//
// An engine offers sessions and queues. A session is the service's idea of one
// client being alive. A queue is a set of entries in the order in which the
// service made them; each entry belongs to a session and disappears with it.
// Every recipe is an algorithm over queues, written once in package recipes.
//
// # Guarantees an engine must give
//
//   - Order: the revisions of the entries of one queue grow in the order in
//     which the service applied the calls to Enter, across sessions, across
//     restarts of the service and after the queue has been empty.
//   - Once: an Enter whose reply was lost leaves at most one entry, and no entry
//     at all once Leave has confirmed its removal. A request delivered late must
//     not bring it back.
//   - Death: an entry is gone, for every reader, once its session is over.
//   - Life: a session outlives the start of each successful Renew by at least
//     Session.TTL. This is what the holder's own deadline rests on.
//   - Truth: what Enter and Ahead report was true at some moment during the call
//     and is not older than any event that Await returned for.
//
// # What an engine must not do
//
// It must not retry beyond its context, grant anything by itself, keep
// package-level state, or turn an error of the service into a silent success.
// It does not compute deadlines and does not schedule renewals: package recipes
// does both, the same way for every engine.
//
// # Errors
//
// An engine reports [ErrGone], [ErrSessionOver], [ErrDenied] and [ErrClosed] by
// wrapping them. Every other error that is not the context's own means that the
// service could not be reached or did not answer.
package driver
