package recipes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Semaphore is a lock with a limited number of permits, of which each holder
// takes one or more. Waiting is first come, first served: a request for many
// permits is not passed by smaller ones that came later.
//
// The limit is stored in the service, so that all who use the name agree on it. It
// stays when nobody uses the semaphore, and SetLimit changes it at any time.
//
// A semaphore shares its name and its queue with Mutex and RWMutex: a hold of
// those is as a hold of all permits, so that a Mutex of the same name keeps
// everybody out.
//
// It is made by Client.Semaphore, sends nothing until it is used, and needs no
// closing. All methods may be called at the same time. It is not reentrant: a
// context that comes from a hold of the same name is refused with ErrDeadlock, as
// holders that wait for more permits can wait for each other. Ask for all that is
// needed at once.
//
// # Costs
//
// An acquire and a release are one commit each. The first use of a Semaphore reads
// the limit, or stores it; each acquire reads it once more, and if others are
// ahead reads the queue, which on ZooKeeper is one read for each entry.
//
// Of those who wait, the first watches each holder and the limit, and each of the
// others watches the one directly ahead. A release therefore wakes one waiter. A
// waiter that is admitted with others behind it writes its entry once, which wakes
// the next. So a release costs a wake-up, and for each waiter that it admits a
// commit and another wake-up. (On ZooKeeper watches can't be taken back: a client
// also hears of the end of entries that it has watched for holds that it was granted
// since.)
type Semaphore struct {
	lockable
	limits *Register[int]
	asked  int          // the limit that the caller wants, or 0
	known  atomic.Int64 // the limit last seen, 0 before the first use
}

// Semaphore makes a semaphore called name with a limit of permits; name and
// options are those of Mutex, without Path. A limit of 0 means the one that is
// stored. It returns ErrInvalid when the name, the limit or an option is out of
// range.
//
// The first call that needs the limit stores it if there is none, and otherwise
// fails with ErrConflict if another one is stored. Later changes are followed.
func (c *Client) Semaphore(name string, limit int, opts *MutexOptions) (*Semaphore, error) {
	l, err := c.lockable(name, opts)
	if err != nil {
		return nil, err
	}
	if limit < 0 || limit > math.MaxInt32 {
		return nil, &InvalidError{Field: "limit", Problem: fmt.Sprintf("is %d, not between 0 and %d", limit, math.MaxInt32)}
	}
	if opts != nil && opts.Path != "" {
		return nil, &InvalidError{Field: "MutexOptions.Path", Problem: "is not for semaphores"}
	}
	limits, err := newRegister[int](c, driver.SpaceLimit, name)
	return &Semaphore{lockable: l, limits: limits, asked: limit}, err
}

// Name is the name of the semaphore.
func (s *Semaphore) Name() string { return s.name }

// Acquire waits in line until so many permits are held. Unlock of the hold gives
// them all back. Tokens grow in the order of the queue; those of holders that hold
// together differ.
//
// It returns ErrInvalid if permits is less than 1 or more than the limit, also when
// the limit is lowered to less while it waits, and ErrConflict for the limit as
// told at Client.Semaphore. Otherwise it is as Mutex.Lock.
func (s *Semaphore) Acquire(ctx context.Context, permits int) (*Hold, error) {
	p, err := s.place(ctx, permits)
	if err != nil {
		return nil, err
	}
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	if err := p.seat.insist(ctx, p.step); err != nil {
		return nil, err
	}
	return p.grant(ctx)
}

// TryAcquire returns a hold of so many permits if they are free and nobody waits,
// and otherwise a *HeldError at once, which names the last in line. If the permits
// were taken while it entered the queue, it leaves again in the background. Other
// errors are as for Acquire.
func (s *Semaphore) TryAcquire(ctx context.Context, permits int) (*Hold, error) {
	p, err := s.place(ctx, permits)
	if err != nil {
		return nil, err
	}
	p.seat = &seat{name: s.name}
	if err := p.look(ctx); err != nil {
		return nil, fmt.Errorf("lock %q: %w", s.name, fault(err))
	}
	if !p.fits {
		return nil, p.seat.held(nil)
	}
	p.quota.Limit = p.limit
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	if err := p.look(ctx); err != nil {
		return nil, p.seat.unseen(ctx, err)
	}
	if !p.fits {
		p.seat.abandon()
		return nil, p.seat.held(nil)
	}
	return p.grant(ctx)
}

// Lock acquires one permit.
func (s *Semaphore) Lock(ctx context.Context) (*Hold, error) { return s.Acquire(ctx, 1) }

// TryLock tries to acquire one permit.
func (s *Semaphore) TryLock(ctx context.Context) (*Hold, error) { return s.TryAcquire(ctx, 1) }

// Locker is the semaphore as a Locker that takes so many permits.
func (s *Semaphore) Locker(permits int) Locker[*Hold] { return weighted{s, permits} }

type weighted struct {
	s       *Semaphore
	permits int
}

