package zk

import (
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// marker stands in front of the sequence number of a node that Curator, the Go
// client or this package made; kazooMarker, of one that kazoo made; valueMarker,
// of the value of a register.
const (
	marker      = "-lock-"
	kazooMarker = "__lock__"
	valueMarker = "-value-"
)

// newPrefix returns a new node name up to its sequence number, in Curator's form.
// It is unique, so that a node can be found again whose number was not learned.
func newPrefix() string { return newName(marker) }

func newName(marker string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("_c_%x-%x-%x-%x-%x%s", b[:4], b[4:6], b[6:8], b[8:10], b[10:], marker)
}

// A contender is a child of a lock's node that stands in line.
type contender struct {
	name  string
	seq   int
	czxid int64 // 0 until it is needed
}

// sequence returns the number at the end of a contender's name. Other children
// of a lock's node are none of our business. A server before 3.6 counts past the
// greatest number into the negative ones, and pads those to ten characters with the sign.
func sequence(name string) (seq int, ok bool) {
	digits, ok := cutLast(name, marker)
	if !ok {
		digits, ok = cutLast(name, kazooMarker)
	}
	if !ok {
		digits, ok = cutLast(name, valueMarker)
	}
	digits, negative := strings.CutPrefix(digits, "-")
	width := len(digits) == 10 || negative && len(digits) == 9
	if !ok || !width || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	seq, err := strconv.Atoi(digits)
	if err != nil {
		return 0, false
	}
	if negative {
		seq = -seq
	}
	return seq, true
}

func cutLast(s, sep string) (after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", false
	}
	return s[i+len(sep):], true
}

// contenders picks those who stand in line from among the children, in the order
// of their numbers.
func contenders(children []string) []contender {
	line := make([]contender, 0, len(children))
	for _, name := range children {
		if seq, ok := sequence(name); ok {
			line = append(line, contender{name: name, seq: seq})
		}
	}
	slices.SortFunc(line, func(a, b contender) int {
		if a.seq != b.seq {
			return a.seq - b.seq
		}
		return strings.Compare(a.name, b.name)
	})
	return line
}

// ambiguous reports whether the numbers fail to tell the order. The server counts
// up to the greatest int32, and then gives that number to every node.
func ambiguous(line []contender) bool {
	if len(line) < 2 {
		return false
	}
	if line[0].seq < 0 || line[len(line)-1].seq >= math.MaxInt32 {
		return true
	}
	for i := range line[1:] {
		if line[i].seq == line[i+1].seq {
			return true
		}
	}
	return false
}

func find(line []contender, name string) int {
	return slices.IndexFunc(line, func(c contender) bool { return c.name == name })
}
