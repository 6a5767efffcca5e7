package main

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCrew(t *testing.T) {
	t.Parallel()
	var done atomic.Int64
	client := func(_ context.Context, granted func()) error {
		granted()
		done.Add(1)
		return nil
	}
	c := &crew{turns: []turn{client, client, client}}
	moments, err := c.measure(context.Background(), 20*time.Millisecond)
	require.NoError(t, err)
	require.Len(t, moments, int(done.Load()))
	require.True(t, slices.IsSorted(moments))
	require.GreaterOrEqual(t, moments[len(moments)-1], 10*time.Millisecond)
}

func TestCrewOfSlowTurns(t *testing.T) {
	t.Parallel()
	c := &crew{turns: []turn{func(_ context.Context, granted func()) error {
		time.Sleep(20 * time.Millisecond)
		granted()
		return nil
	}}}
	moments, err := c.measure(context.Background(), time.Millisecond)
	require.NoError(t, err)
	require.Len(t, moments, leastTurns)
}

func TestCrewError(t *testing.T) {
	t.Parallel()
	c := &crew{turns: []turn{
		func(context.Context, func()) error { return errors.New("no more") },
		func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() },
	}}
	_, err := c.measure(context.Background(), time.Hour)
	require.EqualError(t, err, "no more")
}

func TestCrewCloses(t *testing.T) {
	t.Parallel()
	var order []int
	closer := func(i int, err error) func() error {
		return func() error { order = append(order, i); return err }
	}
	c := &crew{closers: []func() error{closer(1, errors.New("first made")), closer(2, errors.New("last made")), closer(3, nil)}}
	require.EqualError(t, c.close(), "last made")
	require.Equal(t, []int{3, 2, 1}, order)
}

func TestProcess(t *testing.T) {
	t.Parallel()
	p, err := startProcess(exec.Command("cat"))
	require.NoError(t, err)
	for _, text := range []string{"one", "two"} {
		require.NoError(t, p.say(text))
		line, err := p.line(time.Minute)
		require.NoError(t, err)
		require.Equal(t, text, line)
	}
	_, err = p.line(time.Millisecond)
	require.ErrorContains(t, err, "cat did not answer within 1ms")
	require.NoError(t, p.say("unread"))
	require.NoError(t, p.end())
}

func TestProcessThatFails(t *testing.T) {
	t.Parallel()
	p, err := startProcess(exec.Command("sh", "-c", "echo that is why >&2; exit 3"))
	require.NoError(t, err)
	_, err = p.line(time.Minute)
	require.ErrorContains(t, err, "sh ended by itself")
	err = p.end()
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "that is why")
}

func TestTail(t *testing.T) {
	t.Parallel()
	var out tail
	for range tailSize {
		_, err := out.Write([]byte("ab\n"))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(out.String()), tailSize)
	require.True(t, len(out.String()) > tailSize-10)
}

func TestReadMoments(t *testing.T) {
	t.Parallel()
	moments, err := readMoments("[3, 1000, 2]")
	require.NoError(t, err)
	require.Equal(t, []time.Duration{2, 3, time.Microsecond}, moments)
	_, err = readMoments("Traceback")
	require.Error(t, err)
}

func TestReadMetrics(t *testing.T) {
	t.Parallel()
	page := `# TYPE etcd_server_proposals_applied_total gauge
etcd_server_proposals_applied_total 1.25e+06
grpc_server_msg_received_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 7
grpc_server_msg_received_total{grpc_method="RangeStream",grpc_service="etcdserverpb.KV",grpc_type="server_stream"} 100
grpc_server_msg_sent_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 100
grpc_server_msg_received_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} 5
grpc_server_msg_sent_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} 6
`
	require.Equal(t, []float64{1.25e6, 7, 5, 6}, readMetrics(page))
}

func TestHost(t *testing.T) {
	t.Parallel()
	h := &host{}
	var lacking missing
	require.ErrorAs(t, h.try(func() { h.Skipf("no %s", "java") }), &lacking)
	require.EqualError(t, h.try(func() { h.Fatal("it ", "broke") }), "it broke")
	require.Panics(t, func() { _ = h.try(func() { panic("a bug") }) })
	var order []int
	h.Cleanup(func() { order = append(order, 1) })
	h.Cleanup(func() { order = append(order, 2) })
	require.NoError(t, h.close())
	require.Equal(t, []int{2, 1}, order)
}

func TestReadStat(t *testing.T) {
	t.Parallel()
	total, ok := readStat("42 (a (b) c) S 1 42 42 0 -1 4194560 1 2 3 4 150 25 9 9 20 0 1 0 100 1 1")
	require.True(t, ok)
	require.Equal(t, 1750*time.Millisecond, total)
	_, ok = readStat("42 (a) S 1")
	require.False(t, ok)
}

func TestCPU(t *testing.T) {
	t.Parallel()
	c := &crew{turns: []turn{func(_ context.Context, granted func()) error {
		granted()
		return nil
	}}}
	stop := cpuOf(c)
	moments, err := c.measure(context.Background(), 50*time.Millisecond)
	require.NoError(t, err)
	counts := stop(len(moments))
	require.Len(t, counts, 1)
	require.Positive(t, counts[0].Each)
	require.Empty(t, cpuOf(&fakeRunner{})(1))
}

func TestCrewOfOne(t *testing.T) {
	t.Parallel()
	c := &crew{turns: []turn{func(_ context.Context, granted func()) error {
		time.Sleep(2 * time.Millisecond)
		granted()
		time.Sleep(8 * time.Millisecond)
		return nil
	}}}
	_, err := c.measure(context.Background(), time.Millisecond)
	require.NoError(t, err)
	figures := c.figures()
	require.Len(t, figures, 2)
	require.GreaterOrEqual(t, figures[0].Each, 2000.0)
	require.GreaterOrEqual(t, figures[1].Each, 8000.0)
	c.turns = append(c.turns, c.turns[0])
	require.Empty(t, c.figures(), "of several it says nothing")
}
