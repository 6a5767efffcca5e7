package main

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/examples/fencing/internal/pausetest"
	"github.com/lockctl/lockctl/examples/fencing/row"
	"github.com/lockctl/lockctl/internal/pgserver"
	"github.com/lockctl/lockctl/recipes"
)

func TestMain(m *testing.M) { pausetest.Main(m, main) }

type writer = func(ctx context.Context, hold *recipes.Hold, value string) error

// world is a row of a new database, under a lock.
type world struct {
	pausetest.Resource
	server   *pgserver.Server
	database string // its URL
	db       *sql.DB
}

func newWorld(t *testing.T, server *pgserver.Server, backend, lock string) *world {
	w := &world{server: server, database: server.Database(t)}
	w.db = connect(t, w.database)
	_, err := w.db.Exec(row.Schema)
	require.NoError(t, err)
	w.Resource = pausetest.Resource{
		Backend: backend,
		Lock:    lock,
		Args:    []string{"-backend", pausetest.Expiring(backend), "-database", w.database},
		Write:   write(w.db),
		Enter: func(ctx context.Context, hold *recipes.Hold) error {
			_, err := row.Read(ctx, w.db, "daily", hold.Token())
			return err
		},
		Read: func() (value string) {
			require.NoError(t, w.db.QueryRow(`SELECT value FROM report WHERE name = 'daily'`).Scan(&value))
			return value
		},
		Refused: row.ErrStale,
	}
	return w
}

func connect(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func write(db *sql.DB) writer {
	return func(ctx context.Context, hold *recipes.Hold, value string) error {
		return row.Write(ctx, db, "daily", value, hold.Token())
	}
}

// TestServer runs what needs a database, each test in one of its own.
func TestServer(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	_, etcd := pausetest.Etcd(t)
	for name, test := range map[string]func(t *testing.T, w *world){
		"PausedHolder": testPausedHolder,
		"LateRequest":  testLateRequest,
		"LateUnfenced": testLateUnfenced,
		"WrongInput":   testWrongInput,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, server, etcd, name))
		})
	}
	t.Run("PausedHolderZooKeeper", func(t *testing.T) {
		t.Parallel()
		_, zookeeper := pausetest.ZooKeeper(t)
		testPausedHolder(t, newWorld(t, server, zookeeper, "report"))
	})
}

func testPausedHolder(t *testing.T, w *world) { pausetest.PausedHolder(t, w.Resource) }

// late has a statement of a former holder arrive late, and returns how it ended.
func (w *world) late(t *testing.T, writer func(*sql.DB) writer) error {
	link := pausetest.Through(t, w.server.Addr())
	slow := connect(t, strings.Replace(w.database, w.server.Addr(), link.Addr(), 1))
	slow.SetMaxOpenConns(1)
	return pausetest.LateRequest(t, w.Resource, link, writer(slow))
}

func testLateRequest(t *testing.T, w *world) {
	require.ErrorIs(t, w.late(t, write), row.ErrStale)
	require.Equal(t, "of the next", w.Read())
}

// testLateUnfenced is the control: a statement that checks no token undoes what the
// next holder has done, although every holder asked for the lock and gave it up.
func testLateUnfenced(t *testing.T, w *world) {
	unfenced := func(db *sql.DB) writer {
		return func(ctx context.Context, _ *recipes.Hold, value string) error {
			_, err := db.ExecContext(ctx, `INSERT INTO report (name, value, token) VALUES ('daily', $1, 0)
				ON CONFLICT (name) DO UPDATE SET value = excluded.value`, value)
			return err
		}
	}
	require.NoError(t, w.late(t, unfenced))
	require.Equal(t, "of the former, late", w.Read())
}

func testWrongInput(t *testing.T, w *world) {
	nowhere := "postgres://127.0.0.1:1/reports"
	for says, args := range map[string][]string{
		"give one VALUE to write, not 0": {"-database", nowhere},
		"or DATABASE_URL":                {"-database=", "value"},
		"not defined: -datebase":         {"-datebase", nowhere, "value"},
	} {
		pausetest.Rejected(t, 2, says, args...)
	}
	for says, args := range map[string][]string{
		"must begin with etcd:// or zk://": {"-backend", "redis://127.0.0.1", "-database", nowhere, "value"},
		"has a bad server":                 {"-backend", "etcd://127.0.0.1:port", "-database", nowhere, "value"},
		"make tables: cannot parse":        {"-backend", w.Backend, "-database", "postgres://127.0.0.1:port/x", "value"},
		"make tables: failed to connect":   {"-backend", w.Backend, "-database", nowhere, "value"},
	} {
		pausetest.Rejected(t, 1, says, args...)
	}
}
