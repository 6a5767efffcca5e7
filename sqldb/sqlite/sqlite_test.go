package sqlite_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/sqldb"
	"github.com/lockctl/lockctl/sqldb/sqldbtest"
	"github.com/lockctl/lockctl/sqldb/sqlite"
)

func TestMain(m *testing.M) { sqldbtest.Main(m, sqlite.Dial) }

func TestConformance(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a file?&%.db")
	sqldbtest.Run(t, sqldbtest.Database{
		URL: "sqlite:" + escape(file),
		Dial: func(ctx context.Context, _ string, o *sqldb.Options) (*recipes.LeaseClient, error) {
			return sqlite.Dial(ctx, "sqlite:"+escape(file), o)
		},
		Open: func(t testing.TB) *sql.DB {
			t.Helper()
			db, err := sql.Open("sqlite", "file:"+escape(file)+"?_pragma=busy_timeout(10000)&_txlock=immediate")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			return db
		},
		Client: sqlite.Open,
		Guard:  sqlite.Guard,
	})
}

func TestURL(t *testing.T) {
	for _, u := range []string{
		"", "sqlite:", "sqlite://host/file", "sqlite:f?x=1", "sqlite:f?ttl=x", "sqlite:f?ttl=-1s", "sqlite:f?poll=0s", "sqlite:f?table=a-b", "mysql:f",
	} {
		_, err := sqlite.Dial(t.Context(), u, nil)
		require.ErrorIs(t, err, recipes.ErrInvalid, u)
	}
	_, err := sqlite.Dial(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "no", "such", "dir"), nil)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
}

func escape(file string) string {
	u := url.URL{Path: file}
	return u.EscapedPath()
}

func TestPage(t *testing.T) {
	t.Parallel()
	sqldbtest.Page(t, "sqlite.md", sqlite.DDL)
}
