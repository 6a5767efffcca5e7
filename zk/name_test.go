package zk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSequence(t *testing.T) {
	t.Parallel()
	const uuid = "_c_0f9a2c1e-7b7e-4a8e-9f44-d2b1c0e5a6f7"
	for name, want := range map[string]int{
		uuid + "-lock-0000000000":                             0,
		uuid + "-lock-0000000042":                             42,
		uuid + "-lock-2147483647":                             2147483647,
		uuid + "-lock--2147483648":                            -2147483648, // a server before 3.6 has counted too far
		uuid + "-lock--1000000000":                            -1000000000,
		uuid + "-lock--999999999":                             -999999999,
		uuid + "-lock--000000001":                             -1,
		"_c_" + strings.Repeat("ab", 16) + "-lock-0000000007": 7,
		"lock-lock-0000000007":                                7,
		strings.Repeat("0f", 16) + "__lock__0000000009":       9,
	} {
		seq, ok := sequence(name)
		require.True(t, ok, name)
		require.Equal(t, want, seq, name)
	}
	for _, name := range []string{
		"", "not-an-entry", "-lock-", uuid + "-lock-", uuid + "-lock-42", uuid + "-lock-00000000042",
		uuid + "-lock-000000000x", uuid + "-lock---00000001", uuid + "-lock-+000000001", "0000000001",
		uuid + "-lock-000000001", uuid + "-lock--00000001", uuid + "-lock--00000000001",
		uuid + "-lease-0000000001", strings.Repeat("0f", 16) + "__rlock__0000000009", uuid + "-lock-0000000001x",
	} {
		_, ok := sequence(name)
		require.False(t, ok, name)
	}
}

func TestContenders(t *testing.T) {
	t.Parallel()
	line := contenders([]string{"c-lock-0000000010", "foreign", "a-lock-0000000011", "k__lock__0000000009"})
	require.Equal(t, []string{"k__lock__0000000009", "c-lock-0000000010", "a-lock-0000000011"}, names(line))
	require.False(t, ambiguous(line))
	require.Equal(t, 1, find(line, "c-lock-0000000010"))
	require.Equal(t, -1, find(line, "foreign"))
}

func names(line []contender) []string {
	var all []string
	for _, c := range line {
		all = append(all, c.name)
	}
	return all
}

func TestAmbiguous(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		numbers []string
		want    bool
	}{
		{nil, false},
		{[]string{"2147483647"}, false}, // alone, there is no order to tell
		{[]string{"2147483645", "2147483646"}, false},
		{[]string{"2147483646", "2147483647"}, true}, // the last may be the first of many
		{[]string{"0000000001", "0000000001"}, true},
		{[]string{"-2147483648", "2147483646"}, true},
	} {
		var children []string
		for i, number := range tc.numbers {
			children = append(children, fmt.Sprintf("%c-lock-%s", 'a'+i, number))
		}
		require.Equal(t, tc.want, ambiguous(contenders(children)), "%v", tc.numbers)
	}
}

func TestNewPrefix(t *testing.T) {
	t.Parallel()
	a, b := newPrefix(), newPrefix()
	require.NotEqual(t, a, b)
	require.Regexp(t, `^_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-lock-$`, a)
}
