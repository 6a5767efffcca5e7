package recipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/memory"
)

func TestErrors(t *testing.T) {
	owner := recipes.Owner{Program: "backup", Host: "web-1", PID: 7, Label: "nightly"}
	for _, tc := range []struct {
		err     error
		text    string
		matches []error
	}{
		{&recipes.HeldError{Name: "a", Holder: owner}, `lock "a" is held by backup@web-1:7 (nightly)`, []error{recipes.ErrHeld}},
		{&recipes.HeldError{Name: "a"}, `lock "a" is held by another`, []error{recipes.ErrHeld}},
		{
			&recipes.HeldError{Name: "a", Holder: owner, Err: context.Canceled},
			`lock "a": gave up waiting behind backup@web-1:7 (nightly): context canceled`,
			[]error{recipes.ErrHeld, context.Canceled},
		},
		{
			&recipes.LostError{Name: "a", Reason: recipes.LostExpired, Err: recipes.ErrUnavailable},
			`lock "a" lost: no renewal succeeded before the deadline: service unavailable`,
			[]error{recipes.ErrLost, recipes.ErrUnavailable},
		},
		{
			&recipes.LostError{Name: "a", Reason: recipes.LostBroken, By: owner, Why: "hangs"},
			`lock "a" lost: broken by backup@web-1:7 (nightly): hangs`, []error{recipes.ErrLost},
		},
		{&recipes.LostError{Reason: recipes.LostClosed}, `session lost: the client was closed`, []error{recipes.ErrLost, recipes.ErrClosed}},
		{&recipes.InvalidError{Field: "name", Problem: "is empty"}, `invalid input: name is empty`, []error{recipes.ErrInvalid}},
	} {
		require.Equal(t, tc.text, tc.err.Error())
		for _, match := range tc.matches {
			require.ErrorIs(t, tc.err, match)
		}
	}
	require.NotErrorIs(t, &recipes.LostError{Reason: recipes.LostSession}, recipes.ErrClosed)
}

func TestOwner(t *testing.T) {
	require.Equal(t, "unknown", recipes.Owner{}.String())
	require.Equal(t, "cron", recipes.Owner{Program: "cron"}.String())
	self := recipes.Self()
	require.NotEmpty(t, self.Program)
	require.NotZero(t, self.PID)

	c := open(t, memory.NewServer(), &memory.Options{Client: recipes.ClientOptions{Owner: recipes.Owner{Label: "mine"}}})
	defer c.Close()
	self.Label = "mine"
	require.Equal(t, self, c.Owner())
}

func TestInvalidClientOptions(t *testing.T) {
	for field, options := range map[string]recipes.ClientOptions{
		"ClientOptions.Owner.Label":    {Owner: recipes.Owner{Label: "a\x1b[1m"}},
		"ClientOptions.Owner.Host":     {Owner: recipes.Owner{Host: strings.Repeat("h", 257)}},
		"ClientOptions.Owner.Program":  {Owner: recipes.Owner{Program: "\xff"}},
		"ClientOptions.ConnectTimeout": {ConnectTimeout: -time.Second},
		"ClientOptions.CloseTimeout":   {CloseTimeout: -time.Second},
		"ClientOptions.BreakGrace":     {BreakGrace: -time.Second},
	} {
		_, err := memory.Open(memory.NewServer(), &memory.Options{Client: options})
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
	}
}
