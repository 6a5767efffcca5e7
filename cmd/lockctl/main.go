// Command lockctl makes programs take turns from shells, cron and CI, and shows
// who holds which lock. See docs/cli.md.
package main

import (
	"context"
	"os"

	"github.com/lockctl/lockctl/internal/cli"
)

func main() { os.Exit(cli.Main(context.Background(), cli.FromOS())) }
