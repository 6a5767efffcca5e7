package pgserver_test

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/internal/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDatabases(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t)
	for range 2 { // each is empty
		url := s.Database(t)
		require.Contains(t, url, s.Addr())
		db, err := sql.Open("pgx", url)
		require.NoError(t, err)
		_, err = db.Exec("CREATE TABLE once (n bigint)")
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
}
