package zk

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPackets(t *testing.T) {
	t.Parallel()
	contents := [][]byte{{}, {1}, bytes.Repeat([]byte{2}, maxPacket), bytes.Repeat([]byte{3}, maxPacket+1), bytes.Repeat([]byte{4}, 5000), {5, 6}}
	var stream []byte
	for _, content := range contents {
		stream = append(stream, packet(content)...)
	}
	for _, size := range []int{1, 3, 64, 100, len(stream)} { // of what a read returns
		var p packets
		var seen [][]byte
		for rest := stream; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			p.feed(rest[:min(size, len(rest))], func(packet []byte) { seen = append(seen, bytes.Clone(packet)) })
		}
		require.Len(t, seen, len(contents))
		for i, content := range contents {
			require.Equal(t, len(content[:min(maxPacket, len(content))]), len(seen[i]))
			require.True(t, bytes.HasPrefix(content, seen[i]))
		}
	}
}

func TestReadGreeting(t *testing.T) {
	t.Parallel()
	answer := binary.BigEndian.AppendUint32(nil, 0)
	answer = binary.BigEndian.AppendUint32(answer, 4000)
	answer = binary.BigEndian.AppendUint64(answer, 0xfedcba9876543210)
	answer = binary.BigEndian.AppendUint32(answer, 4)
	answer = append(answer, "pass\x00"...)
	g, ok := readGreeting(answer)
	require.True(t, ok)
	require.Equal(t, 4*time.Second, g.timeout)
	require.Equal(t, "0xfedcba9876543210", nameOf(g.session))
	require.Equal(t, "pass", string(g.password))
	for i := range 24 { // cut short
		_, ok := readGreeting(answer[:i])
		require.False(t, ok, "%d bytes", i)
	}
}
