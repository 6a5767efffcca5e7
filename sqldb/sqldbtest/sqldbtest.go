// Package sqldbtest runs the conformance suite of stores of leases on a database, and
// tests what stores in databases have in addition.
package sqldbtest

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/leasetest"
	"github.com/lockctl/lockctl/sqldb"
)

// A Database is one that runs, as the tests need it.
type Database struct {
	// Addr is where the server listens, "" if there is none.
	Addr string
	// Dial makes a client, through another address than the server's own if it is given.
	Dial func(ctx context.Context, addr string, opts *sqldb.Options) (*recipes.LeaseClient, error)
	// URL names the database to the function given to Main.
	URL string
	// Restart restarts the server. It is nil if there is none.
	Restart func(t testing.TB)
	// Open opens the database by itself.
	Open func(t testing.TB) *sql.DB
	// Client is the package's Open.
	Client func(db *sql.DB, opts *sqldb.Options) (*recipes.LeaseClient, error)
	// Guard is the package's.
	Guard func(ctx context.Context, tx *sql.Tx, hold *recipes.Hold, opts *sqldb.Options) error
}

// Run runs all tests on the database.
func Run(t *testing.T, d Database) {
	t.Run("leases", func(t *testing.T) {
		leasetest.Run(t, func(testing.TB) leasetest.Server { return server{d} })
	})
	t.Run("Guard", func(t *testing.T) { testGuard(t, d) })
	t.Run("TableIsMissing", func(t *testing.T) { testMissing(t, d) })
	t.Run("SmallPool", func(t *testing.T) { testSmallPool(t, d) })
	t.Run("PoolIsTaken", func(t *testing.T) { testPoolIsTaken(t, d) })
	t.Run("Invalid", func(t *testing.T) { testInvalid(t, d) })
}

// Page has the store's page, in docs/stores, show the table as the package makes it.
func Page(t *testing.T, page string, ddl func(table string) string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "stores", page))
	require.NoError(t, err)
	require.Contains(t, string(text), "```sql\n"+ddl("distributed_locks")+"\n```")
}

// Main is a package's TestMain, with its Dial.
func Main(m *testing.M, dial func(ctx context.Context, url string, opts *sqldb.Options) (*recipes.LeaseClient, error)) {
	leasetest.Main(m, func(ctx context.Context, url string, o leasetest.Options) (leasetest.Client, error) {
		c, err := dial(ctx, url, options(o))
		if err != nil {
			return nil, err
		}
		return leasetest.Fenced(c), nil
	})
}

func options(o leasetest.Options) *sqldb.Options {
	options := &sqldb.Options{Lease: recipes.LeaseOptions{TTL: o.TTL, Poll: o.Poll}}
	options.Lease.Client.Owner.Label = o.Label
	return options
}

type server struct{ Database }

func (s server) URL() string { return s.Database.URL }

func (s server) Open(t testing.TB, o leasetest.Options) leasetest.Client {
	t.Helper()
	addr := s.Addr
	if o.Link != nil {
		addr = o.Link.(*link).Addr()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := s.Dial(ctx, addr, options(o))
	require.NoError(t, err)
	return leasetest.Fenced(c)
}

func (s server) Link(t testing.TB) leasetest.Link {
	t.Helper()
	if s.Addr == "" {
		return nil
	}
	l, err := faultlink.New(s.Addr)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return &link{l}
}

func (s server) Restart(t testing.TB) bool {
	t.Helper()
	if s.Database.Restart == nil {
		return false
	}
	s.Database.Restart(t)
	return true
}

type link struct{ *faultlink.Link }

func (l *link) StallRequests() { l.Stall(faultlink.Requests) }
func (l *link) StallReplies()  { l.Stall(faultlink.Replies) }
func (l *link) StallBoth()     { l.Stall(faultlink.Both) }

func dial(t *testing.T, d Database, o *sqldb.Options) *recipes.LeaseClient {
	t.Helper()
	c, err := d.Dial(t.Context(), d.Addr, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// testGuard writes in transactions that are guarded by a hold: while it is there, after
// it was released, and when another has the lock.
func testGuard(t *testing.T, d Database) {
	c, db := dial(t, d, nil), d.Open(t)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE guarded (value INTEGER)")
	require.NoError(t, err)
	write := func(hold *recipes.Hold) error {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }() // it may have been committed
		_, err = tx.ExecContext(t.Context(), "INSERT INTO guarded VALUES (1)")
		require.NoError(t, err)
		if err := d.Guard(t.Context(), tx, hold, nil); err != nil {
			return err
		}
		require.NoError(t, tx.Commit())
		return nil
	}
	rows := func() (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM guarded").Scan(&n))
		return n
	}
	m, err := c.Mutex("guarded", nil)
	require.NoError(t, err)
	first, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, write(first))
	require.NoError(t, write(first))
	require.NoError(t, first.Unlock(t.Context()))
	require.ErrorIs(t, write(first), recipes.ErrLost)
	second, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, write(first), recipes.ErrLost)
	require.NoError(t, write(second))
	require.Equal(t, 3, rows())

	// Whoever wants the lock waits for the transaction.
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, d.Guard(t.Context(), tx, second, nil))
	released := make(chan error, 1)
	go func() { released <- second.Unlock(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-released:
		t.Fatalf("released within the guarded transaction: %v", err)
	case <-time.After(200 * time.Millisecond): // it would have been
	}
	require.NoError(t, tx.Commit())
	require.NoError(t, <-released)
}

// testMissing has a table that was dropped be told of as such, at once.
func testMissing(t *testing.T, d Database) {
	o := &sqldb.Options{Table: "dropped"}
	c := dial(t, d, o)
	_, err := d.Open(t).ExecContext(t.Context(), "DROP TABLE dropped")
	require.NoError(t, err)
	m, err := c.Mutex("a", nil)
	require.NoError(t, err)
	_, err = m.Lock(t.Context())
	require.ErrorIs(t, err, recipes.ErrInvalid)
	require.ErrorContains(t, err, "Migrate")
}

func testInvalid(t *testing.T, d Database) {
	for _, o := range []sqldb.Options{
		{Table: "a b"}, {Table: `a"`}, {Table: "a.b.c"}, {Table: ";"},
		{Lease: recipes.LeaseOptions{TTL: 1}},
	} {
		_, err := d.Dial(t.Context(), d.Addr, &o)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%+v", o)
	}
}