func (w weighted) Lock(ctx context.Context) (*Hold, error)    { return w.s.Acquire(ctx, w.permits) }
func (w weighted) TryLock(ctx context.Context) (*Hold, error) { return w.s.TryAcquire(ctx, w.permits) }

var _ Locker[*Hold] = (*Semaphore)(nil)

// Limit returns the limit that is stored. It returns ErrConflict if there is none
// and the semaphore was made without one. Other errors are those of Register.Get.
func (s *Semaphore) Limit(ctx context.Context) (int, error) {
	if err := s.agree(ctx); err != nil {
		return 0, err
	}
	limit, _, err := s.limit(ctx)
	if err != nil {
		return 0, fmt.Errorf("semaphore %q: %w", s.name, fault(err))
	}
	return limit, nil
}

// SetLimit changes the limit for all who use the semaphore, whatever it was. When
// it is raised, those who wait are admitted. When it is lowered, holders keep what
// they have, and nobody is admitted until enough of them have left. Errors are
// ErrInvalid and those of Register.Update.
func (s *Semaphore) SetLimit(ctx context.Context, limit int) error {
	if limit < 1 || limit > math.MaxInt32 {
		return &InvalidError{Field: "limit", Problem: fmt.Sprintf("is %d, not between 1 and %d", limit, math.MaxInt32)}
	}
	_, err := s.limits.Update(ctx, func(int) (int, error) { return limit, nil })
	if err == nil {
		s.known.Store(int64(limit))
	}
	return err
}

// agree makes sure that there is a limit, and that it is the one asked for unless
// that was made sure before.
func (s *Semaphore) agree(ctx context.Context) error {
	for s.known.Load() == 0 {
		stored, err := s.limits.Get(ctx)
		switch {
		case err != nil:
			return err
		case stored.Version == 0 && s.asked == 0:
			return fmt.Errorf("semaphore %q: %w: there is no limit yet", s.name, ErrConflict)
		case stored.Version == 0:
			stored, err = s.limits.CompareAndSwap(ctx, 0, s.asked)
			if errors.Is(err, ErrConflict) || errors.Is(err, errUnsettled) && ctx.Err() == nil {
				continue // another was first, perhaps with the same, or perhaps this
			}
			if err != nil {
				return err
			}
		case s.asked != 0 && stored.Value != s.asked:
			return fmt.Errorf("semaphore %q: %w: its limit is %d, not %d", s.name, ErrConflict, stored.Value, s.asked)
		}
		s.known.Store(int64(stored.Value))
	}
	return nil
}

// limit reads the limit, and returns the entry that has it.
func (s *Semaphore) limit(ctx context.Context) (int, driver.Entry, error) {
	q := s.limits.queue
	entries, err := s.client.store.List(ctx, driver.Scope{Space: q.Space, Name: q.Name})
	if err != nil {
		return 0, driver.Entry{}, err
	}
	if len(entries) == 0 {
		return 0, driver.Entry{}, fmt.Errorf("%w: no limit is stored any more", ErrConflict)
	}
	entry := entries[len(entries)-1]
	_, stored, err := s.limits.decode(entry)
	if err == nil && stored.Value < 1 {
		err = fmt.Errorf("%w: a limit of %d is stored", ErrConflict, stored.Value)
	}
	if err != nil {
		return 0, entry, err
	}
	s.known.Store(int64(stored.Value))
	return stored.Value, entry, nil
}

// place prepares a request.
func (s *Semaphore) place(ctx context.Context, permits int) (*place, error) {
	if permits < 1 {
		return nil, &InvalidError{Field: "permits", Problem: fmt.Sprintf("is %d, less than 1", permits)}
	}
	if holdsAlready(ctx, s.client, s.queue) {
		return nil, fmt.Errorf("lock %q: held by the caller already: %w", s.name, ErrDeadlock)
	}
	if err := s.agree(ctx); err != nil {
		return nil, err
	}
	if limit := int(s.known.Load()); permits > limit { // it may have been raised
		if _, _, err := s.limit(ctx); err != nil {
			return nil, fmt.Errorf("lock %q: %w", s.name, fault(err))
		}
	}
	p := &place{sem: s, quota: quota{Permits: permits, Limit: int(s.known.Load())}, since: time.Now()}
	return p, p.possible(p.quota.Limit)
}

// A place is a request for permits.
type place struct {
	sem   *Semaphore
	seat  *seat
	quota quota // as the entry says
	since time.Time
	alone bool // nothing was ahead when it entered
	vague bool // whether the entry says what quota says is not known

	// What was seen last.
	ahead  []driver.Entry // the whole queue, for a request that is not in it
	fits   bool           // the permits are free
	behind bool           // others are behind
	total  int            // permits taken up to and with this request
	limit  int
	source driver.Entry // has the limit
}

func (p *place) possible(limit int) error {
	if p.quota.Permits > limit {
		return &InvalidError{Field: "permits", Problem: fmt.Sprintf("is %d, more than the limit of %d", p.quota.Permits, limit)}
	}
	return nil
}

