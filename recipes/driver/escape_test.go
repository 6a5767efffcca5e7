package driver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEscape(t *testing.T) {
	for name, want := range map[string]string{
		"jobs/daily": "jobs%2Fdaily",
		"a b":        "a%20b",
		"100%":       "100%25",
		".":          "%2E",
		"...":        "%2E..",
		".a":         ".a",
		"ü":          "%C3%BC",
		"x-_.~:@+,=": "x-_.~:@+,=",
	} {
		require.Equal(t, want, Escape(name))
		got, err := Unescape(want)
		require.NoError(t, err)
		require.Equal(t, name, got)
	}
}

func TestUnescapeRefuses(t *testing.T) {
	for _, element := range []string{"", "%", "%2", "%2f", "%41", "%zz", "a/b", "a b", ".", "..", "ü"} {
		_, err := Unescape(element)
		require.Error(t, err, "%q", element)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a/b", "a")
	f.Add("..", ".")
	f.Fuzz(func(t *testing.T, name, other string) {
		if name == "" {
			return
		}
		element := Escape(name)
		require.NotContains(t, element, "/")
		require.NotContains(t, []string{".", ".."}, element)
		got, err := Unescape(element)
		require.NoError(t, err)
		require.Equal(t, name, got)
		require.Equal(t, name == other, element == Escape(other), "names and elements are one to one")
		if strings.Trim(name, ".") != "" {
			require.True(t, strings.HasPrefix(Escape(name+other), element), "a prefix stays one")
		}
	})
}

func TestScope(t *testing.T) {
	q := Queue{Space: SpaceLock, Name: "a/b"}
	require.True(t, Scope{Space: SpaceLock, Name: "a/b"}.Has(q))
	require.True(t, Scope{Space: SpaceLock, Name: "a", Prefix: true}.Has(q))
	require.False(t, Scope{Space: SpaceLock, Name: "a"}.Has(q))
	require.False(t, Scope{Space: "other", Name: "a", Prefix: true}.Has(q))
	all := Scope{Name: "a", Prefix: true}
	require.True(t, all.Has(q))
	require.True(t, all.Has(Queue{Space: "other", Name: "a"}))
	require.False(t, all.Has(Queue{Space: "other", Name: "b"}))
	require.False(t, all.Has(Queue{Raw: "/a"}))
	require.False(t, Scope{Name: "a/b"}.Has(q), "one queue is in one space")
	require.False(t, Scope{Raw: "/a/b"}.Has(q))
	require.True(t, Scope{Raw: "/a/b"}.Has(Queue{Raw: "/a/b"}))
}
