package zk

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDepartures(t *testing.T) {
	packet := func(op int32, path string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(12+len(path)))
		b = binary.BigEndian.AppendUint32(b, 7) // xid
		b = binary.BigEndian.AppendUint32(b, uint32(op))
		b = binary.BigEndian.AppendUint32(b, uint32(len(path)))
		return append(b, path...)
	}
	isSent := func(sent <-chan struct{}) bool {
		select {
		case <-sent:
			return true
		default:
			return false
		}
	}
	var d departures
	sent, forget := d.expect("/a")
	d.sent(packet(opCreate, "/b"))
	d.sent(packet(opCloseSession, "/a"))
	d.sent(packet(opCreate, "/a")[:17])
	d.sent(nil)
	require.False(t, isSent(sent))
	d.sent(packet(opCreate, "/a"))
	require.True(t, isSent(sent))
	forget()
	d.sent(packet(opCreate, "/a"))

	sent, forget = d.expect("/a")
	forget()
	d.sent(packet(opCreate, "/a"))
	require.False(t, isSent(sent))
	require.Empty(t, d.awaited)
}
