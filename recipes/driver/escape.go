package driver

import (
	"fmt"
	"strings"
)

// MaxName is the greatest length of a name, in bytes.
const MaxName = 512

const upperhex = "0123456789ABCDEF"

// Escape turns a name into one path element that every engine accepts. Letters,
// digits and "-_.~:@+,=" stay as they are, every other byte becomes %XX. A name
// of dots alone has its first dot escaped. The escaped form of a name begins
// with the escaped form of each of its prefixes that is not all dots.
func Escape(name string) string {
	var b strings.Builder
	b.Grow(len(name))
	dots := strings.Trim(name, ".") == ""
	for i := range len(name) {
		c := name[i]
		if !plain(c) || dots && i == 0 {
			b.Write([]byte{'%', upperhex[c>>4], upperhex[c&15]})
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Unescape is the inverse of Escape. It refuses what Escape does not produce, so
// that no two elements stand for one name.
func Unescape(element string) (string, error) {
	var b strings.Builder
	b.Grow(len(element))
	for i := 0; i < len(element); i++ {
		c := element[i]
		if c != '%' {
			b.WriteByte(c)
			continue
		}
		if i+2 >= len(element) {
			return "", fmt.Errorf("path element %q ends within an escape", element)
		}
		hi, lo := strings.IndexByte(upperhex, element[i+1]), strings.IndexByte(upperhex, element[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("path element %q has a bad escape", element)
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	name := b.String()
	if name == "" || Escape(name) != element {
		return "", fmt.Errorf("path element %q is not an escaped name", element)
	}
	return name, nil
}

func plain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-_.~:@+,=", c) >= 0
}
