package mysql

import (
	"errors"
	"fmt"
	"strings"

	driversql "github.com/go-sql-driver/mysql"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/sqldb"
)

const columns = `id, token, locked_by,
	TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at),
	TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)`

// dialect is that of MySQL 8 and MariaDB 10.3, and later.
func dialect() sqldb.Dialect {
	return sqldb.Dialect{
		Engine:   "mysql",
		DDL:      ddl,
		Prepare:  prepare,
		Acquire:  func(table string) string { return fmt.Sprintf("SELECT %s FROM %s WHERE name = ?", columns, table) },
		Renew:    renew,
		Release:  release,
		Get:      func(table string) string { return list(table, "name = ?") },
		List:     func(table string) string { return list(table, "INSTR(name, ?) = 1") },
		Guard:    guard,
		Classify: classify,
	}
}

func ddl(table string) []string {
	return []string{fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	name       VARBINARY(512) PRIMARY KEY,
	id         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of the lease; '' when it was released
	token      BIGINT NOT NULL, -- grows with each holder
	locked_by  MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL, -- who it is, as JSON
	locked_at  DATETIME(6) NOT NULL, -- UTC
	expires_at DATETIME(6) NOT NULL -- UTC
) ENGINE=InnoDB`, table)}
}

// prepare takes the row if it is free. The columns are set one after the other, and
// each sees those before it as they are then: so what decides, id and expires_at, comes
// last, and expires_at can tell by the new id.
func prepare(table string) string {
	return strings.NewReplacer(
		"{table}", table,
		"{own}", "id = VALUES(id)",
		"{free}", "(id = '' OR expires_at <= UTC_TIMESTAMP(6))",
	).Replace(`INSERT INTO {table} (name, id, token, locked_by, locked_at, expires_at)
VALUES (?, ?, 1, ?, UTC_TIMESTAMP(6), DATE_ADD(UTC_TIMESTAMP(6), INTERVAL ? MICROSECOND))
ON DUPLICATE KEY UPDATE
	token = IF({own} OR NOT {free}, token, token + 1),
	locked_at = IF({own} OR NOT {free}, locked_at, UTC_TIMESTAMP(6)),
	locked_by = IF({own} OR {free}, VALUES(locked_by), locked_by),
	id = IF({own} OR {free}, VALUES(id), id),
	expires_at = IF({own}, VALUES(expires_at), expires_at)`)
}

func renew(table string) string {
	return fmt.Sprintf(`UPDATE %s SET expires_at = DATE_ADD(UTC_TIMESTAMP(6), INTERVAL ? MICROSECOND), locked_by = ?
WHERE name = ? AND id = ? AND token = ?`, table)
}

func release(table string) string {
	return fmt.Sprintf(`UPDATE %s SET id = '', locked_by = '', expires_at = UTC_TIMESTAMP(6)
WHERE name = ? AND id = ? AND ? IN (0, token)`, table)
}

func list(table, where string) string {
	return fmt.Sprintf(`SELECT name, %s FROM %s WHERE %s AND id <> '' AND expires_at > UTC_TIMESTAMP(6)`, columns, table, where)
}

func guard(table string) string {
	return fmt.Sprintf(`SELECT 1 FROM %s WHERE name = ? AND id = ? AND token = ? FOR UPDATE`, table)
}

// The numbers of errors.
const (
	noSuchDatabase   = 1049
	noSuchColumn     = 1054
	noSuchTable      = 1146
	deniedToDatabase = 1044
	deniedToUser     = 1045
	deniedCommand    = 1142
	deniedColumn     = 1143
)

func classify(err error) error {
	var numbered *driversql.MySQLError
	if !errors.As(err, &numbered) {
		return nil
	}
	switch numbered.Number {
	case noSuchTable, noSuchColumn:
		return fmt.Errorf("%w: %w: make the table with Migrate", recipes.ErrInvalid, err)
	case deniedToDatabase, deniedToUser, deniedCommand, deniedColumn, noSuchDatabase:
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return nil
}