func (p *place) enter(ctx context.Context) (err error) {
	p.seat, err = p.sem.client.enter(ctx, p.sem.name, p.sem.queue, p.note())
	p.alone = err == nil && p.seat.ahead == nil
	return err
}

// note is the value of the entry.
func (p *place) note() []byte {
	kind := p.sem.kind
	if kind == "" {
		kind = KindSemaphore
	}
	return newQuotaTemplate(kind, "", p.quota, p.sem.owner).publishing(p.sem.shows).at(p.since)
}

// look finds out whether the permits are free. Nobody enters ahead of an entry, so
// what is ahead only becomes less: reading the limit after the queue is as good as
// reading both at once.
func (p *place) look(ctx context.Context) error {
	p.ahead, p.behind = nil, false
	entered := p.seat.session != nil
	if !entered || !p.alone {
		q := p.sem.queue
		entries, err := p.sem.client.store.List(ctx, driver.Scope{Space: q.Space, Name: q.Name})
		if err != nil {
			return err
		}
		p.ahead = entries
		if entered && !p.cut(entries) {
			return driver.ErrGone
		}
		p.seat.ahead = nil
		if n := len(p.ahead); n > 0 {
			p.seat.ahead = &p.ahead[n-1]
		}
	}
	limit, source, err := p.sem.limit(ctx)
	if err != nil {
		return err
	}
	p.limit, p.source = limit, source
	p.total = tally(p.ahead) + p.quota.Permits
	p.fits = p.total <= limit
	return p.possible(limit)
}

// cut divides the queue at the own entry, and reports whether that is there.
func (p *place) cut(entries []driver.Entry) bool {
	for i, e := range entries {
		if e.ID == p.seat.own.ID {
			p.ahead, p.behind = entries[:i], i < len(entries)-1
			return true
		}
	}
	return false
}

// all is what an entry of another recipe counts for: more than any limit. Sums of
// it don't overflow.
const all = math.MaxInt32 + 1

// tally is the number of permits that the entries hold or wait for.
func tally(entries []driver.Entry) (total int) {
	for _, e := range entries {
		total = min(all, total+weight(readEntry(e)))
	}
	return total
}

func weight(e Entry) int {
	if e.Permits < 1 || e.Permits > math.MaxInt32 {
		return all
	}
	return e.Permits
}

// admitted is how many entries, from the first on, hold a semaphore's permits by
// what they say: the permits up to and with theirs are within the limit that they
// knew, or they were granted theirs when it was not.
//
// An entry that is admitted by this may be waiting still, if the limit was lowered
// after it was made; the first one that waits then says so. One that is not
// admitted by this waits, or will say that it does not.
func admitted(queue []Entry) (n int) {
	total := 0
	for ; n < len(queue); n++ {
		e := queue[n]
		total = min(all, total+weight(e))
		if total >= all || total > e.quota.Limit && !e.quota.Granted {
			break
		}
	}
	return n
}

// step looks, and if there are not enough permits waits for something to change.
func (p *place) step(ctx context.Context) (bool, error) {
	if err := p.look(ctx); err != nil || p.fits {
		return p.fits, err
	}
	drv := p.seat.session.drv
	queue := make([]Entry, len(p.ahead))
	for i, e := range p.ahead {
		queue[i] = readEntry(e)
	}
	if last := len(p.ahead) - 1; admitted(queue) <= last {
		// The one directly ahead waits as well, or is of another recipe. In either case
		// it goes, or writes that it was admitted, before this one has a chance.
		return false, drv.Await(ctx, p.ahead[last])
	}
	if p.total <= p.quota.Limit || p.vague { // the limit is lower now; don't look like a holder
		p.quota.Limit, p.vague = p.limit, true
		own, err := drv.Update(ctx, p.seat.own, p.note())
		if err != nil {
			return false, err
		}
		p.seat.own, p.vague = own, false
	}
	return false, p.seat.session.awaitAny(ctx, append([]driver.Entry{p.source}, p.ahead...))
}

// awaitAny returns when one of the entries is gone or has changed.
func (s *session) awaitAny(ctx context.Context, entries []driver.Entry) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(entries))
	for _, e := range entries {
		if !s.client.start(func() { results <- s.drv.Await(ctx, e) }) {
			return ErrClosed
		}
	}
	return <-results
}

// grant makes a hold of permits that are free. It says so in the entry if someone
// behind may believe otherwise.
func (p *place) grant(ctx context.Context) (*Hold, error) {
	hold, err := p.seat.grant(ctx, &p.sem.lockable)
	if err == nil && (p.behind || p.vague || p.total > p.quota.Limit) {
		hold.session.client.start(func() { // until the service confirms, or the hold is over
			_ = hold.rewrite(hold.ctx, "say in the queue that the permits are held", func(n *note) { n.Granted = true })
		})
	}
	return hold, err
}
