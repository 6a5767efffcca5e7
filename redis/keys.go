package redis

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// channelPrefix and the key of a lock name the channel in which its releases are told.
const channelPrefix = "lockctl:released:"

// slots is how many parts the keys of a cluster are divided into.
const slots = 16384

// reserved are keys that accompany those of locks.
var reserved = regexp.MustCompile(`^\{[0-9]+\}lockctl:`)

// A layout says which keys a lock has. Its key is the prefix and its name, as it is, so
// that others can meet there. What accompanies it begins with a hash tag, a number in
// braces, that puts it into the same slot of a cluster: the note of who holds it, and
// the counter of tokens, which all locks of a slot share, so that locks that are not
// used any more leave nothing behind.
type layout struct {
	prefix string
	tags   func() []string // by slot
}

func newLayout(prefix string) layout {
	return layout{prefix, sync.OnceValue(slotTags)}
}

// slotTags finds the smallest number in each slot.
func slotTags() []string {
	tags := make([]string, slots)
	for n, missing := 0, slots; missing > 0; n++ {
		text := strconv.Itoa(n)
		if s := crc16(text) % slots; tags[s] == "" {
			tags[s] = text
			missing--
		}
	}
	return tags
}

// lock is the key of a lock.
func (l layout) lock(name string) string { return l.prefix + name }

// keys are those of a lock, its note and its counter.
func (l layout) keys(name string) []string {
	key := l.lock(name)
	tag := "{" + l.tags()[slotOf(key)] + "}lockctl:"
	return []string{key, tag + "note:" + key, tag + "token"}
}

// channel is where releases of a lock are told.
func (l layout) channel(name string) string { return channelPrefix + l.lock(name) }

// pattern matches the keys of all locks whose names begin with the text.
func (l layout) pattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(l.lock(name)) + "*"
}

// slotOf is the slot of a cluster that a key is in: that of the text between the first
// brace and the next one that closes, if there is such, or else of the key.
func slotOf(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return crc16(key) % slots
}

// crc16 is the checksum with the polynomial 0x1021, by which Redis assigns slots.
func crc16(text string) uint16 {
	var sum uint16
	for i := range len(text) {
		sum ^= uint16(text[i]) << 8
		for range 8 {
			high := sum&0x8000 != 0
			sum <<= 1
			if high {
				sum ^= 0x1021
			}
		}
	}
	return sum
}
