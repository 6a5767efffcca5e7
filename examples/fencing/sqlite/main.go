// Command sqlite adds a line to a journal in an SQLite file, which processes of one
// machine share, under a lock: in a transaction that a former holder can't enter.
package main

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/lockctl/lockctl/examples/fencing/internal/demo"
	"github.com/lockctl/lockctl/examples/fencing/row"
	"github.com/lockctl/lockctl/recipes"
)

func main() { demo.Main("sqlite", run) }

func run(ctx context.Context, p *demo.Program) error {
	backend := p.String("backend", demo.Env("LOCKCTL_BACKEND", "etcd://127.0.0.1:23790"), "`URL` of the lock service")
	file := p.String("file", "fencing.db", "the database's `file`")
	p.Parse()
	db, err := open(*file)
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
		number, err := add(late, db, p.Lock, hold.Token(), p.Value)
		if err != nil {
			return err
		}
		fmt.Printf("line %d of the journal is %q\n", number, p.Value)
		return nil
	})
}

// open opens a file that other processes use too, for whose writes it waits.
func open(file string) (*sql.DB, error) {
	return sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
}

// add adds a line to the journal: it reads, computes and writes.
func add(ctx context.Context, db *sql.DB, lock string, token uint64, line string) (number int, err error) {
	err = row.Do(ctx, db, lock, token, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `SELECT count(*) + 1 FROM journal`).Scan(&number); err != nil {
			return fmt.Errorf("count lines: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO journal (number, line) VALUES ($1, $2)`, number, line); err != nil {
			return fmt.Errorf("add line %d: %w", number, err)
		}
		return nil
	})
	return number, err
}
