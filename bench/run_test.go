package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/bench/internal/report"
)

// fakeService counts what its runners do.
type fakeService struct{ done int }

func (s *fakeService) addrs() []string { return nil }
func (s *fakeService) counts(context.Context) ([]report.Count, error) {
	return []report.Count{{What: "commits", Each: float64(3 * s.done)}}, nil
}
func (s *fakeService) sum(context.Context, ...string) (float64, error) { return 0, nil }
func (s *fakeService) versions(context.Context) ([]report.Fact, error) { return nil, nil }
func (s *fakeService) close() error                                    { return nil }

// fakeRunner does four operations in the time given.
type fakeRunner struct {
	name    string
	service *fakeService
	calls   *[]string
	fail    int // the call that fails, from 1
	closed  int
	n       int
}

func (r *fakeRunner) measure(_ context.Context, d time.Duration) ([]time.Duration, error) {
	*r.calls = append(*r.calls, r.name)
	if r.n++; r.n == r.fail {
		return nil, errors.New("out of luck")
	}
	r.service.done += 4
	return []time.Duration{d / 4, d / 2, d * 3 / 4, d}, nil
}

func (r *fakeRunner) close() error {
	r.closed++
	return nil
}

// fakeSurveyor has done something else before each round that counts.
type fakeSurveyor struct {
	fakeRunner
	surveys int
}

func (r *fakeSurveyor) spans() {}
func (r *fakeSurveyor) survey(ctx context.Context, _ time.Duration) error {
	r.surveys++
	return ctx.Err()
}
func (r *fakeSurveyor) figures() []report.Count {
	return []report.Count{{What: "surveys", Each: float64(r.surveys)}}
}

func opens(r runner, err error) func(context.Context, site) (runner, error) {
	return func(context.Context, site) (runner, error) { return r, err }
}

func testBench() *bench {
	everything := regexp.MustCompile("")
	return &bench{
		settings: settings{rounds: 2, duration: 40 * time.Millisecond, scenarios: everything, contenders: everything},
		progress: io.Discard,
	}
}

func TestScenario(t *testing.T) {
	t.Parallel()
	service := &fakeService{}
	var calls []string
	a := &fakeRunner{name: "a", service: service, calls: &calls}
	b := &fakeRunner{name: "b", service: service, calls: &calls}
	failing := &fakeRunner{name: "c", service: service, calls: &calls, fail: 2}
	s := scenario{name: "cycle", title: "title", operation: "cycle", clients: 1, contenders: []contender{
		{"a", report.Ours, opens(a, nil)},
		{"b", report.Peer, opens(b, nil)},
		{"c", report.Peer, opens(failing, nil)},
		{"d", report.Peer, opens(nil, missing("d is not installed"))},
	}}
	result, err := testBench().scenario(context.Background(), service, "fake", s)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "a", "b", "c", "b", "a", "a", "b"}, calls, "taking turns, in an order that rotates")
	require.Equal(t, "fake/cycle", result.Name)
	require.Equal(t, 10*time.Millisecond, result.Results[0].Time())
	require.Len(t, result.Results[1].Samples, 2)
	require.Equal(t, []report.Count{{What: "commits", Each: 3}}, result.Results[0].Counts)
	require.Equal(t, "failed: out of luck", result.Results[2].Absent)
	require.Empty(t, result.Results[2].Samples)
	require.Equal(t, "d is not installed", result.Results[3].Absent)
	require.Equal(t, []int{1, 1, 1}, []int{a.closed, b.closed, failing.closed})
}

func TestScenarioThatIsSurveyed(t *testing.T) {
	t.Parallel()
	service := &fakeService{}
	r := &fakeSurveyor{fakeRunner: fakeRunner{name: "a", service: service, calls: new([]string)}}
	s := scenario{name: "crowd", contenders: []contender{{"a", report.Ours, opens(r, nil)}}}
	result, err := testBench().scenario(context.Background(), service, "fake", s)
	require.NoError(t, err)
	require.Equal(t, 25*time.Millisecond, result.Results[0].Time(), "the mean of what each took, not of the time in between")
	require.Equal(t, []report.Count{{What: "commits", Each: 3}, {What: "surveys", Each: 2}}, result.Results[0].Counts)
}

func TestScenarioInWhichOursFails(t *testing.T) {
	t.Parallel()
	service := &fakeService{}
	var calls []string
	a := &fakeRunner{name: "a", service: service, calls: &calls, fail: 1}
	b := &fakeRunner{name: "b", service: service, calls: &calls}
	s := scenario{contenders: []contender{{"b", report.Peer, opens(b, nil)}, {"a", report.Ours, opens(a, nil)}}}
	_, err := testBench().scenario(context.Background(), service, "fake", s)
	require.ErrorContains(t, err, "a: out of luck")
	require.Equal(t, []int{1, 1}, []int{a.closed, b.closed})
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range groups([]int{1, 3}) {
		for _, s := range g.scenarios {
			name := g.name + "/" + s.name
			require.False(t, seen[name], name)
			seen[name] = true
			slugs := map[string]bool{}
			for i, c := range s.contenders {
				require.Equal(t, i == 0, c.role == report.Ours, "%s: ours comes first", name)
				require.False(t, slugs[slug(c.name)], "%s: %s has a lock of its own", name, c.name)
				slugs[slug(c.name)] = true
			}
		}
	}
	require.True(t, seen["etcd/handoff-16"])
	require.True(t, seen["zookeeper3/cycle"])
}

func TestSlug(t *testing.T) {
	t.Parallel()
	require.Equal(t, "etcdctl-lock-name-true", slug("etcdctl lock NAME true"))
	require.Equal(t, "raw-put---delete", slug("raw put + delete"))
}

func TestChartFile(t *testing.T) {
	t.Parallel()
	require.Equal(t, "performance-etcd.svg", chartFile("docs/performance.md", "etcd"))
}
