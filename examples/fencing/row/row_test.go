package row_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/lockctl/lockctl/examples/fencing/row"
	"github.com/lockctl/lockctl/internal/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// largest is the largest token there can be.
const largest = 1<<63 - 1

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	run(t, func(t *testing.T) *sql.DB { return open(t, "pgx", server.Database(t)) })
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T) *sql.DB {
		return open(t, "sqlite", filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(60000)")
	})
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.Exec(row.Schema)
	require.NoError(t, err)
	return db
}

func run(t *testing.T, database func(t *testing.T) *sql.DB) {
	for name, test := range map[string]func(*testing.T, *sql.DB){
		"Write": testWrite, "Read": testRead, "Do": testDo, "DoAtOnce": testDoAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, database(t))
		})
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func testWrite(t *testing.T, db *sql.DB) {
	ctx := within(t)
	for _, token := range []uint64{9, 9, 10, largest, largest} {
		require.NoError(t, row.Write(ctx, db, "daily", "of the present", token))
	}
	for _, token := range []uint64{0, 9, largest - 1} {
		err := row.Write(ctx, db, "daily", "of a former", token)
		require.ErrorIs(t, err, row.ErrStale)
		require.ErrorContains(t, err, `write row "daily" with token`)
	}
	require.NoError(t, row.Write(ctx, db, "weekly", "of another row", 1))
	value, err := row.Read(ctx, db, "daily", largest)
	require.NoError(t, err)
	require.Equal(t, "of the present", value)
}

func testRead(t *testing.T, db *sql.DB) {
	ctx := within(t)
	value, err := row.Read(ctx, db, "daily", 5)
	require.NoError(t, err)
	require.Empty(t, value, "there was no row")
	require.ErrorIs(t, row.Write(ctx, db, "daily", "of a former", 4), row.ErrStale, "although nobody has written")
	_, err = row.Read(ctx, db, "daily", 4)
	require.ErrorIs(t, err, row.ErrStale)
	require.NoError(t, row.Write(ctx, db, "daily", "of the present", 5))
	value, err = row.Read(ctx, db, "daily", 5)
	require.NoError(t, err)
	require.Equal(t, "of the present", value)
}

func testDo(t *testing.T, db *sql.DB) {
	ctx := within(t)
	lines := func() (n int) {
		require.NoError(t, db.QueryRow(`SELECT count(*) FROM journal`).Scan(&n))
		return n
	}
	add := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO journal (number, line) SELECT count(*), '' FROM journal`)
		return err
	}
	for _, token := range []uint64{9, 9, largest} {
		require.NoError(t, row.Do(ctx, db, "report", token, add))
	}
	require.Equal(t, 3, lines())
	require.ErrorIs(t, row.Do(ctx, db, "report", largest-1, add), row.ErrStale)
	mishap := errors.New("a mishap")
	require.ErrorIs(t, row.Do(ctx, db, "report", largest, func(tx *sql.Tx) error {
		require.NoError(t, add(tx))
		return mishap
	}), mishap)
	require.Equal(t, 3, lines(), "neither of the two has changed anything")
	require.NoError(t, row.Do(ctx, db, "other", 1, add), "another lock's tokens are its own")
}

// testDoAtOnce has the next holder come while the former one is inside: it waits, and
// sees what that has written.
func testDoAtOnce(t *testing.T, db *sql.DB) {
	ctx := within(t)
	require.NoError(t, row.Do(ctx, db, "report", 1, func(*sql.Tx) error { return nil }))
	var inside atomic.Bool
	next := make(chan error, 1)
	err := row.Do(ctx, db, "report", 2, func(tx *sql.Tx) error {
		inside.Store(true)
		defer inside.Store(false)
		go func() {
			next <- row.Do(ctx, db, "report", 3, func(tx *sql.Tx) error {
				if inside.Load() {
					return errors.New("two holders are inside")
				}
				var line string
				return tx.QueryRowContext(ctx, `SELECT line FROM journal WHERE number = 1`).Scan(&line)
			})
		}()
		_, err := tx.ExecContext(ctx, `INSERT INTO journal (number, line) VALUES (1, 'of the former')`)
		return err
	})
	require.NoError(t, err)
	require.NoError(t, <-next)
	require.ErrorIs(t, row.Do(ctx, db, "report", 2, func(*sql.Tx) error { return nil }), row.ErrStale)
}
