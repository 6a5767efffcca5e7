package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// debianPrograms are PostgreSQL's programs, one directory for each major version.
const debianPrograms = "/usr/lib/postgresql/*/bin/initdb"

// programs is the directory with initdb and postgres: the newest that Debian has
// installed, or else that of the PATH. It skips the test, or fails it in CI, if
// there is none.
func programs(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob(debianPrograms)
	if err != nil { // the pattern is a good one
		t.Fatal(err)
	}
	newest, dir := -1, ""
	for _, initdb := range found {
		bin := filepath.Dir(initdb)
		if major, err := strconv.Atoi(filepath.Base(filepath.Dir(bin))); err == nil && major > newest {
			newest, dir = major, bin
		}
	}
	if dir != "" {
		return dir
	}
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		missing := t.Skipf
		if os.Getenv("CI") != "" {
			missing = t.Fatalf
		}
		missing("no PostgreSQL: %v", err)
	}
	return filepath.Dir(initdb)
}

// unprivileged is whom the server runs as. PostgreSQL refuses to run as root, which
// runs it as the user that Debian has made for it, or as nobody. Others run it as
// themselves: then it is nil.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("a user other than root to run PostgreSQL as: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("id of user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("group of user %s: %w", u.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
