package statejson_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/recipes"
)

func TestTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-03-01T12:00:00+01:00": "2026-03-01T11:00:00Z",
		"9999-12-31T23:59:59Z":      "9999-12-31T23:59:59Z",
		"9999-12-31T23:59:59-01:00": "0001-01-01T00:00:00Z",
		"0000-01-01T00:00:00+01:00": "0001-01-01T00:00:00Z",
	} {
		var at time.Time
		require.NoError(t, json.Unmarshal([]byte(`"`+text+`"`), &at))
		out, err := json.Marshal(statejson.Time(at))
		require.NoError(t, err, text)
		require.Equal(t, `"`+want+`"`, string(out), text)
		now := time.Now()
		for _, state := range []recipes.State{
			recipes.RegisterState{Written: recipes.Written{At: at}},
			recipes.QueueState{Items: []*recipes.ItemInfo{{ID: "a", At: at, Due: at}}},
		} {
			_, err := json.Marshal(statejson.New(state, now))
			require.NoError(t, err, text)
		}
	}
}
