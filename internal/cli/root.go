package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/termtext"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockctl",
		Short: "Locks for programs that must take turns",
		Long: `lockctl makes programs on many machines take turns, and shows who holds what.

The locks live in etcd or ZooKeeper. Name the service with --backend or
LOCKCTL_BACKEND; "lockctl dev" runs one on this machine for trying things out.`,
		Example: `  lockctl dev --demo
  lockctl hold jobs/daily -- ./backup.sh
  lockctl watch`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkOutput() },
	}
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.backends, "backend", nil,
		"`URL` of the service, such as etcd://host:2379/root or zk://host:2181/root\n"+
			"(default $LOCKCTL_BACKEND, else "+defaultBackend+")")
	flags.StringVarP(&a.output, "output", "o", "text", "`format` of what is written: text or json")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%s; see %s --help", termtext.Escape(err.Error()), cmd.CommandPath())
	})
	root.AddCommand(a.askCommand(), a.breakCommand(), a.getCommand(), a.setCommand(), a.casCommand(), a.permitsCommand(),
		a.barrierCommand(), a.latchCommand(), a.queueCommand(), a.groupCommand(), a.limitCommand())
	root.AddCommand(a.holdCommand(), a.electCommand(), a.jobCommand(), a.lsCommand(), a.showCommand(), a.watchCommand(),
		a.devCommand(), a.consoleCommand(), a.backendsCommand(), a.versionCommand())
	return root
}

func (a *app) checkOutput() error {
	if a.output != "text" && a.output != "json" {
		return usageError("unknown output format %q: it is text or json", a.output)
	}
	return nil
}

// arguments checks the number of a command's arguments.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError("%s needs a name; see %[1]s --help", cmd.CommandPath())
		case len(args) > most:
			return usageError("%s: unexpected argument %q; see %[1]s --help", cmd.CommandPath(), args[most])
		}
		return nil
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if a.json() {
				return a.writeJSON(map[string]string{"version": version(), "go": goVersion()})
			}
			_, err := fmt.Fprintf(a.Stdout, "lockctl %s (%s)\n", version(), goVersion())
			return err
		},
	}
}
