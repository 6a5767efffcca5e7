package postgres

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/pgserver"
	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes/driver"
	"github.com/lockctl/lockctl/sqldb"
)

// TestTakenMeanwhile asks for an expired lease of one's own while another's transaction, which
// takes it, is not committed: what is read of it is from before that.
func TestTakenMeanwhile(t *testing.T) {
	ctx := suite.Within(t)
	server := pgserver.Start(t)
	db, err := sql.Open("pgx", server.Database(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, Migrate(ctx, db, nil))
	store, err := sqldb.NewStore(db, dialect(), nil, false)
	require.NoError(t, err)
	mine := driver.Lease{Name: "a", ID: "mine", Value: []byte("{}")}
	_, err = store.Acquire(ctx, mine, time.Millisecond)
	require.NoError(t, err)
	is := func(condition string) func() bool {
		return func() bool {
			var yes bool
			require.NoError(t, db.QueryRowContext(ctx, "SELECT "+condition).Scan(&yes))
			return yes
		}
	}
	suite.Eventually(t, "the lease to expire", is("expires_at <= clock_timestamp() FROM "+store.Table()))
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(ctx, acquire(store.Table()), mine.Name, "another's", "{}", time.Hour.Microseconds())
	require.NoError(t, err)
	asked := make(chan error, 1)
	go func() {
		_, err := store.Acquire(ctx, mine, time.Hour)
		asked <- err
	}()
	suite.Eventually(t, "the request to wait for the transaction", is("EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')"))
	require.NoError(t, tx.Commit())
	require.ErrorIs(t, <-asked, driver.ErrTaken)
}

// TestChannel has the longest name that a table can have, whose channel can't have it.
func TestChannel(t *testing.T) {
	ctx := suite.Within(t)
	server := pgserver.Start(t)
	db, err := sql.Open("pgx", server.Database(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	schema := strings.Repeat("s", 48)
	_, err = db.ExecContext(ctx, "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	o := &Options{Options: sqldb.Options{Table: schema + "." + strings.Repeat("t", 48)}}
	require.NoError(t, Migrate(ctx, db, o))
	client, err := Open(db, o)
	require.NoError(t, err)
	m, err := client.Mutex("a", nil)
	require.NoError(t, err)
	hold, err := m.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(context.Background()))
	require.NoError(t, client.Close())
}
