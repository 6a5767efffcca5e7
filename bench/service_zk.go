package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockctl/lockctl/bench/internal/report"
	"github.com/lockctl/lockctl/internal/zkserver"
)

// zkService is a service of ZooKeeper.
type zkService struct {
	host   *host
	server *zkserver.Server
}

func startZK(_ context.Context, w *workspace, nodes int) (service, error) {
	s := &zkService{host: &host{workspace: w, name: "zookeeper"}}
	if err := s.host.try(func() { s.server = zkserver.Start(s.host, nodes) }); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *zkService) addrs() []string { return s.server.Addrs() }

func (s *zkService) close() error { return s.host.close() }

// readCounter is the server's count of what was read below one top level node, with
// a watch or without.
var readCounter = regexp.MustCompile(`^zk_cnt_.+_read_per_namespace$`)

func (s *zkService) counts(context.Context) ([]report.Count, error) {
	commits, reads := report.Count{What: "commits"}, report.Count{What: "reads"}
	err := s.host.try(func() {
		commits.Each = float64(s.server.Zxid(s.host) & 0xffffffff)
		for i := range s.server.Addrs() {
			for key, value := range s.server.Mntr(s.host, i) {
				if !readCounter.MatchString(key) {
					continue
				}
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					s.host.Fatal(err)
				}
				reads.Each += n
			}
		}
	})
	return []report.Count{commits, reads}, err
}

func (s *zkService) sum(_ context.Context, metrics ...string) (total float64, err error) {
	err = s.host.try(func() {
		for i := range s.server.Addrs() {
			for key, value := range s.server.Mntr(s.host, i) {
				if !slices.ContainsFunc(metrics, func(m string) bool { return strings.HasPrefix(key, m) }) {
					continue
				}
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					s.host.Fatal(err)
				}
				total += n
			}
		}
	})
	return total, err
}

func (s *zkService) versions(ctx context.Context) ([]report.Fact, error) {
	var version string
	err := s.host.try(func() { version, _, _ = strings.Cut(s.server.Mntr(s.host, 0)["zk_version"], "-") })
	facts := []report.Fact{
		{Name: "ZooKeeper", Value: version},
		{Name: "go-zookeeper/zk", Value: moduleVersion("github.com/go-zookeeper/zk")},
	}
	return append(facts, peerVersions(ctx)...), err
}
