package termtext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/termtext"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain näme/日本":       "plain näme/日本",
		"a\x1b[31mred\x1b[0m": `a\x1b[31mred\x1b[0m`,
		"\u202eevil\u2066":    `\u202eevil\u2066`,
		"c1\u009b2J":          `c1\u009b2J`,
		"line\nbreak\ttab\r":  `line\nbreak\ttab\x0d`,
		"bad\xffutf8":         `bad\xffutf8`,
		"zero\u200bwidth":     `zero\u200bwidth`,
		"blank\u3164":         `blank\u3164`,
		"tag\U000e0041":       `tag\U000e0041`,
		"":                    "",
	} {
		require.Equal(t, want, termtext.Escape(in))
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", termtext.Clip("short", 5))
	require.Equal(t, "long…", termtext.Clip("longer", 5))
	require.Equal(t, "日本…", termtext.Clip("日本語です", 6))
	require.Equal(t, 6, termtext.Cells("日本語"))
	require.Equal(t, 1, termtext.Cells("e\u0301"))
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := termtext.Table{
		Header: []string{"NAME", "N", "LAST"},
		Right:  []bool{false, true, false},
		Rows:   [][]string{{"日本", "7", "x"}, {"longer", "12", ""}},
	}
	var b strings.Builder
	require.NoError(t, table.Write(&b))
	require.Equal(t, "NAME     N  LAST\n日本     7  x\nlonger  12\n", b.String())
}
