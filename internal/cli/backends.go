package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

// about says what a kind of backend is, for who has to choose one.
type about struct {
	scheme      string
	Consistency string `json:"consistency"`
	Order       string `json:"order"`    // in which those who wait get the lock
	Fencing     string `json:"fencing"`  // whether holds have tokens
	WakeUp      string `json:"wake_up"`  // who is woken by a release
	Failover    string `json:"failover"` // what it can lose
}

func abouts() []about {
	return []about{
		{"etcd", "consensus", "first come", "yes", "the next in line", "nothing"},
		{"zk", "consensus", "first come", "yes", "the next in line", "nothing"},
		{"postgres", "one primary", "any", "yes", "all, by NOTIFY", "what the replica lacks"},
		{"mysql", "one primary", "any", "yes", "polling", "what the replica lacks"},
		{"dynamodb", "strong on one item", "any", "yes", "polling", "nothing"},
		{"redis", "one server", "any", "yes", "all, by a message", "what the replica lacks"},
		{"redlock", "most of the servers", "any", "no", "all, by a message", "what a restarted server forgot"},
		{"sqlite", "one machine's file", "any", "yes", "polling", "there is none"},
	}
}

func (a *app) backendsCommand() *cobra.Command {
	cycles := 20
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "Compare the systems that can keep locks",
		Long: `Compare the systems that can keep locks, and measure how long those take that are named
with --backend: a lock of a name that nobody else uses is taken and released again and again.
On all of them a dead holder's lock is free when its TTL has passed.`,
		Example: `  lockctl backends
  lockctl backends --backend etcd://10.0.0.1:2379 --backend postgres://app@db/app`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cycles < 1 || cycles > 10000 {
				return usageError("--cycles %d is not from 1 to 10000", cycles)
			}
			ctx, cancel := interruptible(cmd.Context())
			defer cancel()
			return because(ctx, a.compare(ctx, cycles))
		},
	}
	cmd.Flags().IntVar(&cycles, "cycles", cycles, "how `OFTEN` the lock is taken on each backend")
	return cmd
}

// compared is a system, and how long it took.
type compared struct {
	System string `json:"system"` // the scheme of its URLs
	about
	*measured
}

// measured is how long the cycles took on a backend.
type measured struct {
	Backend string `json:"backend"`
	Cycles  int    `json:"cycles"`
	// Times are in milliseconds: the median, and the least that 99 % did not exceed.
	Acquire    float64 `json:"acquire_ms"`
	AcquireP99 float64 `json:"acquire_p99_ms"`
	Release    float64 `json:"release_ms"`
}

// compare writes the comparison: of the backends that are named, or else of all kinds.
func (a *app) compare(ctx context.Context, cycles int) error {
	var all []compared
	if len(a.backends) == 0 && a.env("LOCKCTL_BACKEND") == "" {
		for _, about := range abouts() {
			all = append(all, compared{System: about.scheme, about: about})
		}
		return a.writeComparison(all)
	}
	backends, err := a.allBackends()
	if err != nil {
		return err
	}
	for _, b := range backends {
		m, err := b.measure(ctx, cycles)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name(), err)
		}
		about := b.about()
		all = append(all, compared{about.scheme, about, m})
	}
	return a.writeComparison(all)
}

// about is what is known of the backend's kind.
func (b backend) about() about {
	for _, about := range abouts() {
		if scheme := schemeOf(b.url); scheme == about.scheme || scheme == about.scheme+"s" {
			return about
		}
	}
	return about{scheme: "unknown"}
}

// measure takes and releases a lock that nobody else wants.
func (b backend) measure(ctx context.Context, cycles int) (m *measured, err error) {
	s, err := b.open(ctx, dialOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	take, err := taker(s, "lockctl-backends-"+rand.Text())
	if err != nil {
		return nil, err
	}
	var acquires, releases []time.Duration
	for i := range cycles + 1 {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		begin := time.Now()
		held, err := take(ctx)
		taken := time.Now()
		if err == nil {
			err = held.Unlock(ctx)
		}
		cancel()
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first opens the session, and connections
			acquires, releases = append(acquires, taken.Sub(begin)), append(releases, time.Since(taken))
		}
	}
	return &measured{b.name(), cycles, quantile(acquires, 0.5), quantile(acquires, 0.99), quantile(releases, 0.5)}, nil
}

// taker returns what takes a lock of the service, of whatever kind that is.
func taker(s service, name string) (func(context.Context) (recipes.Held, error), error) {
	switch c := s.(type) {
	case *recipes.Client:
		m, err := c.Mutex(name, nil)
		return takes(m), err
	case *recipes.LeaseClient:
		m, err := c.Mutex(name, nil)
		return takes(m), err
	case *recipes.UnfencedClient:
		m, err := c.Mutex(name, nil)
		return takes(m), err
	}
	return nil, usageError("%s has no locks", s.Engine())
}

func takes[H recipes.Held](l recipes.Locker[H]) func(context.Context) (recipes.Held, error) {
	return func(ctx context.Context) (recipes.Held, error) { return l.Lock(ctx) }
}

// quantile is in milliseconds.
func quantile(times []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[int(q*float64(len(sorted)-1)+0.5)].Microseconds()) / 1000
}

func (a *app) writeComparison(all []compared) error {
	if a.json() {
		for _, c := range all {
			if err := a.writeJSON(c); err != nil {
				return err
			}
		}
		return nil
	}
	table := termtext.Table{Header: []string{"SYSTEM", "CONSISTENCY", "ORDER", "FENCING", "WAKE-UP", "A FAILOVER LOSES"}}
	timed := slices.ContainsFunc(all, func(c compared) bool { return c.measured != nil })
	if timed {
		table.Header = append(table.Header, "ACQUIRE", "P99", "RELEASE")
		table.Right = []bool{false, false, false, false, false, false, true, true, true}
	} else {
		table.Right = make([]bool, len(table.Header))
	}
	for _, c := range all {
		row := []string{c.System, c.Consistency, c.Order, c.Fencing, c.WakeUp, c.Failover}
		if timed {
			row[0] = termtext.Escape(c.Backend)
			row = append(row, millis(c.Acquire), millis(c.AcquireP99), millis(c.Release))
		}
		table.Rows = append(table.Rows, row)
	}
	return table.Write(a.Stdout)
}

func millis(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }
