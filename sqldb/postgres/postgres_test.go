package postgres_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/pgserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/sqldb"
	"github.com/lockctl/lockctl/sqldb/postgres"
	"github.com/lockctl/lockctl/sqldb/sqldbtest"
)

func TestMain(m *testing.M) {
	sqldbtest.Main(m, func(ctx context.Context, url string, o *sqldb.Options) (*recipes.LeaseClient, error) {
		return postgres.Dial(ctx, url, &postgres.Options{Options: *o})
	})
}

// database is one on a server of its own. listen says whether clients hear of releases.
func database(t *testing.T, listen bool) sqldbtest.Database {
	t.Helper()
	server := pgserver.Start(t)
	url := server.Database(t)
	return sqldbtest.Database{
		Addr: server.Addr(),
		Dial: func(ctx context.Context, addr string, o *sqldb.Options) (*recipes.LeaseClient, error) {
			through := strings.Replace(url, server.Addr(), addr, 1)
			if listen {
				return postgres.Dial(ctx, through, &postgres.Options{Options: *orDefault(o)})
			}
			db, err := sql.Open("pgx", through)
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(2)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			options := &postgres.Options{Options: *orDefault(o)}
			if err := postgres.Migrate(ctx, db, options); err != nil {
				return nil, err
			}
			return postgres.Open(db, options)
		},
		URL:     url,
		Restart: server.Restart,
		Open: func(t testing.TB) *sql.DB {
			t.Helper()
			db, err := sql.Open("pgx", url)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			return db
		},
		Client: func(db *sql.DB, o *sqldb.Options) (*recipes.LeaseClient, error) {
			options := &postgres.Options{Options: *orDefault(o)}
			if listen {
				options.ListenURL = url
			}
			return postgres.Open(db, options)
		},
		Guard: func(ctx context.Context, tx *sql.Tx, h *recipes.Hold, o *sqldb.Options) error {
			return postgres.Guard(ctx, tx, h, &postgres.Options{Options: *orDefault(o)})
		},
	}
}

func orDefault(o *sqldb.Options) *sqldb.Options {
	if o == nil {
		return &sqldb.Options{}
	}
	return o
}

func TestConformance(t *testing.T) {
	t.Run("listening", func(t *testing.T) {
		sqldbtest.Run(t, database(t, true))
	})
	t.Run("polling", func(t *testing.T) {
		sqldbtest.Run(t, database(t, false))
	})
}

func TestPage(t *testing.T) {
	t.Parallel()
	sqldbtest.Page(t, "postgresql.md", postgres.DDL)
}
