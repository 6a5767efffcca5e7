package redis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlots has the slots of Redis's own documentation, and all keys of a lock in one.
func TestSlots(t *testing.T) {
	require.Equal(t, uint16(0x31c3), crc16("123456789"))
	require.Equal(t, slotOf("{user1000}.following"), slotOf("{user1000}.followers"))
	require.Equal(t, crc16("foo{}{bar}")%slots, slotOf("foo{}{bar}"))
	require.Equal(t, crc16("{bar")%slots, slotOf("foo{{bar}}zap"))
	require.Equal(t, crc16("bar")%slots, slotOf("foo{bar}{zap}"))
	l := newLayout("p:")
	for _, name := range []string{"a", "{a}b", "a}b", "}{", "{}a", "{a", "a{b}c{d}", "雪"} {
		keys := l.keys(name)
		require.Equal(t, "p:"+name, keys[0])
		for _, key := range keys[1:] {
			require.Equal(t, slotOf(keys[0]), slotOf(key), key)
			require.True(t, reserved.MatchString(key))
		}
	}
}
