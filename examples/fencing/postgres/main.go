// Command postgres writes a row in PostgreSQL under a lock. The row refuses the
// write of a former holder.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/lockctl/lockctl/examples/fencing/internal/demo"
	"github.com/lockctl/lockctl/examples/fencing/row"
	"github.com/lockctl/lockctl/recipes"
)

func main() { demo.Main("postgres", run) }

func run(ctx context.Context, p *demo.Program) error {
	backend := p.String("backend", demo.Env("LOCKCTL_BACKEND", "etcd://127.0.0.1:23790"), "`URL` of the lock service")
	database := p.String("database", os.Getenv("DATABASE_URL"), "`URL` of the database: postgres://user@host/name")
	p.Parse()
	if *database == "" {
		p.Refuse("give the database's URL with -database or DATABASE_URL")
	}
	db, err := sql.Open("pgx", *database)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := demo.Dial(ctx, *backend)
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := client.Mutex(p.Lock, nil)
	if err != nil {
		return err
	}
	return mutex.Do(ctx, func(ctx context.Context, hold *recipes.Hold) error {
		if _, err := db.ExecContext(ctx, row.Schema); err != nil {
			return fmt.Errorf("make tables: %w", err)
		}
		late, err := p.Pause(hold)
		if err != nil {
			return err
		}
		if err := row.Write(late, db, "daily", p.Value, hold.Token()); err != nil {
			return err
		}
		fmt.Printf("row \"daily\" is now %q\n", p.Value)
		return nil
	})
}
