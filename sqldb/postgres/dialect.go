// Package postgres keeps locks in a table of PostgreSQL, see package sqldb.
//
// Releases are told with NOTIFY. To be woken by them, waiters need a connection of
// their own that listens, which is made from Options.ListenURL and kept while someone
// waits; a pooler between must not share that one between transactions. Without it they
// poll.
//
// The user needs the rights to select, insert and update in the table, and for Migrate
// those to create it.
package postgres

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/sqldb"
)

const (
	micros  = " * INTERVAL '1 microsecond'"
	columns = `id, token, locked_by,
	(EXTRACT(EPOCH FROM locked_at) * 1000000)::bigint AS locked,
	(EXTRACT(EPOCH FROM expires_at - clock_timestamp()) * 1000000)::bigint AS left_for`
)

// dialect is that of PostgreSQL 12 and later. clock_timestamp is the time of day when it
// is evaluated, unlike now, which is that of the transaction's begin.
func dialect() sqldb.Dialect {
	return sqldb.Dialect{
		Engine:   "postgres",
		DDL:      ddl,
		Acquire:  acquire,
		Renew:    renew,
		Release:  release,
		Queried:  true,
		Get:      func(table string) string { return list(table, "name = $1") },
		List:     func(table string) string { return list(table, "name >= $1 AND starts_with(name, $1)") },
		Guard:    guard,
		Classify: classify,
	}
}

func ddl(table string) []string {
	return []string{fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	name       text COLLATE "C" PRIMARY KEY,
	id         text        NOT NULL, -- of the lease; '' when it was released
	token      bigint      NOT NULL, -- grows with each holder
	locked_by  text        NOT NULL, -- who it is, as JSON
	locked_at  timestamptz NOT NULL,
	expires_at timestamptz NOT NULL
)`, table)}
}

// acquire takes the lease, or tells who has it. What the second part sees is from before
// the statement, and may be that the lease was this one, which another has just taken.
func acquire(table string) string {
	return strings.NewReplacer("{table}", table, "{columns}", columns).Replace(`WITH taken AS (
	INSERT INTO {table} AS l (name, id, token, locked_by, locked_at, expires_at)
	VALUES ($1, $2, 1, $3, clock_timestamp(), clock_timestamp() + $4::bigint` + micros + `)
	ON CONFLICT (name) DO UPDATE SET
		id = excluded.id,
		token = CASE WHEN l.id = excluded.id THEN l.token ELSE l.token + 1 END,
		locked_by = excluded.locked_by,
		locked_at = CASE WHEN l.id = excluded.id THEN l.locked_at ELSE clock_timestamp() END,
		expires_at = clock_timestamp() + $4::bigint` + micros + `
	WHERE l.id = excluded.id OR l.id = '' OR l.expires_at <= clock_timestamp()
	RETURNING {columns}
)
SELECT * FROM taken
UNION ALL
SELECT {columns} FROM {table} WHERE name = $1 AND id <> $2 AND NOT EXISTS (SELECT FROM taken)`)
}

func renew(table string) string {
	return fmt.Sprintf(`UPDATE %s SET expires_at = clock_timestamp() + $1::bigint`+micros+`, locked_by = $2
WHERE name = $3 AND id = $4 AND token = $5 RETURNING 1`, table)
}

func release(table string) string {
	return fmt.Sprintf(`WITH released AS (
	UPDATE %s SET id = '', locked_by = '', expires_at = clock_timestamp()
	WHERE name = $1 AND id = $2 AND ($3::bigint = 0 OR token = $3::bigint) RETURNING name
)
SELECT pg_notify('%s', name) FROM released`, table, channel(table))
}

// longestChannel is what PostgreSQL allows for names.
const longestChannel = 63

// channel is where releases are told, in each database by itself.
func channel(table string) string {
	name := "locks_" + strings.ReplaceAll(table, ".", "_")
	if len(name) > longestChannel {
		name = fmt.Sprintf("locks_%x", sha256.Sum224([]byte(table)))
	}
	return name
}

func list(table, where string) string {
	return fmt.Sprintf(`SELECT name, %s FROM %s WHERE %s AND id <> '' AND expires_at > clock_timestamp()`, columns, table, where)
}

func guard(table string) string {
	return fmt.Sprintf(`SELECT 1 FROM %s WHERE name = $1 AND id = $2 AND token = $3 FOR UPDATE`, table)
}

// classify knows SQLSTATE codes.
func classify(err error) error {
	var coded interface{ SQLState() string }
	if !errors.As(err, &coded) {
		return nil
	}
	switch code := coded.SQLState(); {
	case code == "42P01", code == "42703": // no such table, no such column
		return fmt.Errorf("%w: %w: make the table with Migrate", recipes.ErrInvalid, err)
	case code == "42501", strings.HasPrefix(code, "28"), code == "3D000": // privilege, authorization, database
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return nil
}
