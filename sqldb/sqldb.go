package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	defaultTable          = "distributed_locks"
	defaultConnectTimeout = 5 * time.Second
)

// Options adjust a client. A nil *Options means all defaults.
type Options struct {
	// Table is the table of the locks, as "table" or "schema.table", of letters, digits
	// and underscores. Defaults to "distributed_locks".
	Table string
	// Lease has the options that all clients of leases share.
	Lease recipes.LeaseOptions
}

// isPlainTable reports whether a name of a table, or of a schema and a table, needs no
// quoting in any database.
func isPlainTable(name string) bool {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
		if part == "" || len(part) > 48 || !strings.Contains(letters, part[:1]) || strings.Trim(part, letters+"0123456789") != "" {
			return false
		}
	}
	return len(parts) <= 2
}

// TableName is the table that the options name. It returns ErrInvalid for a name that
// would need quoting.
func (o *Options) TableName() (string, error) {
	if o == nil || o.Table == "" {
		return defaultTable, nil
	}
	if !isPlainTable(o.Table) {
		return "", &recipes.InvalidError{Field: "Options.Table", Problem: fmt.Sprintf(
			"%q is not a name of letters, digits and underscores, of at most 48 each", o.Table)}
	}
	return o.Table, nil
}

// A Dialect is how a kind of database does what a store of leases has to do. The
// packages below have them.
type Dialect struct {
	// Engine is the name of the database, such as "postgres".
	Engine string
	// DDL are the statements that make the table, unless it is there.
	DDL func(table string) []string
	// Acquire is given name, id, value and the TTL in microseconds. It returns the row as
	// it is then: id, token, value, microseconds from 1970 until it was locked, and
	// microseconds until it expires; or no row if another has it that can't be seen.
	Acquire func(table string) string
	// Prepare is executed before Acquire, with the same arguments, where that needs two
	// statements. It may be nil.
	Prepare func(table string) string
	// Renew is given the TTL in microseconds, value, name, id and token.
	Renew func(table string) string
	// Release is given name, id, and the token or 0.
	Release func(table string) string
	// Queried says that Renew and Release return a row each if they did something;
	// otherwise the number of rows that they have affected tells.
	Queried bool
	// Get and List return locks that are held, with the name before what Acquire
	// returns: that of the name given, and all whose names begin with the text given.
	Get, List func(table string) string
	// Guard is given name, id and token. It returns a row if the lease is that, which
	// stays so until the transaction ends.
	Guard func(table string) string
	// Classify returns an error that wraps driver.ErrDenied or recipes.ErrInvalid where
	// trying again can't help, and nil otherwise.
	Classify func(err error) error
}

// A Store is a driver.Leaser on a table.
type Store struct {
	db      *sql.DB
	dialect Dialect
	table   string
	owned   bool // the db is closed with the store
}

var _ driver.Leaser = (*Store)(nil)

// NewStore makes a store over a database, which Close closes if it is owned. It sends
// nothing. It returns ErrInvalid for options that are out of range. The packages of
// databases call it.
func NewStore(db *sql.DB, d Dialect, o *Options, owned bool) (*Store, error) {
	if db == nil {
		return nil, &recipes.InvalidError{Field: "db", Problem: "is nil"}
	}
	table, err := o.TableName()
	if err != nil {
		return nil, err
	}
	return &Store{db, d, table, owned}, nil
}

// Open makes a client over NewStore's store. The packages of databases whose stores can't
// tell of releases call it.
func Open(db *sql.DB, d Dialect, opts *Options, owned bool) (*recipes.LeaseClient, error) {
	store, err := NewStore(db, d, opts, owned)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	return recipes.NewLeaseClient(store, &o.Lease)
}

// Migrate makes the table unless it is there.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, o *Options) error {
	table, err := o.TableName()
	if err != nil {
		return err
	}
	for _, statement := range d.DDL(table) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make table %s: %w", table, err)
		}
	}
	return nil
}

// maxConns is how many connections a client has that was dialled: for requests, none of
// which is long.
const maxConns = 4

// Bound has a database that a Dial function opens use 4 connections at the most.
func Bound(db *sql.DB) {
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxIdleTime(time.Minute)
}

