//go:build linux

package check_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/chaos/internal/check"
	"github.com/lockctl/lockctl/chaos/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A scene is a history, a line for each event:
//
//	milliseconds process op what kind name [token=… n=… id=… value=… err=… since=…]
func scene(t *testing.T, text string) []history.Event {
	t.Helper()
	var events []history.Event
	for line := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.Fields(line)
		e := history.Event{T: ms(t, f[0]), Proc: f[1], Op: int64(number(t, f[2])), What: history.What(f[3])}
		for _, field := range f[4:] {
			name, value, ok := strings.Cut(field, "=")
			switch {
			case !ok && e.Kind == "":
				e.Kind = name
			case !ok:
				e.Name = name
			case name == "token":
				e.Token = uint64(number(t, value))
			case name == "n":
				e.N = number(t, value)
			case name == "value":
				e.Value = int64(number(t, value))
			case name == "id":
				e.ID = strings.ReplaceAll(value, "_", " ")
			case name == "ids":
				e.IDs = strings.Split(value, ",")
			case name == "err":
				e.Err = strings.ReplaceAll(value, "_", " ")
			case name == "since":
				e.Since = ms(t, value)
			}
		}
		events = append(events, e)
	}
	return events
}

func ms(t *testing.T, text string) time.Duration {
	return time.Duration(number(t, text)) * time.Millisecond
}

func number(t *testing.T, text string) int {
	t.Helper()
	n := 0
	for _, digit := range text {
		require.True(t, digit >= '0' && digit <= '9', text)
		n = n*10 + int(digit-'0')
	}
	return n
}

// found are the checks that found something, each once, in their order.
func found(t *testing.T, text string) []string {
	t.Helper()
	result := check.Run(scene(t, text), check.Options{Limit: 3, Crew: 2, TTL: 3 * time.Second, Rate: 100, Burst: 3})
	names := []string{}
	for _, v := range result.Violations {
		if len(names) == 0 || names[len(names)-1] != v.Check {
			names = append(names, v.Check)
		}
	}
	return names
}

// A trial is a history and the checks that find something in it.
type trial struct {
	want  []string
	scene string
}

func tryAll(t *testing.T, trials map[string]trial) {
	t.Helper()
	for name, c := range trials {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := c.want
			if want == nil {
				want = []string{}
			}
			require.Equal(t, want, found(t, c.scene))
		})
	}
}

