package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// follower is a page, as far as the stream is concerned.
type follower struct {
	t        *testing.T
	conn     *websocket.Conn
	hello    frame
	revision uint64
	rows     map[string]string // by key, what the page shows
	parts    map[string]string
	frames   int // messages with content
}

type frame struct {
	Type     string        `json:"type"`
	Epoch    string        `json:"epoch"`
	Revision uint64        `json:"revision"`
	Now      int64         `json:"now"`
	Assets   string        `json:"assets"`
	Rows     []rowMessage  `json:"rows"`
	Parts    []partMessage `json:"parts"`
	More     bool          `json:"more"`
}

func follow(t *testing.T, url, query string) *follower {
	t.Helper()
	conn, response, err := (&websocket.Dialer{NetDial: narrow}).Dial(strings.Replace(url, "http", "ws", 1)+"/socket?"+query, nil)
	require.NoError(t, err)
	response.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	f := &follower{t: t, conn: conn, rows: map[string]string{}, parts: map[string]string{}}
	f.hello = f.read()
	require.Equal(t, "hello", f.hello.Type)
	return f
}

// narrow makes a connection on which little is under way.
func narrow(network, addr string) (net.Conn, error) {
	conn, err := net.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	return conn, conn.(*net.TCPConn).SetReadBuffer(16 << 10)
}

func (f *follower) read() frame {
	f.t.Helper()
	require.NoError(f.t, f.conn.SetReadDeadline(time.Now().Add(patience)))
	_, data, err := f.conn.ReadMessage()
	require.NoError(f.t, err)
	var m frame
	require.NoError(f.t, json.Unmarshal(data, &m))
	return m
}

// next takes in one message that has content.
func (f *follower) next() frame {
	f.t.Helper()
	for {
		m := f.read()
		if m.Type == "beat" {
			continue
		}
		f.frames++
		if m.Type == "snapshot" && !m.More {
			clear(f.rows)
		}
		for _, row := range m.Rows {
			f.rows[row.Key] = row.HTML
			if row.HTML == "" {
				delete(f.rows, row.Key)
			}
		}
		for _, part := range m.Parts {
			f.parts[part.ID] = part.HTML
		}
		f.revision = m.Revision
		return m
	}
}

// until takes in messages until a condition holds.
func (f *follower) until(condition func() bool) {
	f.t.Helper()
	for !condition() {
		f.next()
	}
}

func program(name string) recipes.Owner {
	return recipes.Owner{Program: name, Host: "web-1", PID: 7}
}

func TestStreamFromSnapshotToChanges(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset), put("jobs/daily", "a", 5, program("report")), event(driver.Synced))
	live(t, c)

	first, second := follow(t, url, "view=list"), follow(t, url, "view=list")
	require.Equal(t, c.hub.epoch, first.hello.Epoch)
	require.Equal(t, c.assets.version, first.hello.Assets)
	require.WithinDuration(t, time.Now(), time.UnixMilli(first.hello.Now), time.Minute)
	require.Equal(t, "snapshot", first.next().Type)
	require.Equal(t, "snapshot", second.next().Type)
	const key = "etcd/lock/jobs%2Fdaily"
	require.Contains(t, first.rows[key], "report")

	s.say(t, put("jobs/daily", "b", 6, program("other")))
	for _, f := range []*follower{first, second} {
		m := f.next()
		require.Equal(t, "changes", m.Type)
		require.Contains(t, f.rows[key], `data-depth="1"`)
		require.Contains(t, f.parts["summary"], `Waiting</dt><dd class="num">1<`)
	}
	require.Equal(t, first.rows[key], second.rows[key])
	_, page := get(t, url)
	require.Contains(t, page, first.rows[key], "the row of the first page is the row that is pushed")

	s.say(t, gone("jobs/daily", "a"))
	first.until(func() bool { return strings.Contains(first.rows[key], "other") })
	s.say(t, gone("jobs/daily", "b"))
	first.until(func() bool { return len(first.rows) == 0 })
}

func TestStreamReplaysAfterReconnect(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset), put("a", "1", 5, program("p")), put("b", "2", 6, program("p")), put("c", "3", 7, program("p")), event(driver.Synced))
	live(t, c)
	f := follow(t, url, "view=list")
	f.next()
	require.Len(t, f.rows, 3)
	require.NoError(t, f.conn.Close())

	s.say(t, gone("a", "1"), put("b", "4", 8, program("p")))
	eventually(t, "the change should arrive", func() bool { return len(changes(c.hub, f.revision).rows) == 2 })
	query := fmt.Sprintf("view=list&epoch=%s&revision=%d", f.hello.Epoch, f.revision)
	again := follow(t, url, query)
	m := again.next()
	require.Equal(t, "changes", m.Type)
	require.Len(t, m.Rows, 2, "what did not change is not sent again")

	idle := follow(t, url, fmt.Sprintf("view=list&epoch=%s&revision=%d", f.hello.Epoch, m.Revision))
	require.Equal(t, "beat", idle.read().Type, "a page that lacks nothing is told so")

	for _, query := range []string{
		"view=list&epoch=another&revision=7",
		"view=list&epoch=" + f.hello.Epoch + "&revision=999999",
		"view=list&epoch=" + f.hello.Epoch + "&revision=x",
	} {
		require.Equal(t, "snapshot", follow(t, url, query).next().Type, query)
	}
}

