package mysql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/mariaserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/sqldb"
	"github.com/lockctl/lockctl/sqldb/mysql"
	"github.com/lockctl/lockctl/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { sqldbtest.Main(m, mysql.Dial) }

func TestConformance(t *testing.T) {
	server := mariaserver.Start(t)
	name := server.Database(t)
	sqldbtest.Run(t, sqldbtest.Database{
		Addr: server.Addr(),
		Dial: func(ctx context.Context, addr string, o *sqldb.Options) (*recipes.LeaseClient, error) {
			return mysql.Dial(ctx, "mysql://root@"+addr+"/"+name, o)
		},
		URL:     "mysql://root@" + server.Addr() + "/" + name,
		Restart: server.Restart,
		Open: func(t testing.TB) *sql.DB {
			t.Helper()
			db, err := sql.Open("mysql", "root@tcp("+server.Addr()+")/"+name)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			return db
		},
		Client: mysql.Open,
		Guard:  mysql.Guard,
	})
}

func TestPage(t *testing.T) {
	t.Parallel()
	sqldbtest.Page(t, "mysql.md", mysql.DDL)
}
