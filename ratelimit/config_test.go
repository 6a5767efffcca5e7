package ratelimit

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"100/s": {100, time.Second}, "5/10m": {5, 10 * time.Minute}, "1/h": {1, time.Hour}, "3/m": {3, time.Minute},
		"7/ms": {7, time.Millisecond}, "1000/1h30m": {1000, 90 * time.Minute}, "2/1.5s": {2, 1500 * time.Millisecond},
	} {
		r, err := ParseRate(text)
		require.NoError(t, err, text)
		require.Equal(t, want, r, text)
		again, err := ParseRate(r.String())
		require.NoError(t, err, r.String())
		require.Equal(t, want, again)
	}
	require.Equal(t, "1000/1h30m", Rate{1000, 90 * time.Minute}.String())
	for _, text := range []string{"", "100", "/s", "a/s", "1/", "1/x", "0/s", "-1/s", "1/0s", "1/1us", "1/9000h", "1000000000001/s", "1.5/s", "1/-1s", "1/s/s"} {
		_, err := ParseRate(text)
		require.ErrorIs(t, err, recipes.ErrInvalid, "%q", text)
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := Config{Rate: PerSecond(100)}.complete()
	require.NoError(t, err)
	require.Equal(t, Config{Rate: PerSecond(100), Burst: 100, Policy: Bucket, Mode: Leased, Period: time.Second}, c)
	c, err = Config{Rate: Rate{1, time.Hour}}.complete()
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Burst)
	c, err = Config{Rate: Rate{17, time.Minute}, Policy: Window}.complete()
	require.NoError(t, err)
	require.EqualValues(t, 0, c.Burst)
	require.EqualValues(t, 17, c.Limit())
}

func TestConfigInvalid(t *testing.T) {
	for field, c := range map[string]Config{
		"Config.Rate":   {},
		"Config.Burst":  {Rate: PerSecond(1), Burst: -1},
		"Config.Slack":  {Rate: PerSecond(1), Slack: -1},
		"Config.Policy": {Rate: PerSecond(1), Policy: "other"},
		"Config.Mode":   {Rate: PerSecond(1), Mode: "other"},
		"Config.Period": {Rate: PerSecond(1), Period: time.Minute},
	} {
		err := c.Validate()
		var invalid *recipes.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
	}
	require.Error(t, Config{Rate: PerSecond(1), Burst: 5, Policy: Window}.Validate())
}

// TestMinted compares with numbers that have no bounds.
func TestMinted(t *testing.T) {
	for range 100_000 {
		r := Rate{1 + rand.Int64N(1<<rand.IntN(40)), leastPer + time.Duration(rand.Int64N(1<<rand.IntN(54)))}
		d, part := rand.Int64N(1<<rand.IntN(62)), rand.Int64N(int64(r.Per))
		n, rest := r.minted(d, part)
		total := new(big.Int).Mul(big.NewInt(r.Tokens), big.NewInt(d))
		total.Add(total, big.NewInt(part))
		whole, left := new(big.Int).DivMod(total, big.NewInt(int64(r.Per)), new(big.Int))
		if !whole.IsInt64() {
			require.Equal(t, int64(math.MaxInt64), n)
			continue
		}
		require.Equal(t, whole.Int64(), n, "%v for %d", r, d)
		require.Equal(t, left.Int64(), rest)
	}
}

// TestMintedInParts mints in many steps what one step mints.
func TestMintedInParts(t *testing.T) {
	for range 1000 {
		r := Rate{1 + rand.Int64N(1000), leastPer + time.Duration(rand.Int64N(1e9))}
		var passed, tokens, part int64
		for range 100 {
			d := rand.Int64N(1e8)
			var n int64
			n, part = r.minted(d, part)
			passed, tokens = passed+d, tokens+n
		}
		n, rest := r.minted(passed, 0)
		require.Equal(t, n, tokens)
		require.Equal(t, rest, part)
	}
}

func TestLasts(t *testing.T) {
	for range 100_000 {
		r := Rate{1 + rand.Int64N(1e6), leastPer + time.Duration(rand.Int64N(1e12))}
		n := 1 + rand.Int64N(1e6)
		d := r.lasts(n)
		enough, _ := r.minted(int64(d), 0)
		require.GreaterOrEqual(t, enough, n)
		less, _ := r.minted(int64(d)-1, 0)
		require.Less(t, less, n)
	}
}