func TestStreamOfOneLock(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset), put("other", "o", 5, program("p")), event(driver.Synced))
	live(t, c)
	f := follow(t, url, "view=object&backend=etcd&name=jobs/daily")
	f.next()
	require.Contains(t, f.parts["object"], "Nobody holds this lock")

	s.say(t, gone("other", "o"), put("jobs/daily", "a", 6, program("report")))
	m := f.next()
	require.Empty(t, m.Rows)
	require.Contains(t, f.parts["object"], "report")
	require.NotContains(t, f.parts["object"], "Nobody")
	s.say(t, put("jobs/daily", "b", 7, program("second")))
	f.until(func() bool { return strings.Contains(f.parts["object"], "second") })
	require.Less(t, strings.Index(f.parts["object"], "report"), strings.Index(f.parts["object"], "second"), "in order")

	require.NoError(t, f.conn.Close())
	s.say(t, gone("jobs/daily", "a"), gone("jobs/daily", "b"))
	eventually(t, "it should be free", func() bool { return c.hub.current(view{}).rows == nil })
	again := follow(t, url, fmt.Sprintf("view=object&backend=etcd&name=jobs/daily&epoch=%s&revision=%d", f.hello.Epoch, f.revision))
	again.next()
	require.Contains(t, again.parts["object"], "Nobody holds this lock")
}

func TestStreamCoalesces(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	c.pace.frame = 50 * time.Millisecond
	s.say(t, event(driver.Reset), event(driver.Synced))
	live(t, c)
	f := follow(t, url, "view=list")
	f.next()
	f.frames = 0
	began := time.Now()
	const n = 3000
	go func() {
		for i := range n {
			s.events <- put("hot", "a", 9, program(fmt.Sprintf("turn-%d.", i)))
		}
	}()
	f.until(func() bool { return strings.Contains(f.rows["etcd/lock/hot"], fmt.Sprintf("turn-%d.", n-1)) })
	most := int(time.Since(began)/(50*time.Millisecond)) + 2
	require.LessOrEqual(t, f.frames, most, "frames for %d changes", n)
}

func TestStreamOfASlowViewer(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	c.pace.frame, c.pace.write, c.pace.pong = time.Nanosecond, time.Minute, time.Minute
	s.say(t, event(driver.Reset), event(driver.Synced))
	live(t, c)
	f := follow(t, url, "view=list")
	f.next()
	f.frames = 0
	const locks, rounds = 20, 150
	label := strings.Repeat("x", 200)
	for i := range rounds {
		for k := range locks {
			s.say(t, put(fmt.Sprint("hot-", k), "a", 9, recipes.Owner{Program: fmt.Sprintf("turn-%d.", i), Label: label, User: label, Host: label}))
		}
	}
	last := fmt.Sprintf("turn-%d.", rounds-1)
	complete := func() bool {
		for k := range locks {
			if !strings.Contains(f.rows[fmt.Sprint("etcd/lock/hot-", k)], last) {
				return false
			}
		}
		return true
	}
	rows := 0
	for !complete() {
		rows += len(f.next().Rows)
	}
	require.Less(t, rows, locks*rounds/2, "a viewer that did not read for long is spared what was overtaken")
}

func TestStreamInPieces(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset))
	const n = 2*maxRows + 7
	for i := range n {
		s.say(t, put(fmt.Sprint("lock-", i), "a", uint64(i+1), program("p")))
	}
	s.say(t, event(driver.Synced))
	live(t, c)
	f := follow(t, url, "view=list")
	all := map[string]string{}
	for i := range 3 {
		m := f.next()
		require.Equal(t, "snapshot", m.Type)
		require.Equal(t, i < 2, m.More)
		require.Equal(t, i == 2, len(m.Parts) > 0)
		for _, row := range m.Rows {
			all[row.Key] = row.HTML
		}
	}
	require.Len(t, all, n)
}

