package shell_test

import (
	"database/sql"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/examples/fencing/row"
	"github.com/lockctl/lockctl/internal/pgserver"
)

func TestShell(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t)
	for name, test := range map[string]func(t *testing.T, url string, db *sql.DB){"Write": testWrite, "Docs": testDocs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := server.Database(t)
			db, err := sql.Open("pgx", url)
			require.NoError(t, err)
			defer db.Close()
			test(t, url, db)
		})
	}
}

// run runs a command with a token in its environment.
func run(t *testing.T, cmd *exec.Cmd, token string, env ...string) (code int, says string) {
	t.Helper()
	cmd.Env = append(append(os.Environ(), "LOCKCTL_TOKEN="+token), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func testWrite(t *testing.T, url string, db *sql.DB) {
	_, err := db.Exec(row.Schema)
	require.NoError(t, err)
	write := func(value, token string) (code int, says string) {
		return run(t, exec.Command("./write.sh", "daily", value), token, "DATABASE_URL="+url)
	}
	for _, token := range []string{"9", "9", "9223372036854775807"} {
		code, says := write("it's "+token, token)
		require.Zero(t, code, says)
		require.Empty(t, says)
	}
	code, says := write("of a former", "9223372036854775806")
	require.Equal(t, 1, code)
	require.Contains(t, says, row.ErrStale.Error())
	code, says = write("nonsense", "1; DROP TABLE report")
	require.NotZero(t, code)
	require.Contains(t, says, "invalid input syntax for type bigint")

	var value string
	require.NoError(t, db.QueryRow(`SELECT value FROM report WHERE name = 'daily'`).Scan(&value))
	require.Equal(t, "it's 9223372036854775807", value)
}

// testDocs runs the fenced write that docs/cli.md shows.
func testDocs(t *testing.T, database string, db *sql.DB) {
	_, err := db.Exec(`CREATE TABLE job (name text, state text, token bigint); INSERT INTO job VALUES ('invoices', 'new', 5)`)
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	_, command, found := strings.Cut(string(page), "lockctl hold jobs/invoices -- ")
	require.True(t, found)
	command, _, _ = strings.Cut(command, "```")
	u, err := url.Parse(database)
	require.NoError(t, err)
	write := func(token string) {
		code, says := run(t, exec.Command("sh", "-c", command), token, "PGHOST="+u.Hostname(), "PGPORT="+u.Port(),
			"PGUSER="+u.User.Username(), "PGDATABASE="+strings.Trim(u.Path, "/"))
		require.Zero(t, code, says)
	}
	state := func() (s string) {
		require.NoError(t, db.QueryRow(`SELECT state || ' ' || token FROM job`).Scan(&s))
		return s
	}
	write("4")
	require.Equal(t, "new 5", state())
	write("6")
	require.Equal(t, "done 6", state())
}
