// Package termtext prepares text that other processes wrote for a terminal, and
// lays out tables there.
package termtext

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Escape writes out every character that would not be seen as itself: control
// characters and with them ANSI sequences, marks that change the direction of
// writing, invisible characters, and bytes that are not UTF-8. The result is one
// line.
func Escape(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case !hidden(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// hidden reports whether a character can't be seen as itself. The ones named
// here count as letters or symbols and are blank all the same.
func hidden(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800':
		return true
	}
	return !unicode.IsPrint(r)
}

// Cells is the number of columns that an escaped text takes on a terminal.
func Cells(text string) int {
	n := 0
	for _, r := range text {
		n += cells(r)
	}
	return n
}

func cells(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Clip cuts an escaped text to at most limit columns; a cut is shown as "…".
func Clip(text string, limit int) string {
	if Cells(text) <= limit {
		return text
	}
	n := 0
	for i, r := range text {
		if n += cells(r); n > limit-1 {
			return text[:i] + "…"
		}
	}
	return text
}

// A Table is rows of escaped texts under a header.
type Table struct {
	Header []string
	Right  []bool // which columns are aligned to the right
	Rows   [][]string
}

// Lines lays the table out: columns two spaces apart, no space at the end.
func (t Table) Lines() []string {
	widths := make([]int, len(t.Header))
	all := append([][]string{t.Header}, t.Rows...)
	for _, row := range all {
		for i, text := range row {
			widths[i] = max(widths[i], Cells(text))
		}
	}
	lines := make([]string, 0, len(all))
	for _, row := range all {
		var b strings.Builder
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-Cells(text))
			if t.Right[i] {
				b.WriteString(pad + text)
			} else {
				b.WriteString(text + pad)
			}
			b.WriteString("  ")
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// Write writes the lines of the table.
func (t Table) Write(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(t.Lines(), "\n")+"\n")
	return err
}
