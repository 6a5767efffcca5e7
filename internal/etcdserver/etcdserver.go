// Package etcdserver runs a member of etcd inside the process, for development,
// tests and benchmarks. It listens on the loopback interface only.
package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/lockctl/lockctl/internal/freeport"
)

const leastBcryptCost = 4 // that its library allows

// Options say how to run the server.
type Options struct {
	// Dir is where it keeps its data. It must be given.
	Dir string
	// Listen is the address for clients. Defaults to a free port of 127.0.0.1.
	Listen string
	// LogFile is where the server's log goes, warnings and up. Defaults to nowhere.
	LogFile string
	// Tick is the time between heartbeats; the least TTL of a lease is about 15 of
	// them. Defaults to 100 ms.
	Tick time.Duration
	// Name is what Members call this one. Defaults to "lockctl".
	Name string
	// Members are where the members of a new cluster listen for each other, by name,
	// this one included. Defaults to one member, on a free port of 127.0.0.1.
	Members map[string]string
	// ListenPeer is where it listens for the other members, if that is not where they
	// are told to connect to. Defaults to its address in Members.
	ListenPeer string
	// CertFile and KeyFile are the certificate that it shows to clients. Defaults to
	// no TLS.
	CertFile, KeyFile string
	// ClientCAFile has the authority whose certificates clients must have. Defaults
	// to asking for none.
	ClientCAFile string
	// TokenTTL is how long the token of a client that has given its password lives
	// without being used, in whole seconds. Defaults to 5 min.
	TokenTTL time.Duration
	// Quota is how many bytes the data may take before writing is refused. Defaults
	// to 2 GB.
	Quota int64
	// NoSync leaves out the flushing to disk and the slowness of hashing passwords,
	// for tests that need no durability and no secrets.
	NoSync bool
	// GRPC are options for the gRPC server.
	GRPC []grpc.ServerOption
}

// A Server is a running etcd.
type Server struct {
	etcd *embed.Etcd
	addr string
	grpc *atomic.Pointer[grpc.Server]
}

// Start runs a server and returns when it serves, or when the context ends. A
// member of a cluster serves when most of the members have been started.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("etcd server: no data directory given")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("etcd server: %w", err)
	}
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("etcd server: %w", err)
	}
	var served atomic.Pointer[grpc.Server]
	config.ServiceRegister = served.Store
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("etcd server on %s: %w", o.Listen, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return &Server{etcd: etcd, addr: o.Listen, grpc: &served}, nil
	case err = <-etcd.Err():
	case <-etcd.Server.StopNotify():
		err = errors.New("stopped while starting")
	case <-ctx.Done():
		err = ctx.Err()
	}
	etcd.Close()
	return nil, fmt.Errorf("etcd server on %s: %w", o.Listen, err)
}

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Name == "" {
		o.Name = "lockctl"
	}
	if o.Listen == "" {
		if o.Listen, err = FreeAddr(); err != nil {
			return o, err
		}
	}
	if o.Members == nil {
		addr, err := FreeAddr()
		if err != nil {
			return o, err
		}
		o.Members = map[string]string{o.Name: addr}
	}
	if o.Members[o.Name] == "" {
		return o, fmt.Errorf("%q is not a member", o.Name)
	}
	return o, nil
}

func (o Options) config() (*embed.Config, error) {
	config := embed.NewConfig()
	config.Dir = o.Dir
	config.Name = o.Name
	scheme := "http"
	if o.CertFile != "" {
		scheme = "https"
	}
	clients := []url.URL{{Scheme: scheme, Host: o.Listen}}
	peers := []url.URL{{Scheme: "http", Host: o.Members[o.Name]}}
	config.ListenClientUrls, config.AdvertiseClientUrls = clients, clients
	config.ListenPeerUrls, config.AdvertisePeerUrls = peers, peers
	o.closeToWebPages(config, clients[0])
	if o.ListenPeer != "" {
		config.ListenPeerUrls = []url.URL{{Scheme: "http", Host: o.ListenPeer}}
	}
	var members []string
	for name, addr := range o.Members {
		members = append(members, name+"=http://"+addr)
	}
	config.InitialCluster = strings.Join(members, ",")
	config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile = o.CertFile, o.KeyFile
	config.ClientTLSInfo.TrustedCAFile, config.ClientTLSInfo.ClientCertAuth = o.ClientCAFile, o.ClientCAFile != ""
	if o.TokenTTL > 0 {
		config.AuthTokenTTL = uint(o.TokenTTL / time.Second)
	}
	config.QuotaBackendBytes = o.Quota
	if o.NoSync {
		config.UnsafeNoFsync = true
		config.BcryptCost = leastBcryptCost
	}
	config.GRPCAdditionalServerOptions = o.GRPC
	config.GRPCKeepAliveMinTime = time.Second
	if o.Tick > 0 {
		config.TickMs = uint(o.Tick.Milliseconds())
		config.ElectionMs = 10 * config.TickMs
	}
	logger := zap.NewNop()
	if o.LogFile != "" {
		logging := zap.NewProductionConfig()
		logging.Level = zap.NewAtomicLevelAt(zapcore.WarnLevel)
		logging.OutputPaths, logging.ErrorOutputPaths = []string{o.LogFile}, []string{o.LogFile}
		var err error
		if logger, err = logging.Build(); err != nil {
			return nil, err
		}
	}
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return config, nil
}

// closeToWebPages leaves out etcd's API for HTTP, which any page in a browser on this
// machine could read and write with. What else is served by HTTP, such as metrics, is
// for programs that ask for it under the server's own address.
func (o Options) closeToWebPages(config *embed.Config, self url.URL) {
	config.EnableGRPCGateway = false
	config.CORS = map[string]struct{}{self.String(): {}} // if it were empty, all could read
	config.HostWhitelist = map[string]struct{}{self.Hostname(): {}, "localhost": {}, "127.0.0.1": {}}
}

// Addr is the address for clients, host:port.
func (s *Server) Addr() string { return s.addr }

// Err reports a failure of the running server.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Leader reports whether this member is the leader of its cluster, as far as it
// knows.
func (s *Server) Leader() bool { return s.etcd.Server.Leader() == s.etcd.Server.MemberID() }

// Cut drops all messages between this member and the other, both ways.
func (s *Server) Cut(other *Server) {
	s.etcd.Server.CutPeer(other.etcd.Server.MemberID())
	other.etcd.Server.CutPeer(s.etcd.Server.MemberID())
}

// Mend is the opposite of Cut.
func (s *Server) Mend(other *Server) {
	s.etcd.Server.MendPeer(other.etcd.Server.MemberID())
	other.etcd.Server.MendPeer(s.etcd.Server.MemberID())
}

// Close stops the server and waits for it. It hangs up on its clients first:
// etcd itself would wait for several seconds for their watches to end.
func (s *Server) Close() {
	if server := s.grpc.Load(); server != nil {
		server.Stop()
	}
	s.etcd.Close()
}

// Kill is Close without handing the leadership over to another member.
func (s *Server) Kill() {
	s.etcd.Server.HardStop()
	s.Close()
}

// FreeAddr is a free port of 127.0.0.1, as host:port. Another process can take it
// before it is used.
func FreeAddr() (string, error) { return freeport.Addr() }
