package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lockctl/lockctl/internal/dynaserver"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/internal/mariaserver"
	"github.com/lockctl/lockctl/internal/pgserver"
	"github.com/lockctl/lockctl/internal/redisserver"
)

// locksOnly are those of the scripts for all services that need nothing but locks.
var locksOnly = []string{"hold", "names"}

func TestSQLite(t *testing.T) {
	nowhere, err := faultlink.New("127.0.0.1:1") // files have no address
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	s := scriptService{addr: nowhere.Addr(), fixed: func(dir, _ string) string {
		return "sqlite:" + filepath.Join(dir, "locks.db") + "?ttl=3s"
	}}
	t.Run("core", func(t *testing.T) { runScripts(t, s, "testdata/core", locksOnly...) })
	t.Run("leases", func(t *testing.T) { runScripts(t, s, "testdata/leases") })
}

func TestPostgres(t *testing.T) {
	server := pgserver.Start(t)
	s := scriptService{addr: server.Addr(), fixed: func(_, addr string) string {
		return strings.Replace(server.Database(t), server.Addr(), addr, 1) + "&ttl=3s"
	}}
	t.Run("core", func(t *testing.T) { runScripts(t, s, "testdata/core", locksOnly...) })
	t.Run("leases", func(t *testing.T) { runScripts(t, s, "testdata/leases") })
}

func TestMySQL(t *testing.T) {
	server := mariaserver.Start(t)
	s := scriptService{addr: server.Addr(), fixed: func(_, addr string) string {
		return "mysql://root@" + addr + "/" + server.Database(t) + "?ttl=3s"
	}}
	t.Run("core", func(t *testing.T) { runScripts(t, s, "testdata/core", locksOnly...) })
	t.Run("leases", func(t *testing.T) { runScripts(t, s, "testdata/leases") })
}

func TestDynamoDB(t *testing.T) {
	server := dynaserver.Start(t)
	s := scriptService{
		addr: server.Addr(),
		fixed: func(dir, addr string) string { // each script has a table of its own
			return "dynamodb://us-east-1/" + filepath.Base(dir) + "?ttl=6s&endpoint=http://" + addr
		},
		env: map[string]string{ // dynalite takes any credentials
			"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		},
	}
	t.Run("core", func(t *testing.T) { runScripts(t, s, "testdata/core", locksOnly...) })
	t.Run("leases", func(t *testing.T) { runScripts(t, s, "testdata/leases") })
}

func TestRedis(t *testing.T) {
	server := redisserver.Start(t)
	var mu sync.Mutex
	databases := map[string]int{} // each script has its own
	s := scriptService{addr: server.Addr(), fixed: func(dir, addr string) string {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := databases[dir]; !ok {
			databases[dir] = len(databases)
		}
		return fmt.Sprintf("redis://%s/%d?ttl=3s", addr, databases[dir])
	}}
	runScripts(t, s, "testdata/leases")
}

func TestRedlock(t *testing.T) {
	var addrs []string
	for range 3 {
		addrs = append(addrs, redisserver.Start(t).Addr())
	}
	s := scriptService{addr: addrs[0], fixed: func(_, _ string) string { return "redlock://" + strings.Join(addrs, ",") + "?ttl=3s" }}
	runScripts(t, s, "testdata/redlock")
}
