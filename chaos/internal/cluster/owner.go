//go:build linux

package cluster

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owner is the process, of those given, that has the other end of a connection that
// was accepted on this machine. It reports false if none of them has it.
func owner(conn net.Conn, pids []int) (index int, ok bool) {
	remote, isTCP := conn.RemoteAddr().(*net.TCPAddr)
	local, isTCP2 := conn.LocalAddr().(*net.TCPAddr)
	if !isTCP || !isTCP2 {
		return 0, false
	}
	inode := inodeOf(procAddr(remote), procAddr(local))
	if inode == "" {
		return 0, false
	}
	want := "socket:[" + inode + "]"
	for i, pid := range pids {
		if pid == 0 {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it has just died
		}
		for _, e := range entries {
			if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && target == want {
				return i, true
			}
		}
	}
	return 0, false
}

// procAddr is an IPv4 address as the kernel's table has it.
func procAddr(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return ""
	}
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], a.Port)
}

// inodeOf finds the socket with these two ends, its own first.
func inodeOf(own, other string) string {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// sl local remote state queues timer retransmits uid timeout inode …
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[1] == own && fields[2] == other {
			return fields[9]
		}
	}
	return ""
}
