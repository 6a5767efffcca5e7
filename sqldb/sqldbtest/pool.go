package sqldbtest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/sqldb"
)

// small is the database by a pool of one connection, and a client that shares it.
func small(t *testing.T, d Database, ttl time.Duration) (*sql.DB, *recipes.LeaseClient) {
	t.Helper()
	require.NoError(t, dial(t, d, nil).Close()) // makes the table
	db := d.Open(t)
	db.SetMaxOpenConns(1)
	c, err := d.Client(db, &sqldb.Options{Lease: recipes.LeaseOptions{TTL: ttl}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return db, c
}

func mutex(t *testing.T, c *recipes.LeaseClient, name string) *recipes.LeaseMutex {
	t.Helper()
	m, err := c.Mutex(name, nil)
	require.NoError(t, err)
	return m
}

// testSmallPool has a pool of one connection do for 50 locks that are held, 20 who wait
// for one, and the user's own queries, over more than the TTL.
func testSmallPool(t *testing.T, d Database) {
	const holders, waiters, ttl = 50, 20, suite.CalmTTL
	db, c := small(t, d, ttl)
	var holds []*recipes.Hold
	for i := range holders {
		h, err := mutex(t, c, fmt.Sprint("pool ", i)).Lock(suite.Within(t))
		require.NoError(t, err)
		holds = append(holds, h)
	}
	done := make(chan error, waiters)
	for range waiters {
		m := mutex(t, c, holds[0].Name()) // each asks by itself
		go func() {
			done <- m.Do(suite.Within(t), func(ctx context.Context, _ *recipes.Hold) error { return ctx.Err() })
		}()
	}
	for end := time.Now().Add(5 * ttl / 4); time.Now().Before(end); {
		var one int
		require.NoError(t, db.QueryRowContext(suite.Within(t), "SELECT 1").Scan(&one))
		time.Sleep(10 * time.Millisecond) // between queries
	}
	require.Empty(t, done)
	for _, h := range holds {
		require.NoError(t, context.Cause(h.Context()), h.Name())
	}
	for _, h := range holds {
		require.NoError(t, h.Unlock(suite.Within(t)))
	}
	for range waiters {
		require.NoError(t, <-done)
	}
}

// testPoolIsTaken has the user take the only connection: holds end by their deadline, and
// calls when their contexts do. When it is back they go on.
func testPoolIsTaken(t *testing.T, d Database) {
	db, c := small(t, d, suite.ShortTTL)
	h, err := mutex(t, c, "taken").Lock(suite.Within(t))
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // it may have been
	for _, call := range []func(context.Context) (*recipes.Hold, error){mutex(t, c, "other").Lock, mutex(t, c, "other").TryLock} {
		ctx, cancel := context.WithTimeout(t.Context(), suite.ShortTTL/10)
		_, err = call(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, recipes.ErrUnavailable)
		require.NotErrorIs(t, err, recipes.ErrHeld)
	}
	suite.Await(t, h.Context().Done(), "the hold to end")
	var lost *recipes.LostError
	require.ErrorAs(t, context.Cause(h.Context()), &lost)
	require.Equal(t, recipes.LostExpired, lost.Reason)
	require.ErrorIs(t, lost, recipes.ErrUnavailable, "which is why")
	require.NoError(t, tx.Rollback())
	require.ErrorIs(t, h.Unlock(suite.Within(t)), recipes.ErrLost)
	for _, name := range []string{"taken", "other"} {
		h, err := mutex(t, c, name).Lock(suite.Within(t))
		require.NoError(t, err)
		require.NoError(t, h.Unlock(suite.Within(t)))
	}
}