func TestStreamTakesNothing(t *testing.T) {
	t.Parallel()
	c, url := start(t, nil, newScript("etcd"))
	for _, say := range []string{"unlock", strings.Repeat("x", 100*maxRequest)} {
		f := follow(t, url, "view=list")
		_ = f.conn.WriteMessage(websocket.TextMessage, []byte(say)) // the server may hang up meanwhile
		eventually(t, "the viewer should be put out", func() bool { return viewers(c) == 0 })
	}
}

func viewers(c *Console) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seats
}

func TestStreamDropsTheDead(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, err := New([]Backend{{Name: "etcd", Client: client(t, s)}}, nil)
	require.NoError(t, err)
	c.pace = pace{frame: time.Millisecond, beat: 20 * time.Millisecond, pong: 2 * time.Second, write: 10 * time.Second}
	url := serve(t, c)
	alive := follow(t, url, "view=list")
	follow(t, url, "view=list") // does not read, and so does not answer pings
	var beats atomic.Int64
	go func() {
		for {
			if _, _, err := alive.conn.ReadMessage(); err != nil {
				return
			}
			beats.Add(1)
		}
	}()
	require.Equal(t, 2, viewers(c))
	eventually(t, "the silent one should be put out", func() bool { return viewers(c) == 1 })
	enough := beats.Load() + 150 // for longer than the time in which it must answer
	eventually(t, "the other one should be served", func() bool { return beats.Load() > enough })
	require.Equal(t, 1, viewers(c), "the other one stays")
	require.NoError(t, alive.conn.Close())
	eventually(t, "all gone", func() bool { return viewers(c) == 0 })
}

// TestStreamKeepsTheBusy has something to send in every frame, for longer than the
// time in which the viewer must answer a ping.
func TestStreamKeepsTheBusy(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, err := New([]Backend{{Name: "etcd", Client: client(t, s)}}, nil)
	require.NoError(t, err)
	c.pace = pace{frame: 50 * time.Millisecond, beat: 100 * time.Millisecond, pong: 2 * time.Second, write: 10 * time.Second}
	url := serve(t, c)
	s.say(t, event(driver.Reset), event(driver.Synced))
	live(t, c)
	f := follow(t, url, "view=list")
	began := time.Now()
	for turn := 0; time.Since(began) < 2*c.pace.pong; turn++ {
		s.say(t, put("hot", "a", 9, program(fmt.Sprintf("turn-%d.", turn))))
		f.until(func() bool { return strings.Contains(f.rows["etcd/lock/hot"], fmt.Sprintf("turn-%d.", turn)) })
	}
	require.Equal(t, 1, viewers(c))
}

func TestStreamEndsWithTheConsole(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, err := New([]Backend{{Name: "etcd", Client: client(t, s)}}, nil)
	require.NoError(t, err)
	c.pace.frame, c.pace.write, c.pace.pong = time.Nanosecond, time.Hour, time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	server := listen(t, c)
	f := follow(t, server, "view=list")

	s.say(t, event(driver.Reset), event(driver.Synced))
	big := strings.Repeat("x", 250)
	for i := range 1000 { // until its buffers are full and the viewer is stuck in a write
		s.say(t, put(fmt.Sprint("lock-", i), "a", uint64(i+1), recipes.Owner{Program: big, Label: big, User: big}))
	}
	cancel()
	select {
	case err := <-ran:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("Run did not return")
	}
	require.Zero(t, viewers(c))
	require.Equal(t, stateLost, c.hub.states()[0].State, "a page loaded now says that it is not live")
	_, response, err := websocket.DefaultDialer.Dial(strings.Replace(server, "http", "ws", 1)+"/socket", nil)
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	response.Body.Close()
	require.Error(t, c.Run(ctx), "it was run before")
	_ = f.conn.Close()
}

func TestStreamRefuses(t *testing.T) {
	t.Parallel()
	_, url := start(t, &Options{MaxViewers: 1}, newScript("etcd"))
	dial := func(query string, header http.Header) int {
		conn, response, err := websocket.DefaultDialer.Dial(strings.Replace(url, "http", "ws", 1)+"/socket?"+query, header)
		if err == nil {
			_ = conn.Close()
		}
		require.NotNil(t, response)
		response.Body.Close()
		return response.StatusCode
	}
	require.Equal(t, http.StatusForbidden, dial("", http.Header{"Origin": {"https://evil.example"}}))
	require.Equal(t, http.StatusMisdirectedRequest, dial("", http.Header{"Host": {"evil.example"}}))
	require.Equal(t, http.StatusNotFound, dial("view=object&backend=nope&name=x", nil))
	response, _ := get(t, url+"/socket")
	require.Equal(t, http.StatusBadRequest, response.code)
	follow(t, url, "view=list")
	require.Equal(t, http.StatusServiceUnavailable, dial("", nil))
}
