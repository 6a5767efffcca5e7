package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

const (
	consoleAddress = "127.0.0.1:8700"
	startTimeout   = time.Minute

	// devProgram is lockctl with a server in it.
	devProgram = "lockctl-dev"
)

// ServerOptions say how to run the server of dev.
type ServerOptions struct {
	Dir     string // where it keeps its data
	Listen  string // the address for clients
	LogFile string // where its warnings go
}

// A Server is a running server.
type Server interface {
	Err() <-chan error // what it failed with
	Close()
}

// devOptions are the flags of dev.
type devOptions struct {
	listen  string // of etcd
	console string // of the console
	dataDir string
	fresh   bool
	demo    bool
}

func (a *app) devCommand() *cobra.Command {
	o := devOptions{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a server and the console on this machine",
		Long: `Run an etcd server and the web console on this machine, for trying things out,
until interrupted. Both listen on the loopback interface only. The data stay in the
user's cache directory from one time to the next. The server is in a program of its
own, lockctl-dev, which is looked for beside this one and in PATH.`,
		Example: `  lockctl dev
  lockctl dev --demo --fresh`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.StartServer == nil {
				return a.runDevProgram()
			}
			return a.dev(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", devAddress, "loopback `ADDRESS` of the server")
	flags.StringVar(&o.console, "console-listen", consoleAddress, "loopback `ADDRESS` of the console")
	flags.StringVar(&o.dataDir, "data-dir", "", "`DIRECTORY` for the data (default: in the user's cache directory)")
	flags.BoolVar(&o.fresh, "fresh", false, "forget the data of earlier runs")
	flags.BoolVar(&o.demo, "demo", false, "run some workers that contend for locks")
	return cmd
}

// dev runs everything until it is interrupted, which is not an error.
func (a *app) dev(ctx context.Context, o devOptions) (err error) {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	dir, release, err := claimDataDir(o)
	if err != nil {
		return err
	}
	defer release()
	if err := loopbackFree(o.listen, "--listen"); err != nil {
		return err
	}
	listener, err := listenLoopback(o.console, "--console-listen")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // it was closed before, if all went well

	server, err := a.startServer(ctx, o.listen, dir)
	if err != nil {
		return because(ctx, err)
	}
	defer server.Close()
	b := backend{url: "etcd://" + o.listen, engine: engines()["etcd"]}
	client, err := b.open(ctx, dialOptions{})
	if err != nil {
		return because(ctx, err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	if o.demo {
		stop, err := startDemo(ctx, b, a.say)
		if err != nil {
			return because(ctx, err)
		}
		defer stop()
	}
	if err := a.welcome(o, dir); err != nil {
		return err
	}
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case err := <-server.Err():
			end(fmt.Errorf("the server has failed, see %s: %w", logFile(dir), err))
		case <-serving.Done():
		}
	}()
	err = serveConsole(serving, listener, []consoleBackend{{"dev", client}}, consoleOptions{})
	if err == nil && ctx.Err() == nil {
		err = context.Cause(serving)
	}
	return err
}

// runDevProgram runs lockctl-dev in the place of this program.
func (a *app) runDevProgram() error {
	path, err := exec.LookPath(devProgram)
	if own, ownErr := os.Executable(); ownErr == nil {
		if beside, besideErr := exec.LookPath(filepath.Join(filepath.Dir(own), devProgram)); besideErr == nil {
			path, err = beside, nil
		}
	}
	if err != nil {
		return fmt.Errorf("the server is in %s, a program of its own that is neither beside this one nor in PATH: "+
			"go install github.com/lockctl/lockctl/cmd/...@latest", devProgram)
	}
	if err := replaceProcess(path, append([]string{devProgram}, a.Args...), a.Env); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

func (a *app) startServer(ctx context.Context, listen, dir string) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	server, err := a.StartServer(ctx, ServerOptions{
		Dir: filepath.Join(dir, "etcd"), Listen: listen, LogFile: logFile(dir),
	})
	if err != nil {
		return nil, fmt.Errorf("%w; see %s, or start over with --fresh", err, logFile(dir))
	}
	return server, nil
}

func logFile(dir string) string { return filepath.Join(dir, "etcd.log") }

// claimDataDir makes the data directory and makes it this process's own.
func claimDataDir(o devOptions) (dir string, release func(), err error) {
	dir = o.dataDir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", nil, usageError("there is no cache directory for the data, name one with --data-dir: %w", err)
		}
		dir = filepath.Join(cache, "lockctl", "dev")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the data directory: %w", err)
	}
	release, err = lockFile(filepath.Join(dir, "lock"))
	switch {
	case errors.Is(err, errFileLocked):
		return "", nil, fmt.Errorf("another \"lockctl dev\" uses %s: stop it, or give this one a directory and addresses "+
			"of its own with --data-dir, --listen and --console-listen", dir)
	case err != nil:
		return "", nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if o.fresh {
		if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
			release()
			return "", nil, fmt.Errorf("forget the data: %w", err)
		}
	}
	return dir, release, nil
}

// listenLoopback listens on an address that is reachable from this machine only.
func listenLoopback(address, flag string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usageError("%s %q is not a loopback address with a port, such as %s", flag, address, devAddress)
	}
	return listen(address, flag)
}

func listen(address, flag string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, errAddressInUse) {
		return nil, fmt.Errorf("address %s is in use by another program: choose another with %s", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// loopbackFree reports an address that can't be listened on before etcd tries,
// whose errors are harder to read.
func loopbackFree(address, flag string) error {
	listener, err := listenLoopback(address, flag)
	if err != nil {
		return err
	}
	return listener.Close()
}

// welcome tells what runs and what to do next.
func (a *app) welcome(o devOptions, dir string) error {
	with := ""
	if o.listen != devAddress {
		with = "export LOCKCTL_BACKEND=etcd://" + o.listen + "\n    "
	}
	_, err := fmt.Fprintf(a.Stdout, `lockctl dev is running:
  console  http://%s/
  server   etcd://%s
  data     %s

In other terminals:
    %slockctl watch
    lockctl hold jobs/daily -- sleep 10

Stop it with Ctrl-C.
`, o.console, o.listen, dir, with)
	return err
}
