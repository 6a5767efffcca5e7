package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

func limiterObject(admitted, denied int) recipes.Object {
	return recipes.Object{Kind: recipes.KindLimiter, Name: "api", State: recipes.LimiterState{
		Written: recipes.Written{Version: 1}, Record: json.RawMessage(limiterRecord(admitted, denied)),
	}}
}

// TestFlow spreads what a process tells of over the time since it was told before.
func TestFlow(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var f flow
	f = f.add(limiterObject(100, 10), begin)
	require.False(t, f.busy(begin))
	f = f.add(limiterObject(300, 10), begin.Add(2*time.Second))
	f = f.add(limiterObject(300, 40), begin.Add(3*time.Second))
	now := begin.Add(10 * time.Second)
	require.True(t, f.busy(now))
	admitted, denied := f.perSecond(now)
	var sum, refused float64
	for i := range admitted {
		sum, refused = sum+admitted[i], refused+denied[i]
	}
	require.InDelta(t, 200, sum, 1e-6)
	require.InDelta(t, 30, refused, 1e-6)
	require.InDelta(t, 100, admitted[flowSeconds-10], 1e-6)
	require.InDelta(t, 100, admitted[flowSeconds-9], 1e-6)
	require.InDelta(t, 30, denied[flowSeconds-8], 1e-6)

	later := f.add(limiterObject(310, 40), begin.Add(100*time.Second))
	require.Len(t, later.samples, 2, "what is older than the chart is dropped but for where it begins")
	require.False(t, later.busy(begin.Add(200*time.Second)))
	require.Len(t, f.samples, 3, "a flow that was handed out stays as it is")
	require.Len(t, f.add(limiterObject(1, 0), now).samples, 1, "the limiter was made anew")
	require.Empty(t, f.add(recipes.Object{Kind: recipes.KindLimiter, State: recipes.LimiterState{Record: json.RawMessage("7")}}, now).samples)
	for range 2 * maxSamples {
		f = f.add(limiterObject(300, 40), now)
	}
	require.LessOrEqual(t, len(f.samples), maxSamples+1)
}

func TestFigure(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.26: "0.3", 42.4: "42", 9999: "9999", 12345: "12.3 k", 1.5e7: "15.0 M"} {
		require.Equal(t, want, figure(n))
	}
}

// TestLimiterPage follows a limiter as processes tell of what they do.
func TestLimiterPage(t *testing.T) {
	t.Parallel()
	url, s := varied(t)
	_, page := get(t, url+"/object?backend=etcd&kind=limiter&name=api")
	text := textOf(page)
	for _, want := range []string{"Allows 100/s burst 50", "Mode leased", "There 20", "Out 30", "app@api-1:7 30 80 takes part", "500 were admitted", "20 denied"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "degraded")
	viewer := follow(t, url, "view=object&backend=etcd&kind=limiter&name=api")
	viewer.next()
	old := storedOf(driver.SpaceRate, "api", 40, "", app("api-1"))
	s.say(t, storedOf(driver.SpaceRate, "api", 50, strings.Replace(limiterRecord(900, 60), `"demand":80`, `"demand":80,"degraded":true`, 1), app("api-1")),
		driver.Event{Type: driver.Delete, Entry: old.Entry})
	viewer.until(func() bool {
		part := viewer.parts["object"]
		return strings.Contains(textOf(part), "900 were admitted") && strings.Contains(part, `class="admitted"`) &&
			strings.Contains(part, `class="denied"`) && strings.Contains(textOf(part), "degraded")
	})
	s.say(t, storedOf(driver.SpaceRate, "api", 60, "7", app("api-1")), driver.Event{Type: driver.Delete, Entry: storedOf(driver.SpaceRate, "api", 50, "", app("")).Entry})
	viewer.until(func() bool {
		return strings.Contains(textOf(viewer.parts["object"]), "can't be read") || strings.Contains(viewer.parts["object"], "can&#39;t be read")
	})
}
