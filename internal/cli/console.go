package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/console"
)

// consoleOptions are the flags of console.
type consoleOptions struct {
	listen   string
	basePath string
	hosts    []string
}

func (a *app) consoleCommand() *cobra.Command {
	o := consoleOptions{}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console",
		Long: `Serve the live web console for one or several backends until interrupted. It
shows and changes nothing. It listens on the loopback interface unless told otherwise;
whoever can reach it can see all locks, so put a proxy that asks for a login in front.`,
		Example: `  lockctl console --backend etcd://10.0.0.1:2379 --backend zk://10.0.0.2:2181
  lockctl console --listen :8700 --base-path /locks --allow-host ops.example.com`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.console(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", consoleAddress, "`ADDRESS` to listen on")
	flags.StringVar(&o.basePath, "base-path", "", "`PATH` that all pages are below, such as /locks")
	flags.StringArrayVar(&o.hosts, "allow-host", nil, "`HOST` that pages are asked for under, when behind a proxy; repeatable")
	return cmd
}

// A consoleBackend is a client with the name that the console shows.
type consoleBackend struct {
	name   string
	client service
}

// console serves until it is interrupted, which is not an error.
func (a *app) console(ctx context.Context, o consoleOptions) (err error) {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	backends, err := a.allBackends()
	if err != nil {
		return err
	}
	listener, err := listen(o.listen, "--listen")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // it was closed before, if all went well
	names := consoleNames(backends)
	var open []consoleBackend
	for i, b := range backends {
		client, err := b.open(ctx, dialOptions{})
		if err != nil {
			return because(ctx, err)
		}
		defer client.Close()
		open = append(open, consoleBackend{names[i], client})
	}
	a.say("console at http://%s%s/", reachable(listener.Addr()), strings.TrimSuffix(o.basePath, "/"))
	return serveConsole(ctx, listener, open, o)
}

// reachable is an address that a browser here can ask, and that the console answers
// under. That of all interfaces is none.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return addr.String()
}

const longestName = 50 // of a backend, in bytes

// consoleNames names each backend by its engine and first server, or its file, with a
// number where that is not enough.
func consoleNames(backends []backend) []string {
	seen := map[string]int{}
	var names []string
	for _, b := range backends {
		name := b.name()
		if u, err := url.Parse(name); err == nil {
			at, _, _ := strings.Cut(u.Host, ",")
			if file := u.Opaque + u.Path; at == "" && file != "" {
				at = filepath.Base(file)
			}
			name = strings.TrimSpace(u.Scheme + " " + at)
		}
		name = strings.ReplaceAll(name, "/", "-")
		name = strings.ToValidUTF8(name[:min(len(name), longestName)], "") // it may end within a character
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		names = append(names, name)
	}
	return names
}

// serveConsole serves the console on the listener until the context ends.
func serveConsole(ctx context.Context, listener net.Listener, backends []consoleBackend, o consoleOptions) error {
	var shown []console.Backend
	for _, b := range backends {
		shown = append(shown, console.Backend{Name: b.name, Client: b.client})
	}
	site, err := console.New(shown, &console.Options{
		BasePath: strings.TrimSuffix(o.basePath, "/"), AllowedHosts: o.hosts, Version: version(),
	})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: site, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	ctx, cancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- site.Run(ctx) }()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	select {
	case <-ctx.Done():
	case err = <-served: // the listener failed
	}
	cancel()
	stopping, stop := context.WithTimeout(context.Background(), releaseTimeout)
	defer stop()
	if server.Shutdown(stopping) != nil {
		_ = server.Close() // a client that keeps its request open has had its time
	}
	err = errors.Join(err, <-ran)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