// TestHistories has a scene a check, and is as long as there are scenes.
func TestHistories(t *testing.T) {
	t.Parallel()
	tryAll(t, map[string]trial{
		"one after the other": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 b.1 1 called mutex m
			9 a.1 1 release mutex m
			10 a.1 1 released mutex m
			10 b.1 1 granted mutex m token=6
			12 b.1 1 release mutex m
			13 b.1 1 released mutex m`},
		"two at a time": {[]string{"exclusion", "model"}, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 b.1 1 called mutex m
			5 b.1 1 granted mutex m token=6
			9 a.1 1 release mutex m
			10 a.1 1 released mutex m`},
		"the holder was paused": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 b.1 1 called mutex m
			3500 b.1 1 granted mutex m token=6
			4000 a.1 0 paused since=10
			4001 a.1 1 ended mutex m
			4002 a.1 1 release mutex m
			4003 a.1 1 released mutex m err=lost`},
		"the holder was paused, but went on in time": {[]string{"exclusion"}, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 b.1 1 called mutex m
			3000 a.1 0 paused since=10
			3500 b.1 1 granted mutex m token=6
			4001 a.1 1 ended mutex m`},
		"the holder was killed": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 a.1 0 killed
			3 b.1 1 called mutex m
			3500 b.1 1 granted mutex m token=6`},
		"the holder lost it just before": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 b.1 1 called mutex m
			3400 a.1 1 ended mutex m
			3500 b.1 1 granted mutex m token=6`},
		"a token that is not larger": {[]string{"tokens", "model"}, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 a.1 1 release mutex m
			4 a.1 1 released mutex m
			5 b.1 1 called mutex m
			6 b.1 1 granted mutex m token=5`},
		"readers together": {nil, `
			1 a.1 1 called reader m
			2 b.1 1 called reader m
			3 a.1 1 granted reader m token=6
			4 b.1 1 granted reader m token=5`},
		"a reader with a writer": {[]string{"exclusion", "model"}, `
			1 a.1 1 called reader m
			3 a.1 1 granted reader m token=5
			4 b.1 1 called writer m
			5 b.1 1 granted writer m token=6
			9 b.1 1 release writer m
			10 b.1 1 released writer m
			11 a.1 1 release reader m
			12 a.1 1 released reader m`},
		"a writer that becomes a reader": {nil, `
			1 a.1 1 called writer m
			2 a.1 1 granted writer m token=5
			3 b.1 1 called reader m
			5 b.1 1 granted reader m token=6
			6 a.1 1 changed writer m since=4
			9 a.1 1 release writer m
			10 a.1 1 released writer m`},
		"a reader before the writer has changed": {[]string{"exclusion", "model"}, `
			1 a.1 1 called writer m
			2 a.1 1 granted writer m token=5
			3 b.1 1 called reader m
			5 b.1 1 granted reader m token=6
			6 b.1 1 release reader m
			7 b.1 1 released reader m
			9 a.1 1 changed writer m since=8
			10 a.1 1 release writer m
			11 a.1 1 released writer m`},
		"permits up to the limit": {nil, `
			1 a.1 1 called semaphore s n=2
			2 a.1 1 granted semaphore s token=5 n=2
			3 b.1 1 called semaphore s n=1
			4 b.1 1 granted semaphore s token=6 n=1`},
		"permits above the limit": {[]string{"exclusion", "model"}, `
			1 a.1 1 called semaphore s n=2
			2 a.1 1 granted semaphore s token=5 n=2
			3 b.1 1 called semaphore s n=2
			4 b.1 1 granted semaphore s token=6 n=2
			5 a.1 1 release semaphore s
			6 a.1 1 released semaphore s
			7 b.1 1 release semaphore s
			8 b.1 1 released semaphore s`},
		"a holder that the fence refuses": {[]string{"fence"}, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 a.1 1 writing register mutex/m token=5 value=1
			4 a.1 1 wrote register mutex/m token=5 value=1 err=stale_token
			5 a.1 1 release mutex m
			6 a.1 1 released mutex m`},
		"a register that forgets": {[]string{"model"}, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 a.1 1 writing register mutex/m token=5 value=1
			4 a.1 1 wrote register mutex/m token=5 value=1
			5 a.1 2 opening register mutex/m token=6
			6 a.1 2 opened register mutex/m token=6 value=0`},
		"a register that takes a stale token": {[]string{"model"}, `
			1 a.1 1 called mutex m
			3 a.1 2 opening register mutex/m token=6
			4 a.1 2 opened register mutex/m token=6 value=0
			5 a.1 1 writing register mutex/m token=5 value=1
			6 a.1 1 wrote register mutex/m token=5 value=1`},
		"a write that may have been made, or not": {nil, `
			1 a.1 1 called mutex m
			3 a.1 1 writing register mutex/m token=5 value=1
			4 b.1 2 opening register mutex/m token=6
			5 b.1 2 opened register mutex/m token=6 value=0`},
		"a write that may have been made, and was": {nil, `
			1 a.1 1 called mutex m
			3 a.1 1 writing register mutex/m token=5 value=1
			4 b.1 2 opening register mutex/m token=6
			5 b.1 2 opened register mutex/m token=6 value=1`},
		"an earlier term after a later one": {[]string{"terms"}, `
			1 a.1 1 called election e
			2 a.1 0 saw election e token=6
			3 a.1 0 saw election e token=5`},
		"an item that nobody got": {[]string{"items"}, `
			1 a.1 1 called queue q
			2 a.1 2 putting queue q id=x
			3 a.1 2 put queue q id=x`},
		"an item that may not have been put": {nil, `
			1 a.1 1 called queue q
			2 a.1 2 putting queue q id=x
			3 a.1 2 put queue q id=x err=unavailable`},
		"an item that was done, and is given out again": {[]string{"items"}, `
			1 a.1 2 putting queue q id=x
			2 a.1 2 put queue q id=x
			3 a.1 3 called queue q
			4 a.1 3 granted queue q id=x token=5 n=1
			5 a.1 3 release queue q id=x value=1
			6 a.1 3 released queue q id=x value=1
			7 b.1 1 called queue q
			8 b.1 1 granted queue q id=x token=6 n=2`},
		"an item with two workers": {[]string{"items"}, `
			1 a.1 2 putting queue q id=x
			2 a.1 2 put queue q id=x
			3 a.1 3 called queue q
			4 a.1 3 granted queue q id=x token=5 n=1
			7 b.1 1 called queue q
			8 b.1 1 granted queue q id=x token=6 n=2
			9 a.1 3 release queue q id=x value=2
			10 a.1 3 released queue q id=x value=2
			11 b.1 1 release queue q id=x value=1
			12 b.1 1 released queue q id=x value=1`},
		"a session that was ended by hand": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 b.1 1 called mutex m
			4 a.1 0 expire
			5 b.1 1 granted mutex m token=6
			9 a.1 1 ended mutex m`},
		"a session that was ended by hand, and nobody told": {[]string{"expiry"}, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			4 a.1 0 expire
			5 a.1 0 expired
			3100 a.1 1 ended mutex m`},
		"a session that could not be ended by hand": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			4 a.1 0 expire
			3100 a.1 1 release mutex m
			3101 a.1 1 released mutex m`},
		"a lock that is kept after its session was ended by hand": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=10
			4 a.1 0 expire
			5 b.1 1 called mutex m
			6 b.1 1 granted mutex m token=20
			7 a.1 1 release mutex m
			8 a.1 1 released mutex m
			9 a.1 2 called mutex m
			10 a.1 2 granted mutex m token=11
			11 a.1 2 release mutex m
			12 a.1 2 released mutex m
			13 b.1 1 release mutex m
			14 b.1 1 released mutex m`},
		"a lock that was granted when its session was ended by hand": {nil, `
			1 a.1 1 called mutex m
			2 a.1 0 expire
			4 a.1 0 expired
			5 b.1 1 called mutex m
			6 b.1 1 granted mutex m token=8192
			7 a.1 1 granted mutex m token=4096
			8 a.1 1 ended mutex m
			13 b.1 1 release mutex m
			14 b.1 1 released mutex m`},
		"a lock that is granted after its session was ended by hand": {[]string{"exclusion", "tokens", "model"}, `
			1 a.1 1 called mutex m
			2 a.1 0 expire
			4 a.1 0 expired
			5 b.1 1 called mutex m
			6 b.1 1 granted mutex m token=8192
			300 a.1 1 granted mutex m token=4096
			301 a.1 1 ended mutex m
			313 b.1 1 release mutex m
			314 b.1 1 released mutex m`},
		"the same while something else is wrong": {nil, `
			1 a.1 1 called mutex m
			2 n 0 begin fault slow-clients
			2 a.1 0 expire
			4 a.1 0 expired
			5 b.1 1 called mutex m
			6 b.1 1 granted mutex m token=8192
			300 a.1 1 granted mutex m token=4096
			301 a.1 1 ended mutex m
			302 n 0 end fault slow-clients
			313 b.1 1 release mutex m
			314 b.1 1 released mutex m`},
		"a lock that is kept for too long": {[]string{"exclusion", "tokens", "model"}, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=10
			4 a.1 0 expire
			5 a.1 0 session
			6 b.1 1 called mutex m
			7 b.1 1 granted mutex m token=20
			9 a.1 2 called mutex m
			10 a.1 2 granted mutex m token=11
			11 a.1 2 release mutex m
			12 a.1 2 released mutex m
			13 b.1 1 release mutex m
			14 b.1 1 released mutex m`},
		"an item that was given to who could not know that its session was over": {nil, `
			1 a.1 1 putting queue q id=i
			2 a.1 1 put queue q id=i
			3 a.1 0 expire
			4 b.1 1 called queue q
			5 a.1 0 expired
			6 a.1 2 called queue q
			7 a.1 2 granted queue q token=1 n=1 id=i
			8 a.1 2 release queue q token=1 n=1 id=i value=1
			9 a.1 2 released queue q token=1 n=1 id=i value=1
			10 a.1 0 session`},
		"a shard with two owners": {[]string{"exclusion", "model"}, `
			1 a.1 1 called shard s/1
			2 a.1 1 granted shard s/1 token=4096
			3 b.1 1 called shard s/1
			4 b.1 1 granted shard s/1 token=8192
			5 a.1 1 release shard s/1
			6 b.1 1 release shard s/1`},
		"two shards": {nil, `
			1 a.1 1 called shard s/1
			2 a.1 1 granted shard s/1 token=4096
			3 b.1 1 called shard s/2
			4 b.1 1 granted shard s/2 token=8192
			5 a.1 1 release shard s/1
			6 b.1 1 release shard s/2
			7 b.1 2 called shard s/1
			8 b.1 2 granted shard s/1 token=12288`},
		"a counter": {nil, `
			1 a.1 1 called counter c n=3
			2 b.1 1 called counter c n=4
			3 b.1 1 granted counter c n=4 value=4
			4 a.1 1 granted counter c n=3 value=7
			5 a.1 2 called counter c n=1
			6 a.1 2 granted counter c n=1 value=8`},
		"a counter to which nobody knows whether something was added": {nil, `
			1 a.1 1 called counter c n=3
			2 a.1 1 failed counter c n=3 err=unavailable
			3 b.1 1 called counter c n=4
			4 b.1 1 granted counter c n=4 value=4
			5 b.1 2 called counter c n=1
			6 b.1 2 granted counter c n=1 value=8`},
		"a counter to which something was added twice": {[]string{"counter"}, `
			1 a.1 1 called counter c n=3
			2 a.1 1 failed counter c n=3 err=unavailable
			3 b.1 1 called counter c n=4
			4 b.1 1 granted counter c n=4 value=7
			5 b.1 2 called counter c n=1
			6 b.1 2 granted counter c n=1 value=11`},
		"a counter that forgets": {[]string{"counter"}, `
			1 a.1 1 called counter c n=3
			2 b.1 1 called counter c n=4
			3 b.1 1 granted counter c n=4 value=4
			4 a.1 1 granted counter c n=3 value=3`},
		"a counter that is behind": {[]string{"counter"}, `
			1 a.1 1 called counter c n=3
			2 a.1 1 failed counter c n=3 err=unavailable
			3 b.1 1 called counter c n=4
			4 b.1 1 granted counter c n=4 value=7
			5 b.1 2 called counter c n=1
			6 b.1 2 granted counter c n=1 value=1`},
		"once": {nil, `
			1 a.1 1 called once o
			2 b.1 1 called once o
			3 b.1 1 granted once o id=k_b.1/1
			4 a.1 1 granted once o id=k_b.1/1
			5 a.1 2 called once o
			6 a.1 2 granted once o id=l_a.1/2`},
		"once, with two results": {[]string{"once"}, `
			1 a.1 1 called once o
			2 b.1 1 called once o
			3 b.1 1 granted once o id=k_b.1/1
			4 a.1 1 granted once o id=k_a.1/1`},
		"once, with the result of nobody": {[]string{"once"}, `
			1 a.1 1 called once o
			3 a.1 1 granted once o id=k_b.1/1
			4 b.1 1 called once o`},
		"tokens as they come": {nil, `
			1 a.1 1 called limiter l
			2 a.1 1 granted limiter l n=3
			31 b.1 1 called limiter l
			32 b.1 1 granted limiter l n=3`},
		"more tokens than come": {[]string{"limits"}, `
			1 a.1 1 called limiter l
			2 a.1 1 granted limiter l n=3
			20 b.1 1 called limiter l
			21 b.1 1 granted limiter l n=3`},
		"tokens that may have been spent before": {nil, `
			1 b.1 1 called limiter l
			8 a.1 1 called limiter l
			9 a.1 1 granted limiter l n=3
			31 b.1 1 granted limiter l n=3`},
		"a session that a former leader ended when it woke": {nil, `
			1 a.1 1 called mutex m
			2 a.1 1 granted mutex m token=5
			3 b.1 1 called mutex m
			4 x 0 woken
			5 b.1 1 granted mutex m token=6
			9 a.1 1 ended mutex m err=the_service_ended_the_session`},
		"something that the harness saw": {[]string{"goroutines"}, `
			1 a.1 1 called mutex m
			2 a.1 1 failed mutex m
			3 a.1 0 wrong x goroutines err=one`},
		"a session that is ended by hand while the lock is granted": {nil, `
			1 a.1 1 called mutex m
			2 a.1 0 expire x
			3 b.1 1 called mutex m
			5 a.1 1 granted mutex m token=5
			7 b.1 1 granted mutex m token=6
			8 a.1 1 ended mutex m err=the_service_ended_the_session
			9 b.1 1 release mutex m
			10 b.1 1 released mutex m`},
		"an entry that nobody has removed": {[]string{"broken"}, `
			1 a.1 1 called mutex m
			2 a.1 1 failed mutex m err=the_entry_was_removed_by_someone_else`},
	})
}

