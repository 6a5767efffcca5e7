package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
	"github.com/lockctl/lockctl/internal/etcdserver"
	"github.com/lockctl/lockctl/internal/freeport"
)

// serveEtcdCommand is the command of this program that runs one member of etcd.
// It is for the program itself: servers are processes of their own, so that
// they share neither memory nor scheduler with the clients.
const serveEtcdCommand = "serve-etcd"

const startTimeout = time.Minute

// member says what member to run.
type member struct {
	Dir, Name string
	Members   map[string]string
}

// serveEtcd runs a member until stdin ends. It writes the address for clients.
func serveEtcd(text string, stdin io.Reader, stdout io.Writer) error {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := etcdserver.Start(ctx, etcdserver.Options{Dir: m.Dir, Name: m.Name, Members: m.Members})
	if err != nil {
		return err
	}
	defer server.Close()
	if _, err := fmt.Fprintln(stdout, server.Addr()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}

// etcdService is a service of etcd.
type etcdService struct {
	processes []*process
	clients   []string
}

func startEtcd(_ context.Context, w *workspace, nodes int) (service, error) {
	members := map[string]string{}
	for i := range nodes {
		addr, err := freeport.Addr()
		if err != nil {
			return nil, err
		}
		members[fmt.Sprintf("m%d", i+1)] = addr
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := w.sub("etcd")
	if err != nil {
		return nil, err
	}
	s := &etcdService{}
	for name := range members { // a member waits for the others
		text, err := json.Marshal(member{Dir: filepath.Join(dir, name), Name: name, Members: members})
		if err != nil {
			return nil, err
		}
		p, err := startProcess(exec.Command(self, serveEtcdCommand, string(text)))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.processes = append(s.processes, p)
	}
	for _, p := range s.processes {
		addr, err := p.line(startTimeout)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("etcd: %w", err), s.close())
		}
		s.clients = append(s.clients, addr)
	}
	return s, nil
}

func (s *etcdService) addrs() []string { return s.clients }

func (s *etcdService) close() error {
	var err error
	for _, p := range s.processes {
		err = errors.Join(err, p.end())
	}
	return err
}

// counted are the counters, by the metric's beginning. A commit is applied by
// each member, all else is done by one.
var counted = []struct{ what, metric string }{
	{"commits", `etcd_server_proposals_applied_total `},
	{"reads", `grpc_server_msg_received_total{grpc_method="Range",`},
	{"watch requests", `grpc_server_msg_received_total{grpc_method="Watch",`},
	{"watch replies", `grpc_server_msg_sent_total{grpc_method="Watch",`},
}

func (s *etcdService) counts(ctx context.Context) ([]report.Count, error) {
	counts := make([]report.Count, len(counted))
	for i, c := range counted {
		counts[i].What = c.what
	}
	for _, addr := range s.clients {
		body, err := get(ctx, "http://"+addr+"/metrics")
		if err != nil {
			return nil, err
		}
		for i, value := range readMetrics(body) {
			if i == 0 {
				counts[i].Each = max(counts[i].Each, value)
			} else {
				counts[i].Each += value
			}
		}
	}
	return counts, nil
}

func (s *etcdService) sum(ctx context.Context, metrics ...string) (total float64, err error) {
	for _, addr := range s.clients {
		body, err := get(ctx, "http://"+addr+"/metrics")
		if err != nil {
			return 0, err
		}
		for _, m := range metrics {
			total += sum(body, m)
		}
	}
	return total, nil
}

// readMetrics finds the counters in a page of metrics.
func readMetrics(page string) []float64 {
	values := make([]float64, len(counted))
	for i, c := range counted {
		values[i] = sum(page, c.metric)
	}
	return values
}

// sum adds up the values of the lines of a page of metrics that begin so.
func sum(page, beginning string) (total float64) {
	lines := bufio.NewScanner(strings.NewReader(page))
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), beginning) {
			continue
		}
		text := lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:]
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			total += v
		}
	}
	return total
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", url, response.Status)
	}
	return string(body), err
}

func (s *etcdService) versions(ctx context.Context) ([]report.Fact, error) {
	body, err := get(ctx, "http://"+s.clients[0]+"/version")
	if err != nil {
		return nil, err
	}
	var v struct{ Etcdserver string }
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return nil, fmt.Errorf("version of etcd: %w", err)
	}
	facts := []report.Fact{
		{Name: "etcd", Value: v.Etcdserver},
		{Name: "etcd client/v3", Value: moduleVersion("go.etcd.io/etcd/client/v3")},
	}
	if out, err := exec.CommandContext(ctx, "etcdctl", "version").Output(); err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		facts = append(facts, report.Fact{Name: "etcdctl", Value: strings.TrimPrefix(first, "etcdctl version: ")})
	}
	return facts, nil
}
