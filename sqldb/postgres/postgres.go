package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/sqldb"
)

// Options adjust a client. A nil *Options means all defaults.
type Options struct {
	sqldb.Options
	// ListenURL is where to connect for hearing of releases, as pgx takes it. Defaults
	// to not listening: those who wait poll.
	ListenURL string
}

func (o *Options) common() *sqldb.Options {
	if o == nil {
		return nil
	}
	return &o.Options
}

// Migrate makes the table unless it is there.
func Migrate(ctx context.Context, db *sql.DB, opts *Options) error {
	return sqldb.Migrate(ctx, db, dialect(), opts.common())
}

// DDL is what Migrate executes, for a table of that name.
func DDL(table string) string { return ddl(table)[0] }

// Open makes a client over a database, which stays open when the client is closed. It
// sends nothing. Any driver of PostgreSQL will do. It returns ErrInvalid for options
// that are out of range.
func Open(db *sql.DB, opts *Options) (*recipes.LeaseClient, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	return open(db, o, false)
}

func open(db *sql.DB, o Options, owned bool) (*recipes.LeaseClient, error) {
	store, err := sqldb.NewStore(db, dialect(), &o.Options, owned)
	if err != nil {
		return nil, err
	}
	var leaser driver.Leaser = store
	if o.ListenURL != "" {
		leaser = &listeningStore{store, newListener(o.ListenURL, channel(store.Table()))}
	}
	return recipes.NewLeaseClient(leaser, &o.Lease)
}

// Dial connects to a database by its URL, such as
// "postgres://user@host:5432/database?ttl=15s", makes the table unless it is there, and
// listens for releases. Parameters that are not those of sqldb.ParseURL are pgx's. It
// returns ErrInvalid for a URL or options that are out of range, ErrDenied or
// ErrUnavailable.
func Dial(ctx context.Context, rawURL string, opts *Options) (*recipes.LeaseClient, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	u, common, err := sqldb.ParseURL(rawURL, &o.Options, "postgres", "postgresql")
	if err != nil {
		return nil, err
	}
	o.Options = *common
	if o.ListenURL == "" {
		o.ListenURL = u.String()
	}
	db, err := sql.Open("pgx", u.String())
	if err != nil {
		return nil, &recipes.InvalidError{Field: "URL", Problem: "is not one that pgx takes"}
	}
	sqldb.Bound(db)
	client, err := open(db, o, true)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := sqldb.Prepare(ctx, db, dialect(), &o.Options); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres at %s: %w", u.Host, err), client.Close())
	}
	return client, nil
}

// Guard returns ErrLost, as a *recipes.LostError, if another has the lock of the hold
// or if it was released. Otherwise the lock stays the hold's until the transaction
// ends: whoever wants it waits for that, and so do the hold's own renewals. So call it
// last, right before Commit. The table is that of the client's options.
func Guard(ctx context.Context, tx *sql.Tx, hold *recipes.Hold, opts *Options) error {
	return sqldb.Guard(ctx, tx, dialect(), opts.common(), hold)
}
