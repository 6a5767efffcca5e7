// Command lockctl-dev is lockctl with an etcd server in it, for trying things out on
// one machine. "lockctl dev" runs it. It takes the same arguments as lockctl.
package main

import (
	"context"
	"os"

	"github.com/lockctl/lockctl/internal/cli"
	"github.com/lockctl/lockctl/internal/etcdserver"
)

func main() {
	p := cli.FromOS()
	p.StartServer = startServer
	os.Exit(cli.Main(context.Background(), p))
}

func startServer(ctx context.Context, o cli.ServerOptions) (cli.Server, error) {
	return etcdserver.Start(ctx, etcdserver.Options{Dir: o.Dir, Listen: o.Listen, LogFile: o.LogFile})
}
