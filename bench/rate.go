package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/internal/freeport"
)

// ratesCommand measures limits that processes share. It has a page of its own: what counts
// there is not the time of an operation.
const ratesCommand = "rates"

// A rateScenario is a limit that is kept by some contenders.
type rateScenario struct {
	name, title string
	limit       rateLimit
	processes   []int
	contenders  []string
	zk          bool // lockctl on ZooKeeper too
	// The goals, for lockctl on etcd with 8 processes.
	utilisation float64
	p99         time.Duration // 0 for none
}

// rateScenarios are all of them.
var rateScenarios = []rateScenario{
	{
		name: "million", title: "1,000,000 a second, with a slack",
		limit:     rateLimit{Rate: 1_000_000, Burst: 1_000_000, Slack: 1_000_000, Period: 500 * time.Millisecond},
		processes: []int{1, 8, 32}, contenders: []string{rateLeased, rateLocal, rateRedis, rateEtcdCAS}, zk: true,
		utilisation: 0.99, p99: 10 * time.Microsecond,
	},
	{
		name: "strict", title: "5,000 a second, nothing above burst and rate",
		limit:     rateLimit{Rate: 5_000, Burst: 5_000, Period: time.Second},
		processes: []int{1, 8, 32}, contenders: []string{rateLeased, rateExact, rateLocal, rateRedis, rateEtcdCAS}, zk: true,
		utilisation: 0.98,
	},
}

// A rateRow is what one contender has done in a scenario, with so many processes.
type rateRow struct {
	scenario  *rateScenario
	contender string
	processes int
	seconds   float64

	admitted, denied int64
	over, atMost     float64 // tokens above burst and rate in the worst window
	fair             float64
	commits          float64 // a second; negative if they are not counted
	p50, p99         time.Duration
	absent           string
}

// rates runs the scenarios.
func rates(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	flags := flag.NewFlagSet("bench "+ratesCommand, flag.ContinueOnError)
	measure := flags.Duration("duration", 20*time.Second, "how long each is measured")
	warm := flags.Duration("warm", 4*time.Second, "how long each warms up, so that the burst is spent")
	only := flags.String("run", "", "only scenarios and contenders that match `REGEXP`, as million/8/redis_rate")
	file := flags.String("o", "", "write the page to `FILE`")
	dir := flags.String("dir", "", "`DIR` for the servers' data (default: the system's for temporary files)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	w, err := newWorkspace(*dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	facts, err := machine(w.dir)
	if err != nil {
		return err
	}
	b := &rateBench{w: w, warm: *warm, measure: *measure, progress: progress}
	defer func() { err = errors.Join(err, b.close()) }()
	var rows []rateRow
	for i := range rateScenarios {
		s := &rateScenarios[i]
		for _, n := range s.processes {
			for _, c := range s.all() {
				if !match.MatchString(fmt.Sprintf("%s/%d/%s", s.name, n, c)) {
					continue
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				row, err := b.row(ctx, s, n, c)
				if err != nil {
					return err
				}
				rows = append(rows, row)
			}
		}
	}
	command := strings.Join(append([]string{"go run ./bench", ratesCommand}, args...), " ")
	page := ratePage{command: command, facts: append(facts, b.versions(ctx)...), rows: rows, measure: *measure, warm: *warm}
	if *file == "" {
		return page.write(out)
	}
	f, err := os.Create(*file)
	if err != nil {
		return err
	}
	return errors.Join(page.write(f), f.Close())
}

const onZooKeeper = " on ZooKeeper"

func (s *rateScenario) all() []string {
	all := slices.Clone(s.contenders)
	if s.zk {
		all = slices.Insert(all, 1, rateLeased+onZooKeeper)
	}
	return all
}

// A rateBench is one run. Servers start when they are needed first.
type rateBench struct {
	w             *workspace
	warm, measure time.Duration
	progress      io.Writer
	etcd, zk      service
	redis         *exec.Cmd
	redisURL      string
	runs          int
}

func (b *rateBench) close() error {
	var err error
	for _, s := range []service{b.etcd, b.zk} {
		if s != nil {
			err = errors.Join(err, s.close())
		}
	}
	if b.redis != nil {
		err = errors.Join(err, b.redis.Process.Kill())
		_ = b.redis.Wait() // it was killed
	}
	return err
}

// row measures a contender. What is not installed is left out by name.
func (b *rateBench) row(ctx context.Context, s *rateScenario, n int, contender string) (rateRow, error) {
	row := rateRow{scenario: s, contender: contender, processes: n, commits: -1, seconds: b.measure.Seconds()}
	b.runs++
	work := rateWork{
		Contender: strings.TrimSuffix(contender, onZooKeeper), Name: fmt.Sprint("rate-", b.runs), Processes: n, Limit: s.limit,
		Warm: b.warm, Measure: b.measure,
	}
	url, on, err := b.service(ctx, contender)
	var lacking missing
	if errors.As(err, &lacking) {
		row.absent = lacking.Error()
		fmt.Fprintf(b.progress, "%s, %d, %s: not measured: %v\n", s.name, n, contender, lacking)
		return row, nil
	}
	if err != nil {
		return row, err
	}
	work.URL = url
	results, commits, err := b.run(ctx, work, on)
	if err != nil {
		return row, fmt.Errorf("%s, %d, %s: %w", s.name, n, contender, err)
	}
	row.commits = commits
	row.evaluate(results)
	fmt.Fprintf(b.progress, "%s, %d, %s: %s\n", s.name, n, contender, strings.Join(row.cells()[2:], " "))
	return row, nil
}

// service is the URL of what the contender works on, and the service whose commits count.
func (b *rateBench) service(ctx context.Context, contender string) (string, service, error) {
	var err error
	switch {
	case contender == rateLocal:
		return "", nil, nil
	case contender == rateRedis:
		return b.startRedis()
	case strings.HasSuffix(contender, onZooKeeper):
		if b.zk == nil {
			if b.zk, err = startZK(ctx, b.w, 1); err != nil {
				b.zk = nil
				return "", nil, err
			}
		}
		return "zk://" + b.zk.addrs()[0] + "/bench", b.zk, nil
	}
	if b.etcd == nil {
		if b.etcd, err = startEtcd(ctx, b.w, 1); err != nil {
			return "", nil, err
		}
	}
	return "etcd://" + b.etcd.addrs()[0] + "/bench", b.etcd, nil
}

// startRedis starts a server that flushes once a second, as it does by default.
func (b *rateBench) startRedis() (string, service, error) {
	if b.redisURL != "" {
		return b.redisURL, nil, nil
	}
	path, err := installed("redis-server")
	if err != nil {
		return "", nil, err
	}
	addr, err := freeport.Addr()
	if err != nil {
		return "", nil, err
	}
	dir, err := b.w.sub("redis")
	if err != nil {
		return "", nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	b.redis = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes", "--save", "")
	if err := b.redis.Start(); err != nil {
		return "", nil, err
	}
	b.redisURL = "redis://" + addr
	return b.redisURL, nil, nil
}

// run starts the processes, has them begin at the same moment, and collects what they did.
func (b *rateBench) run(ctx context.Context, work rateWork, on service) (results []rateResult, commits float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	text, err := json.Marshal(work)
	if err != nil {
		return nil, 0, err
	}
	var processes []*process
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.end())
		}
	}()
	for range work.Processes {
		p, err := startProcess(exec.Command(self, rateWorkerCommand, string(text)))
		if err != nil {
			return nil, 0, err
		}
		processes = append(processes, p)
	}
	for _, p := range processes {
		if _, err := p.line(startTimeout); err != nil {
			return nil, 0, err
		}
	}
	begin := time.Now().Add(500 * time.Millisecond)
	for _, p := range processes {
		if err := p.say(strconv.FormatInt(begin.UnixNano(), 10)); err != nil {
			return nil, 0, err
		}
	}
	commits, err = commitsBetween(ctx, on, begin.Add(work.Warm), work.Measure)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range processes {
		line, err := p.line(work.Warm + work.Measure + startTimeout)
		if err != nil {
			return nil, 0, err
		}
		var r rateResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", line, err)
		}
		results = append(results, r)
	}
	return results, commits, nil
}

