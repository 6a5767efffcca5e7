// Package sqlite keeps locks in a table of an SQLite file that processes of one machine
// share, see package sqldb.
//
// Who waits polls. A request that finds the file locked waits for as long as the
// database's busy_timeout says, and is repeated then.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the driver "sqlite"

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
// sends nothing. Set busy_timeout, or concurrent requests fail and are repeated later.
// It returns ErrInvalid for options that are out of range.
func Open(db *sql.DB, opts *sqldb.Options) (*recipes.LeaseClient, error) {
	return sqldb.Open(db, dialect(), opts, false)
}

// Dial opens a file by its URL, such as "sqlite:locks.db?ttl=15s" or
// "sqlite:///var/lib/locks.db", and makes the file and the table unless they are there.
// The parameters are those of sqldb.ParseURL. It returns ErrInvalid for a URL or options
// that are out of range, and ErrUnavailable.
func Dial(ctx context.Context, rawURL string, opts *sqldb.Options) (*recipes.LeaseClient, error) {
	u, o, err := sqldb.ParseURL(rawURL, opts, "sqlite")
	if err != nil {
		return nil, err
	}
	file := u.Path
	if u.Opaque != "" {
		if file, err = url.PathUnescape(u.Opaque); err != nil {
			file = ""
		}
	}
	if file == "" || u.Host != "" {
		return nil, &recipes.InvalidError{Field: "URL", Problem: "must name a file, as sqlite:path or sqlite:///path"}
	}
	if u.RawQuery != "" {
		return nil, &recipes.InvalidError{Field: "URL", Problem: "has an unknown parameter; known are ttl, poll and table"}
	}
	name := url.URL{Scheme: "file", Opaque: url.PathEscape(file)}
	db, err := sql.Open("sqlite", name.String()+"?_pragma=busy_timeout(2000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("sqlite file %s: %w", file, err)
	}
	sqldb.Bound(db)
	client, err := sqldb.Open(db, dialect(), o, true)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := sqldb.Prepare(ctx, db, dialect(), o); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite file %s: %w", file, err), client.Close())
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
