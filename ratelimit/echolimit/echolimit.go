// Package echolimit is package httplimit as middleware of echo.
package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/ratelimit/httplimit"
)

// New makes middleware that has requests go on which the limiter admits; the others are
// answered. It returns ErrInvalid for a bad option.
func New(limiter *ratelimit.Limiter, opts *httplimit.Options) (echo.MiddlewareFunc, error) {
	l, err := httplimit.NewLimit(limiter, opts)
	if err != nil {
		return nil, err
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !l.Admit(c.Response(), c.Request()) {
				return nil // it is answered
			}
			return next(c)
		}
	}, nil
}