// commitsBetween is how many commits a second a service makes, from that moment on.
func commitsBetween(ctx context.Context, on service, from time.Time, d time.Duration) (float64, error) {
	if on == nil {
		return -1, nil
	}
	time.Sleep(time.Until(from))
	before, err := on.counts(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	time.Sleep(d - 100*time.Millisecond)
	after, err := on.counts(ctx)
	if err != nil {
		return 0, err
	}
	return (after[0].Each - before[0].Each) / time.Since(begun).Seconds(), nil
}

// evaluate makes figures of what the processes did.
func (r *rateRow) evaluate(results []rateResult) {
	var times histogram
	var sure, both []int64
	var sum, squares float64
	for _, p := range results {
		r.admitted += p.Admitted
		r.denied += p.Denied
		times.merge(p.Times)
		sum += float64(p.Admitted)
		squares += float64(p.Admitted) * float64(p.Admitted)
		for len(sure) < len(p.Sure) {
			sure, both = append(sure, 0), append(both, 0)
		}
		for i := range p.Sure {
			sure[i] += p.Sure[i]
			both[i] += p.Sure[i] + p.Unsure[i]
		}
	}
	r.p50, r.p99 = times.quantile(0.5), times.quantile(0.99)
	r.over, r.atMost = overshoot(sure, r.scenario.limit), overshoot(both, r.scenario.limit)
	if squares > 0 {
		r.fair = sum * sum / (float64(len(results)) * squares)
	}
}

// overshoot is by how much more than burst and rate was spent in the worst window of whole
// milliseconds.
func overshoot(byMilli []int64, limit rateLimit) float64 {
	each := float64(limit.Rate) / 1000
	level, worst := 0.0, 0.0
	for _, n := range byMilli {
		level = max(level, 0) + float64(n) - each
		worst = max(worst, level)
	}
	return max(worst-float64(limit.Burst), 0)
}
