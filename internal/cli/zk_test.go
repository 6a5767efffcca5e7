package cli

import (
	"testing"

	"github.com/lockctl/lockctl/internal/zkserver"
)

// TestZooKeeper runs the scripts that every engine must pass.
func TestZooKeeper(t *testing.T) {
	server := zkserver.Start(t, 1)
	runScripts(t, scriptService{scheme: "zk", addr: server.Addrs()[0]}, "testdata/core")
}
