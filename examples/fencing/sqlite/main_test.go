package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/examples/fencing/internal/pausetest"
	"github.com/lockctl/lockctl/examples/fencing/row"
	"github.com/lockctl/lockctl/recipes"
)

func TestMain(m *testing.M) { pausetest.Main(m, main) }

func TestPausedHolder(t *testing.T) {
	t.Parallel()
	_, backend := pausetest.Etcd(t)
	file := filepath.Join(t.TempDir(), "fencing.db")
	db, err := open(file)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(row.Schema)
	require.NoError(t, err)
	pausetest.PausedHolder(t, pausetest.Resource{
		Backend: backend,
		Lock:    "report",
		Args:    []string{"-backend", pausetest.Expiring(backend), "-file", file},
		Write: func(ctx context.Context, hold *recipes.Hold, value string) error {
			_, err := add(ctx, db, hold.Name(), hold.Token(), value)
			return err
		},
		Enter: func(ctx context.Context, hold *recipes.Hold) error {
			return row.Do(ctx, db, hold.Name(), hold.Token(), func(*sql.Tx) error { return nil })
		},
		Read: func() (line string) {
			require.NoError(t, db.QueryRow(`SELECT line FROM journal ORDER BY number DESC LIMIT 1`).Scan(&line))
			return line
		},
		Refused: row.ErrStale,
	})
}

func TestWrongInput(t *testing.T) {
	t.Parallel()
	_, backend := pausetest.Etcd(t)
	pausetest.Rejected(t, 2, "give one VALUE to write, not 2", "two", "values")
	pausetest.Rejected(t, 1, "make tables: unable to open", "-backend", backend,
		"-file", filepath.Join(t.TempDir(), "missing", "fencing.db"), "value")
}
