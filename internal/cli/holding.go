package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// A grip is what hold has: one lock, or several that are held together.
type grip struct {
	recipes.Held
	holds []namedHold // in the order of their names
}

// A namedHold is a recipes.Hold or recipes.UnfencedHold.
type namedHold interface {
	recipes.Held
	Name() string
}

// holdToken is the hold's fencing token as text, "" if it has none.
func holdToken(h namedHold) string {
	if fenced, ok := h.(interface{ Token() uint64 }); ok {
		return tokenText(fenced.Token())
	}
	return ""
}

// hold does all of the hold command. Its error has the exit code.
func (a *app) hold(ctx context.Context, o holdOptions) error {
	acquire := func(ctx context.Context, t turn) (grip, error) { return a.acquire(ctx, t.service, o) }
	use := func(t turn, g grip, signalled error) error {
		if signalled == nil {
			var stop func()
			t.signals, stop = a.heed(t, g, o)
			defer stop()
			signalled = a.use(ctx, t, g, o)
		}
		return a.giveUp(signalled, releaseTimeout+o.minHold, g.Unlock, "released "+o.what(), o.verbose)
	}
	dial := o.dial()
	dial.leases = true
	return takeTurn(ctx, a, o.command, dial, acquire, use)
}

// what is held, for messages.
func (o holdOptions) what() string {
	if len(o.names) == 1 {
		return fmt.Sprintf("lock %q", o.names[0])
	}
	quoted := make([]string, len(o.names))
	for i, name := range o.names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return "locks " + strings.Join(quoted, ", ")
}

// acquire waits in line for the locks.
func (a *app) acquire(ctx context.Context, client service, o holdOptions) (g grip, err error) {
	if o.verbose && !o.try {
		a.sayQueues(ctx, client, o.names)
	}
	err = within(ctx, o.timeout, o.what(), func(ctx context.Context) error {
		g, err = o.take(ctx, client)
		return err
	})
	if o.semaphore && errors.Is(err, recipes.ErrConflict) {
		err = fmt.Errorf("%w; hold --limit N makes the first, lockctl permits shows and changes it", err)
	}
	return g, err
}

// take takes the one lock, or all of several.
func (o holdOptions) take(ctx context.Context, client service) (grip, error) {
	if unfenced, ok := client.(*recipes.UnfencedClient); ok {
		return o.takeUnfenced(ctx, unfenced)
	}
	locks := map[string]recipes.Locker[*recipes.Hold]{}
	for _, name := range o.names {
		lock, err := o.locker(client, name)
		if err != nil {
			return grip{}, err
		}
		locks[name] = lock
	}
	if len(locks) == 1 {
		hold, err := lock(ctx, locks[o.names[0]], o.try)
		if err != nil {
			return grip{}, err
		}
		return grip{hold, []namedHold{hold}}, nil
	}
	multi, err := recipes.NewMulti(locks)
	if err != nil {
		return grip{}, err
	}
	hold, err := lock(ctx, multi, o.try)
	if err != nil {
		return grip{}, err
	}
	g := grip{Held: hold}
	for _, name := range o.names {
		g.holds = append(g.holds, hold.Holds()[name])
	}
	return g, nil
}

func lock[H recipes.Held](ctx context.Context, l recipes.Locker[H], try bool) (H, error) {
	if try {
		return l.TryLock(ctx)
	}
	return l.Lock(ctx)
}

// takeUnfenced takes a lock of a store without fencing tokens.
func (o holdOptions) takeUnfenced(ctx context.Context, client *recipes.UnfencedClient) (grip, error) {
	if err := o.plain(client); err != nil {
		return grip{}, err
	}
	if len(o.names) > 1 {
		return grip{}, usageError("%s can't hold several locks at once: none of them would have a fencing token", client.Engine())
	}
	m, err := client.Mutex(o.names[0], &recipes.LeaseMutexOptions{MinHold: o.minHold, MaxHold: o.maxHold})
	if err != nil {
		return grip{}, err
	}
	hold, err := lock(ctx, m, o.try)
	if err != nil {
		return grip{}, err
	}
	return grip{hold, []namedHold{hold}}, nil
}

