// Package election elects a leader among processes, and tells everybody who it
// is.
//
// A candidate campaigns, waits in line, and leads until it resigns or its session
// ends. Leading it can proclaim a value, such as its address, and change it.
// Whoever wants to know observes the election.
//
//	e, err := election.New(client, "scheduler", nil)
//	…
//	err = election.Run(ctx, e, func(ctx context.Context, lead *election.Lead) error {
//		return schedule(ctx, lead.Term())
//	}, &election.RunOptions{Value: address, Again: true})
//
// An election is a lock whose holder shows that it leads: "lockctl ls", "lockctl
// show" and the console show it as one of kind "election", and a recipes.Mutex of
// the same name excludes its leader, and the other way round.
//
// NewOnLeases makes an election on a store of leases, such as a database, with the
// differences that it tells.
//
// # Guarantees
//
//   - At most one leader at a time, with the guarantees of package recipes: the
//     context of a Lead ends before the next candidate can be elected.
//   - The term is the fencing token: it grows from leader to leader. Let whatever
//     the leader changes refuse smaller terms.
//   - A Lead exists only after the service has confirmed, in one write, that the
//     candidate's entry is there and leads. A campaign whose session died is an
//     error.
//   - Who is seen to lead was elected: an entry that is first but has not confirmed
//     its election is no leader yet, and is never reported as one.
//   - Between two leaders an observer is told that there is none. While the service
//     can't be reached it is told that the leader is not known, instead of being
//     left with one that may not lead any more.
//   - A leader that resigns leads until the work that it started with Lead.Go, or in
//     Run, has ended. Nobody else is elected while it drains.
//   - Candidates of the same priority are elected first come, first served, if all
//     have the same; else see Options.Priority.
//
// # Non-guarantees
//
//   - A leader that was cut off from the service knows that it lost the lead before
//     others see it: to them it leads until its session is over.
//   - An observer that is slower than the changes is told of the latest leader and
//     not of every leader in between. It never misses the final state.
//   - A candidate of a higher priority doesn't depose a leader.
//   - Values and owners were written by other processes: treat them as untrusted text.
//
// # Time
//
// See package recipes. Leader.Since is by the leader's clock, for people.
//
// # Failure
//
// Errors are those of package recipes, and ErrNoLeader. When the client is closed
// its leads are lost at once, whatever still drains: resign before.
//
// # Compatibility
//
// The leader's entry has, in the JSON object that all entries have, an object
// "published" with an object "lead" with "term" (decimal, a string), "value" and
// "since". Elections of other libraries on the same service are other elections.
package election
