// Package ptytest makes pseudo-terminals for tests.
package ptytest

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A PTY is a pseudo-terminal: what is written to Master is typed at Terminal, and
// what is written to Terminal is read from Master. Both are closed when the test ends.
type PTY struct {
	Master, Terminal *os.File
}

// Open makes a pseudo-terminal.
func Open(t testing.TB) PTY {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	t.Cleanup(func() { _ = master.Close() })
	check(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	check(t, err)
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return PTY{master, terminal}
}

// Foreground is the process group that has the terminal.
func (p PTY) Foreground(t testing.TB) int {
	t.Helper()
	pgid, err := unix.IoctlGetInt(int(p.Master.Fd()), unix.TIOCGPGRP)
	check(t, err)
	return pgid
}

// Type writes text as if it were typed.
func (p PTY) Type(t testing.TB, text string) {
	t.Helper()
	_, err := p.Master.WriteString(text)
	check(t, err)
}

// Resize tells the terminal its size.
func (p PTY) Resize(t testing.TB, columns, rows int) {
	t.Helper()
	check(t, unix.IoctlSetWinsize(int(p.Master.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: uint16(columns), Row: uint16(rows)}))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("pseudo-terminal: %v", err)
	}
}
