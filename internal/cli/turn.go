package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockctl/lockctl/internal/supervise"
	"github.com/lockctl/lockctl/recipes"
)

// A turn is what a command works with that has something and runs another under
// it: hold, elect, job, queue take and so on.
type turn struct {
	backend backend
	service service
	client  *recipes.Client  // nil for a store of leases
	path    string           // of the executable to run, "" without one
	signals <-chan os.Signal // that ask lockctl to end
}

// A tenure is what a program can run under: a hold, a lead, an item of a queue.
type tenure struct {
	supervise.Lease
	what string   // it is, such as: lock "jobs/daily"
	env  []string // that the command finds, besides what it finds under each tenure

	stdin, stdout *os.File // of the command; nil for lockctl's own
}

// takeTurn connects, has acquire wait in line, and use what it got, as await does.
func takeTurn[T any](ctx context.Context, a *app, command []string, dial dialOptions,
	acquire func(ctx context.Context, t turn) (T, error),
	use func(t turn, got T, signalled error) error) error {
	return a.withTurn(ctx, command, dial, func(t turn) error {
		return await(ctx, t, func(ctx context.Context) (T, error) { return acquire(ctx, t) },
			func(got T, signalled error) error { return use(t, got, signalled) })
	})
}

// withTurn finds the command's executable, connects and runs do. A signal ends the
// connecting; afterwards signals are left for do.
func (a *app) withTurn(ctx context.Context, command []string, dial dialOptions, do func(t turn) error) error {
	path, err := lookUp(command)
	if err != nil {
		return err
	}
	b, err := a.oneBackend()
	if err != nil {
		return err
	}
	signals, stop := supervise.Endings()
	defer stop()
	defer survivePipes()()
	connecting, cancel := cancelOnSignal(ctx, signals)
	defer cancel()
	t := turn{backend: b, path: path, signals: signals}
	if dial.leases {
		t.service, err = b.open(connecting, dial)
	} else {
		t.service, err = opened(b.openClient(connecting, dial))
	}
	cancel()
	if err != nil {
		return because(connecting, err)
	}
	defer func() {
		if closeErr := t.service.Close(); closeErr != nil {
			a.say("the lock may not be released before its TTL has passed: %v", closeErr)
		}
	}()
	if signalled := interruption(connecting); signalled != nil {
		return signalled
	}
	t.client, _ = t.service.(*recipes.Client)
	return do(t)
}

// await has acquire wait in line, and use what it got. A signal ends the waiting;
// afterwards signals are left for use. If one came with what was waited for, use
// is told.
func await[T any](ctx context.Context, t turn, acquire func(context.Context) (T, error),
	use func(got T, signalled error) error) error {
	waiting, cancel := cancelOnSignal(ctx, t.signals)
	defer cancel()
	got, err := acquire(waiting)
	cancel()
	if err != nil {
		return because(waiting, err)
	}
	return use(got, interruption(waiting))
}

