//go:build linux

package history_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockctl/lockctl/chaos/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	log := history.NewLog(&file, "w1.1")
	before := history.Now()
	log.Add(history.Event{What: history.Granted, Token: 1<<63 - 1})
	log.Add(history.Event{T: 5, Proc: "other", What: history.Note})
	require.NoError(t, log.Err())
	file.WriteString(`{"t":1,"what":"no`) // by a process that was killed then

	var events []history.Event
	require.NoError(t, history.Read(&file, func(e history.Event) { events = append(events, e) }))
	require.Len(t, events, 2)
	require.Equal(t, uint64(1<<63-1), events[0].Token)
	require.Equal(t, "w1.1", events[0].Proc)
	require.GreaterOrEqual(t, events[0].T, before)
	require.Equal(t, history.Event{T: 5, Proc: "other", What: history.Note}, events[1])
}

func TestErrors(t *testing.T) {
	t.Parallel()
	require.Error(t, history.Read(strings.NewReader("{}\nno\n"), func(history.Event) {}))
	log := history.NewLog(broken{}, "w1.1")
	log.Add(history.Event{})
	require.ErrorIs(t, log.Err(), errBroken)
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
