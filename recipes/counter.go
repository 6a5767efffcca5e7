package recipes

import (
	"context"
	"fmt"
	"math"

	"github.com/lockctl/lockctl/recipes/driver"
)

// A Counter is a number that all processes count with. It is a Register of an
// int64, and stays when its users are gone. All methods may be called at the same
// time. Each Add costs a read and a commit, and another of each for every Add of
// others that came in between.
type Counter struct {
	register *Register[int64]
}

// NewCounter makes a counter called name, by the rules of NewRegister. Registers
// and counters of the same name are different things. It sends nothing.
func NewCounter(c *Client, name string) (*Counter, error) {
	register, err := newRegister[int64](c, driver.SpaceCounter, name)
	return &Counter{register}, err
}

// Name is the name of the counter.
func (c *Counter) Name() string { return c.register.name }

// Get returns the number, 0 if nobody has counted yet. Errors are those of
// Register.Get.
func (c *Counter) Get(ctx context.Context) (int64, error) {
	v, err := c.register.Get(ctx)
	return v.Value, err
}

// Add adds delta, which may be negative, and returns the new number. It returns
// ErrInvalid, and adds nothing, if the number would not fit into 64 bits; other
// errors are those of Register.Update. With ErrUnavailable it may or may not have
// been added.
func (c *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	v, err := c.register.Update(ctx, func(n int64) (int64, error) {
		if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
			return n, &InvalidError{Field: "delta", Problem: fmt.Sprintf("would take the counter beyond 64 bits from %d", n)}
		}
		return n + delta, nil
	})
	return v.Value, err
}
