package fencing_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs holds the code that docs/fencing.md shows to that of the examples.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/fencing.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	var code strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		code.Write(data)
	}
	blocks := 0
	for _, language := range []string{"go", "sql"} {
		for _, rest := range strings.Split(string(page), "```"+language+"\n")[1:] {
			block, _, _ := strings.Cut(rest, "```\n")
			require.Contains(t, code.String(), strings.TrimSpace(block))
			blocks++
		}
	}
	require.Greater(t, blocks, 10)
}
