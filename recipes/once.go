package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	// maxOnceResult is the greatest size of one result, and maxOnceAll of all that are
	// kept, as JSON.
	maxOnceResult = 64 << 10
	maxOnceAll    = 192 << 10

	defaultKeep = 100
	maxKeep     = 1000
)

// OnceOptions adjust a Once. A nil *OnceOptions means all defaults.
type OnceOptions struct {
	// Keep is how many results are kept, at most 1000; the oldest goes first, also
	// when all together would be more than 192 KiB. Defaults to 100. All who use the
	// name should use the same.
	Keep int
}

// A Once runs operations by their keys: the first caller with a key runs it and
// records its result, and all others with that key get the result without running
// it, for as long as it is kept. All methods may be called at the same time.
//
// # Guarantees
//
//   - Every caller with a key that is kept gets the one result that was recorded.
//   - An operation that fails is not recorded; the next caller runs it again.
//
// # Non-guarantees
//
//   - An operation may run more than once, if a caller dies, or loses its session,
//     after it has begun and before the result is recorded. Give the hold's token to
//     what the operation changes. Only that can make it happen once.
//   - A key is forgotten after as many others as are kept.
//
// Where the results already go to a database, a unique constraint on the key there
// is simpler and does more.
//
// # Costs
//
// A caller that finds a result makes one read. One that runs the operation makes
// three commits: in and out of the queue of the key, and the results, which are one
// value.
type Once[T any] struct {
	client  *Client
	name    string
	keep    int
	results *Register[[]onceResult]
}

// onceResult is the result of one key.
type onceResult struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// NewOnce makes a Once called name, by the rules of NewRegister. It sends nothing.
// A nil opts means all defaults. It returns ErrInvalid when the name or an option
// is out of range.
func NewOnce[T any](c *Client, name string, opts *OnceOptions) (*Once[T], error) {
	keep := defaultKeep
	if opts != nil && opts.Keep != 0 {
		keep = opts.Keep
	}
	if keep < 0 || keep > maxKeep {
		return nil, &InvalidError{Field: "OnceOptions.Keep", Problem: fmt.Sprintf("is %d, not between 1 and %d", keep, maxKeep)}
	}
	results, err := newRegister[[]onceResult](c, driver.SpaceResult, name)
	return &Once[T]{client: c, name: name, keep: keep, results: results}, err
}

// Name is the name of the Once.
func (o *Once[T]) Name() string { return o.name }

// Do returns the result recorded for the key, or else runs f and records what it
// returns, as JSON of at most 64 KiB. Callers with the same key wait for each
// other, in line. The name and the key together have up to 511 bytes. The context
// given to f ends when ctx does, or when the place that keeps others out is lost;
// f should stop then.
//
// An error of f is returned and nothing recorded. If f was run and another's result
// is recorded, because the place was lost, Do returns that result. If f was run and
// recording failed, Do returns f's result and that error: ErrInvalid for a result
// that can't be stored, ErrUnavailable, ErrDenied or ErrClosed; the next caller may
// run it again.
//
// Otherwise errors are those of Mutex.Lock, and ErrConflict if what is recorded is
// not a T.
func (o *Once[T]) Do(ctx context.Context, key string, f func(ctx context.Context, hold *Hold) (T, error)) (T, error) {
	var none T
	line, err := o.line(key)
	if err != nil {
		return none, err
	}
	if result, ok, err := o.recorded(ctx, key); ok || err != nil {
		return result, err
	}
	var result T
	var recording error
	err = line.Do(ctx, func(ctx context.Context, hold *Hold) error {
		var ok bool
		var err error
		if result, ok, err = o.recorded(ctx, key); ok || err != nil {
			return err
		}
		if result, err = f(ctx, hold); err != nil {
			result = none
			return err
		}
		result, recording = o.record(context.WithoutCancel(ctx), key, result)
		return nil
	})
	if errors.Is(err, ErrLost) && recording == nil {
		// The place was lost, not the result, unless f says that it is.
		if kept, ok, getErr := o.recorded(ctx, key); ok && getErr == nil {
			return kept, nil
		}
	}
	return result, errors.Join(err, recording)
}

// line is the queue of those who want to run the operation of a key.
func (o *Once[T]) line(key string) (*Mutex, error) {
	problem := textProblem(key, max(0, driver.MaxName-len(o.name)-len(driver.PartSeparator)))
	if key == "" {
		problem = "is empty"
	}
	if problem != "" {
		return nil, &InvalidError{Field: "key", Problem: problem}
	}
	m, err := o.client.Mutex(o.name, &MutexOptions{Kind: KindOnce})
	if err == nil {
		m.name = o.name + "/" + key
		m.queue = driver.Queue{Space: driver.SpaceOnce, Name: o.name + driver.PartSeparator + key}
	}
	return m, err
}

// recorded returns the result of a key, if there is one.
func (o *Once[T]) recorded(ctx context.Context, key string) (result T, ok bool, err error) {
	all, err := o.results.Get(ctx)
	if err != nil {
		return result, false, err
	}
	return o.find(all.Value, key)
}

func (o *Once[T]) find(all []onceResult, key string) (result T, ok bool, err error) {
	for _, r := range all {
		if r.Key != key {
			continue
		}
		if err := json.Unmarshal(r.Value, &result); err != nil {
			return result, false, fmt.Errorf("once %q: %w: the result of %q is not a %T: %w", o.name, ErrConflict, key, result, err)
		}
		return result, true, nil
	}
	return result, false, nil
}

// record adds a result, unless there is one for the key, and returns what is
// recorded.
func (o *Once[T]) record(ctx context.Context, key string, result T) (T, error) {
	value, err := json.Marshal(result)
	switch {
	case err != nil:
		return result, &InvalidError{Field: "result", Problem: "can't be stored as JSON: " + err.Error()}
	case len(value) > maxOnceResult:
		return result, &InvalidError{Field: "result", Problem: fmt.Sprintf("is %d bytes as JSON, more than %d", len(value), maxOnceResult)}
	}
	ctx, cancel := context.WithTimeout(ctx, o.client.opts.CloseTimeout)
	defer cancel()
	add := func(all []onceResult) ([]onceResult, error) {
		if slices.ContainsFunc(all, func(r onceResult) bool { return r.Key == key }) {
			return all, errOpen
		}
		return o.trim(append(all, onceResult{key, value})), nil
	}
	all, err := o.results.Update(ctx, add)
	for errors.Is(err, errUnsettled) && ctx.Err() == nil {
		all, err = o.results.Update(ctx, add) // which finds it, if it was done
	}
	if errors.Is(err, errOpen) {
		kept, _, err := o.find(all.Value, key)
		return kept, err
	}
	return result, err
}

// trim drops the oldest results that are too many or too much.
func (o *Once[T]) trim(all []onceResult) []onceResult {
	all = all[max(0, len(all)-o.keep):]
	size := 0
	for i := len(all) - 1; i >= 0; i-- {
		stored, err := json.Marshal(all[i])
		if err != nil { // a text and what was encoded before always encode
			panic(err)
		}
		if size += len(stored) + 1; size > maxOnceAll {
			return all[i+1:]
		}
	}
	return all
}
