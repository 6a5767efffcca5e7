package sqlite

import (
	"fmt"
	"strings"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/sqldb"
)

// now and later are texts in UTC, to the millisecond, which are ordered as the times
// are. The time of "now" is the same all through a statement.
const (
	now     = `strftime('%Y-%m-%d %H:%M:%f', 'now')`
	columns = `id, token, locked_by,
	CAST((julianday(locked_at) - 2440587.5) * 86400000000 AS INTEGER),
	CAST((julianday(expires_at) - julianday('now')) * 86400000000 AS INTEGER)`
)

// later is the time after as many microseconds as the parameter says.
func later(parameter string) string {
	return `strftime('%Y-%m-%d %H:%M:%f', 'now', printf('+%.3f seconds', ` + parameter + ` / 1000000.0))`
}

// dialect is that of SQLite 3.35 and later.
func dialect() sqldb.Dialect {
	return sqldb.Dialect{
		Engine:   "sqlite",
		DDL:      ddl,
		Prepare:  prepare,
		Acquire:  func(table string) string { return fmt.Sprintf("SELECT %s FROM %s WHERE name = ?", columns, table) },
		Renew:    renew,
		Release:  release,
		Queried:  true,
		Get:      func(table string) string { return list(table, "name = ?") },
		List:     func(table string) string { return list(table, "substr(name, 1, length(?1)) = ?1") },
		Guard:    guard,
		Classify: classify,
	}
}

func ddl(table string) []string {
	return []string{fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	name       TEXT PRIMARY KEY,
	id         TEXT    NOT NULL, -- of the lease; '' when it was released
	token      INTEGER NOT NULL, -- grows with each holder
	locked_by  TEXT    NOT NULL, -- who it is, as JSON
	locked_at  TEXT    NOT NULL, -- UTC
	expires_at TEXT    NOT NULL  -- UTC
)`, table)}
}

func prepare(table string) string {
	return strings.NewReplacer("{table}", table, "{now}", now, "{later}", later("?4")).Replace(
		`INSERT INTO {table} AS l (name, id, token, locked_by, locked_at, expires_at)
VALUES (?1, ?2, 1, ?3, {now}, {later})
ON CONFLICT (name) DO UPDATE SET
	id = excluded.id,
	token = CASE WHEN l.id = excluded.id THEN l.token ELSE l.token + 1 END,
	locked_by = excluded.locked_by,
	locked_at = CASE WHEN l.id = excluded.id THEN l.locked_at ELSE {now} END,
	expires_at = {later}
WHERE l.id = excluded.id OR l.id = '' OR l.expires_at <= {now}`)
}

func renew(table string) string {
	return fmt.Sprintf(`UPDATE %s SET expires_at = %s, locked_by = ?2
WHERE name = ?3 AND id = ?4 AND token = ?5 RETURNING 1`, table, later("?1"))
}

func release(table string) string {
	return fmt.Sprintf(`UPDATE %s SET id = '', locked_by = '', expires_at = %s
WHERE name = ?1 AND id = ?2 AND (?3 = 0 OR token = ?3) RETURNING 1`, table, now)
}

func list(table, where string) string {
	return fmt.Sprintf(`SELECT name, %s FROM %s WHERE %s AND id <> '' AND expires_at > %s`, columns, table, where, now)
}

// guard writes, so that the transaction has the lock of the file.
func guard(table string) string {
	return fmt.Sprintf(`UPDATE %s SET token = token WHERE name = ? AND id = ? AND token = ? RETURNING 1`, table)
}

func classify(err error) error {
	if text := err.Error(); strings.Contains(text, "no such table") || strings.Contains(text, "no such column") {
		return fmt.Errorf("%w: %w: make the table with Migrate", recipes.ErrInvalid, err)
	}
	return nil
}
