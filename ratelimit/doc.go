// Package ratelimit limits how often something happens across a fleet: all processes share
// one budget, kept by the service, at the speed of memory.
//
//	limiter, err := ratelimit.New(client, "api", &ratelimit.Options{
//		Config: ratelimit.Config{Rate: ratelimit.PerSecond(100), Burst: 20},
//	})
//	…
//	defer limiter.Close(ctx)
//	d, err := limiter.Allow(ctx, tenant)
//	if err == nil && !d.OK { … d.RetryAfter … }
//
// In mode Leased each process takes tokens for the time to come, and spends them by one
// atomic operation each; the service sees about one commit per process and period, whatever
// the rate. In mode Exact each decision is made by a commit. Subpackages httplimit,
// echolimit and grpclimit are middleware.
//
// # Guarantees
//
//   - In every window of length w the tokens spent are at most Burst + Rate·w + Slack; with
//     Policy Window, at most Rate.Tokens + Slack in each window of length Rate.Per. With
//     Slack 0 that is so although processes have tokens that are not spent yet: those occupy
//     the bucket until their process says that they are spent. In mode Exact a token is
//     spent when the service commits the decision, of which the caller learns later. So it is
//     in mode Leased for processes that use a key beside a thousand others.
//   - No process's clock, pause, delay or crash adds tokens. Of wall clocks, only those of
//     processes that start count, see Time.
//   - Tokens of a process that crashes are lost: they are void a second or three periods
//     after it took them. Those of one that closes, or does not use them for a second, go
//     back.
//   - A reply of the service that was lost spends no token twice. What was taken by a
//     request whose reply was lost is found again; in mode Exact unless sixteen other
//     processes have written since, or the decision could not wait for that.
//   - Each process that wants tokens gets at least an even part of what comes, if it wants
//     that much. What others don't want is added.
//   - A decision waits for at most one request to the service, no longer than Options.Timeout;
//     while the service is away, for none. It is then made as Options.OnUnavailable says, and
//     says so.
//   - A changed configuration is used by every process that is in use within a second, if the
//     service answers. What had been taken under the old one, and is more than is due under
//     the new, is given back.
//
// # Non-guarantees
//
//   - In mode Leased a decision may refuse although tokens are there: another process has
//     them, or this one has asked within the last period and was given its part.
//   - In mode Leased, tokens come to a process in portions, a period's at a time. Between two
//     of them WaitN may wait where a bucket of its own would admit.
//   - Processes are not admitted in order across the fleet; those that wait in one process
//     are.
//   - With OnUnavailable Open or Decay, what is admitted without the service is above the
//     limit.
//   - Clocks of machines are taken to run equally fast, to a part in twenty. That a machine was
//     suspended is seen by its wall clock; if that was set back meanwhile it is not, and what
//     fills the bucket once may be admitted too much.
//   - A reservation whose tokens were there and became void, because nobody waited for it
//     for about a lease, waits again.
//   - What is stored of a key whose process crashed stays. It is removed when a process that
//     uses the key leaves it alone until all of its tokens are there.
//
// # Time
//
// The record of a limiter has a logical time, the time for which tokens were minted. A process
// moves it on by what its monotonic clock says has passed since it received an earlier record;
// so it never runs faster than true time, whoever is slow or wrong. The comment of the type
// clock has the proof.
//
// A process that has just started has seen no time pass. It takes in how long nobody has
// written: by the service's clock where that tells when a value was made (ZooKeeper), for at
// most one commit more; otherwise (etcd) by the wall clock of who wrote last and its own,
// less 50 ms. Wrong wall clocks can add what fills the bucket once, for each process that
// starts. Options.Strict leaves this out.
//
// # Slack, burst and period
//
// A process takes tokens for Period, or for the time in which a third of Burst + Slack comes
// if that is less; so the commits a second are about 1.2 for each process and period. Where
// that is too much, allow a Slack. As a rule: Burst + Slack of three periods' tokens for the
// full Period; below that, the service is asked more often, down to a round trip.
//
// # Failure
//
// Errors are those of package recipes. That the service can't be reached is not among them
// but in Decision.Degraded. Denied access, a closed limiter and one that is not set up are
// errors.
//
// # Compatibility
//
// A limiter is a register in the space "rate", with fields of its own that grow and are not
// renamed. Processes with other options share it: what is stored counts, see Options.Config.
package ratelimit
