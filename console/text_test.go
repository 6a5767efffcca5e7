package console

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, "", clip("", 3))
	require.Equal(t, "äöü", clip("äöü", 3))
	require.Equal(t, "äö…", clip("äöüx", 3))
	require.Len(t, []rune(clip(strings.Repeat("é", 500), 80)), 80)
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:             "0.00 ms",
		4217 * time.Microsecond:  "4.21 ms",
		999999 * time.Nanosecond: "0.99 ms",
		12345 * time.Microsecond: "12.3 ms",
		850 * time.Millisecond:   "850 ms",
		9999 * time.Millisecond:  "9.99 s",
		59999 * time.Millisecond: "59.9 s",
		184 * time.Second:        "3m 04s",
		125 * time.Minute:        "2h 05m",
		76 * time.Hour:           "3d 04h",
	} {
		require.Equal(t, want, span(d), d)
	}
}

func TestStamp(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1 Mar 12:00:00", stamp(noon))
	require.Equal(t, "unknown", stamp(time.Time{}))
}

func TestObjects(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0 objects", objects(0))
	require.Equal(t, "1 object", objects(1))
}
