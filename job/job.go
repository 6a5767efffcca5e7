package job

import (
	"context"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	defaultMaxMissed   = 10
	defaultMaxAttempts = 3
	mostAttempts       = 1000
	defaultGrace       = time.Minute
	defaultPause       = 10 * time.Second

	// maxText is the greatest length of an expression and of an error, in bytes.
	maxText = 256
)

// Delivery says what becomes of a tick whose work did not complete.
type Delivery int

// The deliveries.
const (
	// AtMostOnce: the tick is recorded as done before its work starts. If the work
	// fails, or its process dies, the tick is not run again.
	AtMostOnce Delivery = iota + 1
	// AtLeastOnce: the tick is recorded as done after its work has returned nil. If the
	// work fails, or its process dies, the tick is run again, by whichever process holds
	// the job then, up to Options.MaxAttempts times in all.
	AtLeastOnce
)

// Missed says what becomes of ticks that nobody ran when they came: all processes
// were down, the service was away, or the work for an earlier tick took so long.
type Missed int

// The policies for missed ticks.
const (
	// SkipMissed: they are not run. A tick is missed if it came while the work for an
	// earlier one went on, or is older than Options.Grace.
	SkipMissed Missed = iota + 1
	// RunOnce: however many they are, the work runs once, for the latest.
	RunOnce
	// RunEach: the work runs for each, the oldest first; for the latest
	// Options.MaxMissed of them.
	RunEach
)

// Options say when a job runs, and how. All who use a job should use the same. Every
// or Cron is needed, so nil is not enough; all other fields have defaults.
type Options struct {
	// Every is the time between ticks, 1 s to 366 days. Ticks are whole multiples of it
	// since the beginning of 1970 in UTC, so that all processes agree on them: with
	// 15 minutes at :00, :15, :30 and :45. Either Every or Cron is given.
	Every time.Duration
	// Cron is an expression of five fields: minute, hour, day of the month, month, day
	// of the week (0 to 6, 0 is Sunday); or of six, the first of which is the second.
	// "@hourly", "@daily", "@weekly", "@monthly" and "@yearly" are known too, and
	// "@every 15m" means the same as Every. "CRON_TZ=Europe/Berlin " in front names the
	// zone. A day matches if both of its fields do or, where neither is "*", if one does.
	Cron string
	// Location is the zone that Cron is read in, of the time zone database; only its
	// name counts. It can't be time.Local, which differs between machines. Defaults to
	// UTC.
	Location *time.Location

	// Delivery defaults to AtMostOnce.
	Delivery Delivery
	// MaxAttempts is how often the work is started for one tick at most, with
	// AtLeastOnce: 1 to 1000. An attempt counts when it starts, so that work which kills
	// its process does not go on for ever. Defaults to 3.
	MaxAttempts int
	// RetryPause is the time from an attempt that failed to the next. After a process
	// has died the next starts at once. Defaults to 10 s.
	RetryPause time.Duration

	// Missed defaults to SkipMissed.
	Missed Missed
	// MaxMissed is how many ticks RunEach catches up with at most: 1 to 1000. Defaults
	// to 10.
	MaxMissed int
	// Grace is how late a tick may be run that is not missed, with SkipMissed. It should
	// be longer than the TTL of a session, which is what it takes to replace a process
	// that has died. Defaults to 1 minute.
	Grace time.Duration

	// MinHold is the shortest time, from the start of the work for a tick, for which the
	// job's lock is not given to another process, also when Run is to end: Run then
	// returns only after it. What keeps a process whose clock is behind from running a
	// tick again is that the tick is recorded; MinHold also keeps it from running the
	// next tick too soon after, with Rotate. A process that dies holds nothing. Defaults
	// to 0.
	MinHold time.Duration
	// Rotate gives the lock to the next process in line after each tick, if there is
	// one, so that the processes run the job in turns. Defaults to one process that runs
	// it until it ends.
	Rotate bool

	// Label is shown beside the owner, at most 256 bytes. Defaults to the label of the
	// client's owner.
	Label string
	// Notify is told what happens, from the goroutine that runs Run. It must return
	// soon. Defaults to none.
	Notify func(Event)
}

// Validate returns the error that New would return for the options.
func (o Options) Validate() error {
	_, err := o.plan()
	return err
}

func (o Options) plan() (*plan, error) {
	s, err := newSchedule(o)
	switch {
	case err != nil:
		return nil, err
	case o.Delivery < 0 || o.Delivery > AtLeastOnce:
		return nil, invalid("Delivery", fmt.Sprintf("is %d, which is none", o.Delivery))
	case o.Missed < 0 || o.Missed > RunEach:
		return nil, invalid("Missed", fmt.Sprintf("is %d, which is none", o.Missed))
	case o.MaxAttempts < 0 || o.MaxAttempts > mostAttempts:
		return nil, invalid("MaxAttempts", fmt.Sprintf("is %d, not between 1 and %d", o.MaxAttempts, mostAttempts))
	case o.MaxMissed < 0 || o.MaxMissed > maxDue:
		return nil, invalid("MaxMissed", fmt.Sprintf("is %d, not between 1 and %d", o.MaxMissed, maxDue))
	case o.RetryPause < 0:
		return nil, invalid("RetryPause", "is negative")
	case o.Grace < 0:
		return nil, invalid("Grace", "is negative")
	case o.MinHold < 0:
		return nil, invalid("MinHold", "is negative")
	}
	return &plan{
		schedule: s, delivery: orDefault(o.Delivery, AtMostOnce), missed: orDefault(o.Missed, SkipMissed),
		maxMissed:   orDefault(o.MaxMissed, defaultMaxMissed),
		maxAttempts: orDefault(o.MaxAttempts, defaultMaxAttempts),
		grace:       orDefault(o.Grace, defaultGrace), pause: orDefault(o.RetryPause, defaultPause),
	}, nil
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// A Job is one process's part in a scheduled job. It is made by New, sends nothing
// until it is used, and needs no closing. All methods may be called at the same time;
// each call to Run is one more that waits in line.
type Job struct {
	client  *recipes.Client
	name    string
	plan    *plan
	mutex   *recipes.Mutex
	state   *recipes.Register[record]
	minHold time.Duration
	rotate  bool
	notify  func(Event)
}

// New makes a job called name, by the rules of Client.Mutex. It sends nothing. It
// returns ErrInvalid when the name or an option is out of range, or the schedule is
// missing, can't be read or never comes.
func New(c *recipes.Client, name string, opts *Options) (*Job, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	p, err := o.plan()
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", name, err)
	}
	mutex, err := c.Mutex(name, &recipes.MutexOptions{Label: o.Label, Kind: recipes.KindJob})
	if err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	state, err := register(c, name)
	if err != nil {
		return nil, err
	}
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	return &Job{
		client: c, name: name, plan: p, mutex: mutex, state: state,
		minHold: o.MinHold, rotate: o.Rotate, notify: o.Notify,
	}, nil
}

// register is the register in which a job is remembered.
func register(c *recipes.Client, name string) (*recipes.Register[record], error) {
	state, err := recipes.NewRegisterIn[record](c, driver.SpaceJob, name)
	if err != nil {
		return nil, fmt.Errorf("job: %w", err)
	}
	return state, nil
}

// Name is the name of the job.
func (j *Job) Name() string { return j.name }

// State asks for what is known of the job, see Look.
func (j *Job) State(ctx context.Context) (State, error) { return Look(ctx, j.client, j.name) }
