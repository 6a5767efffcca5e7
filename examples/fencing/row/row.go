// Package row guards what is in an SQL database with fencing tokens. Its statements
// are the same for PostgreSQL and SQLite.
package row

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrStale says that a later holder of the lock has been there, so nothing was
// written. Whoever gets it has lost the lock.
var ErrStale = errors.New("refused: a later holder of the lock has been here")

// Schema makes the tables of this package, where they are missing.
const Schema = `
CREATE TABLE IF NOT EXISTS report (
	name  text   PRIMARY KEY,
	value text   NOT NULL,
	token bigint NOT NULL -- of the holder that wrote last
);
CREATE TABLE IF NOT EXISTS fence (
	lock  text   PRIMARY KEY,
	token bigint NOT NULL -- of the last holder that has been here
);
CREATE TABLE IF NOT EXISTS journal (
	number bigint PRIMARY KEY,
	line   text   NOT NULL
);`

// An equal token is of the same holder, who may write again.
const write = `
INSERT INTO report AS r (name, value, token) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, token = excluded.token
WHERE r.token <= excluded.token`

// Write writes one row that carries the token itself: in one statement, so that
// there is no moment between the check and the write.
func Write(ctx context.Context, db *sql.DB, name, value string, token uint64) error {
	result, err := db.ExecContext(ctx, write, name, value, int64(token)) // a token has 63 bits
	if err != nil {
		return fmt.Errorf("write row %q with token %d: %w", name, token, err)
	}
	return checked(result, "write row", name, token)
}

const read = `
INSERT INTO report AS r (name, value, token) VALUES ($1, '', $2)
ON CONFLICT (name) DO UPDATE SET token = excluded.token
WHERE r.token <= excluded.token
RETURNING value`

// Read reads the row that Write writes, "" if there is none. From then on all earlier
// holders are refused, although nothing was changed yet: what was read stays true
// until the reader, or a later holder, writes.
func Read(ctx context.Context, db *sql.DB, name string, token uint64) (value string, err error) {
	err = db.QueryRowContext(ctx, read, name, int64(token)).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrStale
	}
	if err != nil {
		return "", fmt.Errorf("read row %q with token %d: %w", name, token, err)
	}
	return value, nil
}

const enter = `
INSERT INTO fence AS f (lock, token) VALUES ($1, $2)
ON CONFLICT (lock) DO UPDATE SET token = excluded.token
WHERE f.token <= excluded.token`

// Do runs f in a transaction that keeps out all earlier holders of the lock, from its
// first statement on. f may read and write whatever the lock protects, in any number
// of tables, as long as every program does that in Do, and through tx alone.
//
// The first statement also locks the lock's row in the table fence until the end. So
// a later holder waits for f, and f sees all that earlier ones have committed.
func Do(ctx context.Context, db *sql.DB, lock string, token uint64, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("enter under lock %q: %w", lock, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	result, err := tx.ExecContext(ctx, enter, lock, int64(token))
	if err != nil {
		return fmt.Errorf("enter under lock %q: %w", lock, err)
	}
	if err := checked(result, "enter under lock", lock, token); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit under lock %q: %w", lock, err)
	}
	return nil
}

// checked is ErrStale if the statement has changed nothing.
func checked(result sql.Result, what, name string, token uint64) error {
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = ErrStale
	}
	if err != nil {
		return fmt.Errorf("%s %q with token %d: %w", what, name, token, err)
	}
	return nil
}
