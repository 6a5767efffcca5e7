// Package mysql keeps locks in a table of MySQL or MariaDB, see package sqldb.
//
// Who waits polls. The user needs the rights to select, insert and update in the table,
// and for Migrate those to create it. Statements are single ones in autocommit mode, so
// the isolation level does not matter; the storage engine is InnoDB.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"

	driversql "github.com/go-sql-driver/mysql"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/sqldb"
)

// Migrate makes the table unless it is there.
func Migrate(ctx context.Context, db *sql.DB, opts *sqldb.Options) error {
	return sqldb.Migrate(ctx, db, dialect(), opts)
}

// DDL is what Migrate executes, for a table of that name.
func DDL(table string) string { return ddl(table)[0] }

// Open makes a client over a database, which stays open when the client is closed. It
// sends nothing. The driver must be github.com/go-sql-driver/mysql. It returns
// ErrInvalid for options that are out of range.
func Open(db *sql.DB, opts *sqldb.Options) (*recipes.LeaseClient, error) {
	return sqldb.Open(db, dialect(), opts, false)
}

// Dial connects to a database by its URL, such as
// "mysql://user@host:3306/database?ttl=15s", and makes the table unless it is there.
// Parameters that are not those of sqldb.ParseURL are the driver's. It returns
// ErrInvalid for a URL or options that are out of range, ErrDenied or ErrUnavailable.
func Dial(ctx context.Context, rawURL string, opts *sqldb.Options) (*recipes.LeaseClient, error) {
	u, o, err := sqldb.ParseURL(rawURL, opts, "mysql")
	if err != nil {
		return nil, err
	}
	config, err := driversql.ParseDSN("/?" + u.RawQuery)
	if err != nil {
		return nil, &recipes.InvalidError{Field: "URL", Problem: "has a parameter that the driver does not take"}
	}
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	config.DBName = strings.TrimPrefix(u.Path, "/")
	if u.User != nil {
		config.User = u.User.Username()
		config.Passwd, _ = u.User.Password()
	}
	config.InterpolateParams = true // one round trip for each statement
	config.Logger = &driversql.NopLogger{}
	connector, err := driversql.NewConnector(config)
	if err != nil {
		return nil, &recipes.InvalidError{Field: "URL", Problem: "is not one that the driver takes"}
	}
	db := sql.OpenDB(connector)
	sqldb.Bound(db)
	client, err := sqldb.Open(db, dialect(), o, true)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := sqldb.Prepare(ctx, db, dialect(), o); err != nil {
		return nil, errors.Join(fmt.Errorf("mysql at %s: %w", config.Addr, err), client.Close())
	}
	return client, nil
}

// Guard returns ErrLost, as a *recipes.LostError, if another has the lock of the hold
// or if it was released. Otherwise the lock stays the hold's until the transaction
// ends: whoever wants it waits for that, and so do the hold's own renewals. So call it
// last, right before Commit. The table is that of the client's options.
func Guard(ctx context.Context, tx *sql.Tx, hold *recipes.Hold, opts *sqldb.Options) error {
	return sqldb.Guard(ctx, tx, dialect(), opts, hold)
}