// within bounds a wait by a timeout, 0 for none. If that ends it, the error has
// what as its text and the time that was waited.
func within(ctx context.Context, timeout time.Duration, what string, wait func(context.Context) error) error {
	if timeout <= 0 {
		return wait(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := wait(bounded)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, recipes.ErrUnavailable) {
		return &exit{exitNotAcquired, fmt.Errorf("%s: gave up after %v%s", what, timeout, ahead(err))}
	}
	return err
}

// ahead says who was in the way, if an error tells.
func ahead(err error) string {
	if held := (*recipes.HeldError)(nil); errors.As(err, &held) {
		return fmt.Sprintf(", with %s ahead", held.Holder)
	}
	return ""
}

// owner is how lockctl presents itself: by the command that it runs.
func owner(command []string, label string) recipes.Owner {
	if len(command) == 0 {
		return recipes.Owner{Label: label}
	}
	return recipes.Owner{Program: filepath.Base(command[0]), Label: label}
}

// survivePipes keeps a message that nobody reads any more from ending lockctl, and
// with it the command. Unlike ignoring the signal, it leaves the command's alone.
func survivePipes() (undo func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// run runs the command for as long as it may. It returns the signal that asked it to
// end, if one came.
func (a *app) run(t turn, held tenure, command []string, verbose bool) (ending os.Signal, err error) {
	c := supervise.Command{
		Path: t.path, Args: command, Env: commandEnv(a.Env, t, held),
		Stdin: cmp.Or(held.stdin, a.Stdin), Stdout: cmp.Or(held.stdout, a.Stdout), Stderr: a.Stderr,
		Signals: t.signals, Grace: grace(held, time.Now()),
		Note: func(what string) { a.say("%s", what) },
	}
	if verbose {
		c.Trace = c.Note
	}
	result, err := supervise.Run(held, c)
	switch {
	case err != nil:
		err = cannotRun(command[0], err)
	case result.Lost != nil:
		err = lostError(held, fmt.Errorf("%w; the command was ended (exit code %d)", result.Lost, result.Code))
	case result.Code != 0:
		err = &exit{code: result.Code}
	}
	return result.Signal, err
}

// grace is the time from SIGTERM to the deadline: a quarter of the TTL, measured
// on the fresh hold, which has seven eighths of the TTL left. A hold that is a
// bit older gives less, and that is right as well: between two renewals of a
// healthy hold five eighths are always left.
func grace(held supervise.Lease, now time.Time) time.Duration {
	return max(held.Deadline().Sub(now)*2/7, time.Millisecond)
}

// rest waits, while something is held, until a signal arrives, ctx ends, or it is
// lost, which it tells with the object that lost makes of the cause.
func (a *app) rest(ctx context.Context, t turn, held tenure, lost func(cause error) any) error {
	select {
	case <-t.signals:
		return nil
	case <-ctx.Done():
		return nil
	case <-held.Context().Done():
	}
	cause := context.Cause(held.Context())
	if a.json() {
		if err := a.writeJSON(lost(cause)); err != nil {
			return err
		}
	}
	return lostError(held, cause)
}

// lostError is the end of what was lost, told with its name once.
func lostError(held tenure, why error) error {
	if !errors.Is(why, recipes.ErrLost) {
		why = fmt.Errorf("%s: %w", held.what, why)
	}
	return &exit{exitLost, why}
}

// isLost reports whether the command was ended because of a loss.
func isLost(result error) bool {
	return errors.Is(result, recipes.ErrLost) || errors.Is(result, supervise.ErrExpiring)
}

// releaseTimeout bounds the wait for the service to confirm a release.
const releaseTimeout = 5 * time.Second

// giveUp gives up what was held, and says done if it is verbose. That it turns out
// to have been lost goes before how the command ended; that the release was not
// confirmed does not, because what was held frees itself.
func (a *app) giveUp(result error, timeout time.Duration, release func(context.Context) error, done string, verbose bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := release(ctx)
	switch {
	case err == nil:
		if verbose {
			a.say("%s", done)
		}
	case exitCode(result) == exitLost:
	case errors.Is(err, recipes.ErrLost):
		return &exit{exitLost, err}
	default:
		a.say("%v", err)
	}
	return result
}

// commandEnv is the environment of the command: what lockctl found, but for what
// tells of the tenure of another lockctl around it, and what tells of this one.
func commandEnv(env []string, t turn, held tenure) []string {
	inherited := slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return ofTenure(name)
	})
	return append(append(inherited, held.env...),
		"LOCKCTL_OWNER="+t.service.Owner().String(),
		"LOCKCTL_DEADLINE="+held.Deadline().UTC().Format(time.RFC3339Nano))
}

// ofTenure reports whether a variable tells a command of what it runs under.
func ofTenure(variable string) bool {
	switch variable {
	case "LOCKCTL_NAME", "LOCKCTL_NAMES", "LOCKCTL_TOKEN", "LOCKCTL_TOKENS", "LOCKCTL_TERM", "LOCKCTL_OWNER",
		"LOCKCTL_DEADLINE", "LOCKCTL_ID", "LOCKCTL_ITEM", "LOCKCTL_ATTEMPT", "LOCKCTL_TICK", "LOCKCTL_MISSED":
		return true
	}
	return false
}

// lookUp finds the command's executable, before anyone has to wait for it.
func lookUp(command []string) (string, error) {
	if len(command) == 0 {
		return "", nil
	}
	found, err := exec.LookPath(command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", cannotRun(command[0], err)
	}
	return found, nil
}

// cannotRun is the error of a command that could not be started, with the exit
// code that shells give.
func cannotRun(command string, err error) error {
	var cause *exec.Error
	if errors.As(err, &cause) {
		err = cause.Err
	}
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	code := exitCannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		code = exitNotFound
	}
	return &exit{code, fmt.Errorf("can't run %q: %w", command, err)}
}