// Prepare is Migrate for a Dial function, whose user may not be allowed to make tables
// that are there, and which others call at the same time. Its errors are those of
// package recipes.
func Prepare(ctx context.Context, db *sql.DB, d Dialect, o *Options) error {
	s, err := NewStore(db, d, o, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout(o))
	defer cancel()
	look := func() error {
		_, err := s.List(ctx, driver.Scope{})
		return err
	}
	err = look()
	if errors.Is(err, recipes.ErrInvalid) { // there is no table
		if err = Migrate(ctx, db, d, o); err != nil && look() == nil {
			return nil // another has made it
		}
		err = s.failed(err)
	}
	switch {
	case err == nil, errors.Is(err, recipes.ErrInvalid):
		return err
	case errors.Is(err, driver.ErrDenied):
		return fmt.Errorf("%w: %w", recipes.ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", recipes.ErrUnavailable, err)
}

func connectTimeout(o *Options) time.Duration {
	if o == nil || o.Lease.Client.ConnectTimeout <= 0 {
		return defaultConnectTimeout
	}
	return o.Lease.Client.ConnectTimeout
}

// Engine implements driver.Leaser.
func (s *Store) Engine() string { return s.dialect.Engine }

// Table is the name of the table.
func (s *Store) Table() string { return s.table }

// Close implements driver.Leaser.
func (s *Store) Close() error {
	if !s.owned {
		return nil
	}
	return s.db.Close()
}

// failed is the driver's error for one of the database.
func (s *Store) failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if known := s.dialect.Classify(err); known != nil {
		return known
	}
	if err.Error() == closedDB {
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	}
	return err
}

// closedDB is what package sql says of a DB that was closed, by an error of no name.
const closedDB = "sql: database is closed"

// Acquire implements driver.Leaser.
func (s *Store) Acquire(ctx context.Context, want driver.Lease, ttl time.Duration) (driver.Lease, error) {
	args := []any{want.Name, want.ID, string(want.Value), ttl.Microseconds()}
	if s.dialect.Prepare != nil {
		if _, err := s.db.ExecContext(ctx, s.dialect.Prepare(s.table), args...); err != nil {
			return want, s.failed(err)
		}
		args = args[:1]
	}
	got := driver.Lease{Name: want.Name}
	err := scan(s.db.QueryRowContext(ctx, s.dialect.Acquire(s.table), args...), &got)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return got, driver.ErrTaken
	case err != nil:
		return got, s.failed(err)
	case got.ID != want.ID:
		return got, driver.ErrTaken
	}
	return got, nil
}

// scan reads what is known of a lease, after the columns that go into first.
func scan(row interface{ Scan(...any) error }, l *driver.Lease, first ...any) error {
	var value string
	var locked, left int64
	if err := row.Scan(append(first, &l.ID, &l.Token, &value, &locked, &left)...); err != nil {
		return err
	}
	l.Value, l.Created, l.Left = []byte(value), time.UnixMicro(locked).UTC(), time.Duration(left)*time.Microsecond
	return nil
}

// Renew implements driver.Leaser.
func (s *Store) Renew(ctx context.Context, l driver.Lease, ttl time.Duration) error {
	return s.change(ctx, s.dialect.Renew(s.table), ttl.Microseconds(), string(l.Value), l.Name, l.ID, int64(l.Token))
}

// Release implements driver.Leaser.
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	return s.change(ctx, s.dialect.Release(s.table), l.Name, l.ID, int64(l.Token))
}

// change executes a statement that does something to one row, or returns ErrGone.
func (s *Store) change(ctx context.Context, statement string, args ...any) error {
	if s.dialect.Queried {
		var done any
		err := s.db.QueryRowContext(ctx, statement, args...).Scan(&done)
		if errors.Is(err, sql.ErrNoRows) {
			return driver.ErrGone
		}
		return s.failed(err)
	}
	result, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return s.failed(err)
	}
	changed, err := result.RowsAffected()
	if err == nil && changed == 0 {
		return driver.ErrGone
	}
	return s.failed(err)
}

// List implements driver.Leaser.
func (s *Store) List(ctx context.Context, scope driver.Scope) ([]driver.Lease, error) {
	statement := s.dialect.Get
	if scope.Prefix {
		statement = s.dialect.List
	}
	rows, err := s.db.QueryContext(ctx, statement(s.table), scope.Name)
	if err != nil {
		return nil, s.failed(err)
	}
	defer rows.Close()
	var leases []driver.Lease
	for rows.Next() {
		var l driver.Lease
		if err := scan(rows, &l, &l.Name); err != nil {
			return nil, err
		}
		leases = append(leases, l)
	}
	return leases, s.failed(rows.Err())
}

// Guard returns ErrLost, as a *recipes.LostError, if another has the lock of the hold
// or if it was released. Otherwise the lock stays the hold's until the transaction
// ends. Packages of databases call it.
func Guard(ctx context.Context, tx *sql.Tx, d Dialect, o *Options, hold *recipes.Hold) error {
	table, err := o.TableName()
	if err != nil {
		return err
	}
	var one int
	err = tx.QueryRowContext(ctx, d.Guard(table), hold.Name(), hold.SessionID(), int64(hold.Token())).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &recipes.LostError{Name: hold.Name(), Reason: recipes.LostUnknown}
	case err != nil:
		return fmt.Errorf("guard %q: %w", hold.Name(), err)
	}
	return nil
}
