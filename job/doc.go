// Package job runs a scheduled job once per tick across a fleet, and not once per
// instance.
//
// Every process makes the job with the same schedule and calls Run. One of them runs
// the work; which ticks are done with is remembered in the service.
//
//	j, err := job.New(client, "reports/daily", &job.Options{Cron: "0 3 * * *"})
//	…
//	err = j.Run(ctx, func(ctx context.Context, run *job.Run) error {
//		return report(ctx, run.Tick, run.Token)
//	})
//
// A job is a lock whose holder runs the ticks: "lockctl ls", "lockctl show" and the
// console show it as one of kind "job", and a recipes.Mutex of the same name excludes
// it, and the other way round. Look, and "lockctl job NAME --state", tell the last
// tick, the next one, and who runs what since when.
//
// # Guarantees
//
//   - A tick is claimed by a compare-and-swap on the job's state before its work
//     starts, and the claim is refused if a holder with a larger token has written the
//     state. So a tick has one first attempt in the whole fleet, whatever clocks,
//     pauses and sessions do; with AtMostOnce it is the only one.
//   - With AtLeastOnce a tick whose work failed, or whose process died or lost the
//     lock, is run again, up to MaxAttempts times. Attempts count when they start.
//   - The context of the work ends before another process can start any work of the
//     job, and the lock is kept until the work has returned, also when Run is to end.
//   - What the work returned is recorded only by a process that holds the lock and if
//     nobody has decided about the tick since. Work that returns nil after the lock
//     was lost has not completed.
//   - The last tick, and whether it completed, outlive every process of the fleet.
//   - A job that starts for the first time, or with another schedule, begins with the
//     next tick. It does not catch up with ticks from before.
//
// # Non-guarantees
//
//   - With AtMostOnce a tick can be lost: its process died after the claim.
//   - With AtLeastOnce work can be done twice: its process died after the work and
//     before that was recorded. Run.Tick is the key to recognise that by, and Run.Token
//     lets what the work changes refuse a process that was paused.
//   - A process that is stopped or suspended can't look at its context; see package
//     recipes. Its work may then run beside another's for a later tick.
//   - Ticks are run by the clock of the process that holds the lock: as early, or as
//     late, as that is wrong.
//   - With SkipMissed, ticks that come while no process holds the lock are lost if that
//     lasts longer than Options.Grace.
//
// # One process in line, or a race at each tick
//
// All processes wait in the line of one lock, and the first runs every tick until it
// ends. The alternative, that all wake at the tick and race for a lock, was not taken:
//
//   - Costs. A tick costs two commits and two reads of the state, however many
//     processes there are; between ticks nothing but keep-alives is sent. In a race each
//     process reads at each tick, and those that come at once commit too.
//   - Clock skew. One clock decides at a time. In a race the fastest always wins, and a
//     slow one comes after the lock is free again. Here it finds the tick recorded.
//   - Fairness. Who came first runs all ticks. Where the work is heavy, Options.Rotate
//     passes the lock on after each tick, for two commits and a few reads more.
//
// What it costs: when the holder dies, a tick waits until its session is over, at most
// the TTL, where in a race another process would take it at once.
//
// # Time
//
// Ticks are a function of the time alone: multiples of Every since 1970, or the moments
// of the expression in the named zone, by default UTC. The clock is looked at every ten
// seconds while a tick is waited for, so that one that was set, or has stood still with
// the machine, is noticed.
//
// A clock that is set back runs no tick again: the job goes on when it has passed the
// last one. A clock that was far ahead leaves the job with a last tick in the future,
// and so without ticks until then; Look shows that, and Reset ends it.
//
// Where a zone's clocks are changed, an expression that names hours ticks once a day
// still: one that falls into the hour left out is counted on from the hour before (02:30
// becomes 03:30), and of an hour that comes twice the first counts. An expression that
// allows all hours ticks by the time that passes. The library that reads expressions,
// github.com/robfig/cron, would leave the former out and run the latter twice.
//
// # Failure
//
// While the service is away no tick is claimed, and work goes on for as long as the
// lock can last. Then the missed ticks are for Options.Missed. Run tries again until its
// context ends; Options.Notify tells of it. Errors are those of package recipes.
//
// Work that hangs keeps the job from ticking. Give it a context with a timeout.
//
// # Compatibility
//
// The state is a register in the space "job", under the job's name, with fields of its
// own that grow and are not renamed. Processes with other options share a job: those of
// whoever holds the lock count. A schedule that differs from the stored one replaces it
// when its process becomes the holder, without catching up.
package job
