package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/recipes"
)

func (a *app) permitsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "permits NAME [LIMIT]",
		Short: "Print or change the number of permits of a semaphore",
		Long: `Print how many permits all holders of a semaphore can have together, or change that. When there
are more, those who wait are let in. When there are less, holders keep theirs, and nobody
is let in until enough have been given back.

Exit code: 75 if there is no limit yet.`,
		Example: `  lockctl permits gpus
  lockctl permits gpus 8`,
		Args: values("permits NAME [LIMIT]", 1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit := 0
			if len(args) == 2 {
				n, err := strconv.ParseInt(args[1], 10, 32)
				if err != nil || n < 1 {
					return usageError("the limit %q is not a number of 1 or more", args[1])
				}
				limit = int(n)
			}
			return a.ask(cmd.Context(), func(ctx context.Context, b backend, client *recipes.Client) error {
				return a.permits(ctx, b, client, args[0], limit)
			})
		},
	}
}

// permits prints the limit, or changes it if it is not 0.
func (a *app) permits(ctx context.Context, b backend, client *recipes.Client, name string, limit int) error {
	s, err := client.Semaphore(name, 0, nil)
	if err != nil {
		return err
	}
	if limit > 0 {
		err = s.SetLimit(ctx, limit)
	} else {
		limit, err = s.Limit(ctx)
	}
	switch {
	case err != nil:
		return conflicting(err)
	case a.json():
		return a.writeJSON(permitsJSON{newNamed(b, client, name), limit})
	}
	_, err = fmt.Fprintln(a.Stdout, limit)
	return err
}

// permitsJSON is what permits writes.
type permitsJSON struct {
	namedJSON
	Limit int `json:"limit"`
}