// plain refuses options that a store of leases does not have.
func (o holdOptions) plain(client service) error {
	switch {
	case o.semaphore:
		return usageError("%s has locks only: --permits and --limit need etcd or ZooKeeper", client.Engine())
	case o.shared:
		return usageError("%s has locks only: --shared needs etcd or ZooKeeper", client.Engine())
	case o.releaseWhenAsked:
		return usageError("holders can't be asked in %s: --release-when-asked needs etcd or ZooKeeper", client.Engine())
	}
	return nil
}

// locker is the lock that the options ask for.
func (o holdOptions) locker(s service, name string) (recipes.Locker[*recipes.Hold], error) {
	if leases, ok := s.(*recipes.LeaseClient); ok {
		if err := o.plain(s); err != nil {
			return nil, err
		}
		return leases.Mutex(name, &recipes.LeaseMutexOptions{MinHold: o.minHold, MaxHold: o.maxHold})
	}
	client := s.(*recipes.Client)
	options := &recipes.MutexOptions{MinHold: o.minHold, MaxHold: o.maxHold}
	switch {
	case o.semaphore:
		s, err := client.Semaphore(name, o.limit, options)
		if err != nil {
			return nil, err
		}
		return s.Locker(o.permits), nil
	case o.shared:
		m, err := client.RWMutex(name, options)
		if err != nil {
			return nil, err
		}
		return m.RLocker(), nil
	}
	return client.Mutex(name, options)
}

// sayQueues tells what there is to wait for. It is only told: if the service
// doesn't answer, the waiting itself will say so.
func (a *app) sayQueues(ctx context.Context, client service, names []string) {
	for _, name := range names {
		if lock, err := client.Lock(ctx, name); err == nil && len(lock.Entries) > 0 {
			a.say("waiting for lock %q, held by %s, %s ahead", name, who(lock.Entries[0]), count(len(lock.Entries), "other"))
		}
	}
}

// use runs the command, or waits for a signal, while the lock is held.
func (a *app) use(ctx context.Context, t turn, g grip, o holdOptions) error {
	held := tenure{Lease: g, what: o.what(), env: g.env()}
	if len(o.command) > 0 {
		if o.verbose {
			a.say("holding %s with %s", o.what(), g.tokens())
		}
		_, err := a.run(t, held, o.command, o.verbose)
		return err
	}
	hold := g.holds[0]
	event := func(kind string) eventJSON {
		return eventJSON{
			Event: kind, Time: time.Now().UTC(), Backend: t.backend.name(), Engine: t.service.Engine(),
			Name: hold.Name(), Token: holdToken(hold),
		}
	}
	if a.json() {
		has, owner := event("held"), ownerJSON(hold.Owner())
		has.Owner, has.Deadline = &owner, hold.Deadline().UTC()
		if err := a.writeJSON(has); err != nil {
			return err
		}
	} else {
		a.say("holding %s with %s until interrupted", o.what(), g.tokens())
	}
	return a.rest(ctx, t, held, func(cause error) any {
		lost := event("lost")
		lost.Error = cause.Error()
		return lost
	})
}

// env tells the command of the locks. With several there is no token of all, so
// that none is taken for it.
func (g grip) env() []string {
	names, tokens := g.texts()
	env := []string{"LOCKCTL_NAMES=" + strings.Join(names, "\n"), "LOCKCTL_TOKENS=" + strings.Join(tokens, "\n")}
	if len(g.holds) > 1 {
		return env
	}
	env = append(env, "LOCKCTL_NAME="+names[0])
	if tokens[0] == "" {
		return env
	}
	return append(env, "LOCKCTL_TOKEN="+tokens[0])
}

// tokens are the locks' tokens, for messages.
func (g grip) tokens() string {
	_, tokens := g.texts()
	switch {
	case len(tokens) == 1 && tokens[0] == "":
		return "no fencing token"
	case len(tokens) == 1:
		return "token " + tokens[0]
	}
	return "tokens " + strings.Join(tokens, ", ")
}

func (g grip) texts() (names, tokens []string) {
	for _, hold := range g.holds {
		names, tokens = append(names, hold.Name()), append(tokens, holdToken(hold))
	}
	return names, tokens
}