func TestActivity(t *testing.T) {
	t.Parallel()
	events := scene(t, `
		1 a.1 1 called mutex m
		2 a.1 1 granted mutex m token=5
		3 a.1 1 release mutex m
		4 a.1 1 released mutex m
		5 a.1 0 begin kind fault
		6 a.1 2 called mutex m
		7 a.1 2 granted mutex m token=6`)
	require.Empty(t, check.Run(events, check.Options{Activity: 1}).Violations)
	require.Equal(t, "activity", check.Run(events, check.Options{Activity: 2}).Violations[0].Check)
	require.Equal(t, "activity", check.Run(nil, check.Options{}).Violations[0].Check)
}

// TestGivenUp has a search that can't end in time.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2000 {
		at := 10 * i
		for n, what := range []string{"called", "granted", "release", "released"} {
			text.WriteString(strings.Join([]string{itoa(at + n), "a.1", itoa(i + 1), what, "mutex", "m", "token=" + itoa(i+5)}, " ") + "\n")
		}
	}
	events := scene(t, text.String())
	require.Empty(t, check.Run(events, check.Options{}).Violations)
	given := check.Run(events, check.Options{Patience: time.Nanosecond}).Violations
	require.NotEmpty(t, given)
	require.Contains(t, given[0].Text, "gave up")
}

func itoa(n int) string { return strconv.Itoa(n) }
