package console

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
)

// pace has the times of the stream.
type pace struct {
	frame time.Duration // between messages to one viewer
	beat  time.Duration // between signs of life
	pong  time.Duration // within which a browser must answer a ping
	write time.Duration // within which a message must be taken
}

var defaultPace = pace{frame: 100 * time.Millisecond, beat: 5 * time.Second, pong: 15 * time.Second, write: 10 * time.Second}

const (
	maxRequest = 1 << 10 // bytes a viewer may send in one message; it has nothing to say
	maxRows    = 500     // rows in one message
)

// A viewer is a page that follows the stream: a position in the order of changes.
type viewer struct {
	hub  *hub
	conn *websocket.Conn
	view view
	at   uint64 // the revision that the page has
	pace pace
}

// rowMessage and partMessage are pieces of a message.
type rowMessage struct {
	Key  string `json:"key"`
	HTML string `json:"html,omitempty"`
}

type partMessage struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// message is what the server sends, see the package's documentation.
type message struct {
	Type     string            `json:"type"`
	Epoch    string            `json:"epoch,omitempty"`
	Revision uint64            `json:"revision"`
	Now      int64             `json:"now,omitempty"`
	Assets   string            `json:"assets,omitempty"`
	Rows     []json.RawMessage `json:"rows,omitempty"`
	Parts    []json.RawMessage `json:"parts,omitempty"`
	More     bool              `json:"more,omitempty"`
}

// socket is the handler of the stream.
func (c *Console) socket(ec echo.Context) error {
	r := ec.Request()
	if !c.guard.streams(r) {
		return echo.NewHTTPError(http.StatusForbidden, "The stream is for the console's own pages.")
	}
	v := viewer{hub: c.hub, pace: c.pace}
	if r.URL.Query().Get("view") == "object" {
		var err error
		if v.view, err = c.objectView(ec); err != nil {
			return err
		}
	}
	if r.URL.Query().Get("epoch") == c.hub.epoch {
		// A revision that can't be read is 0, which the hub may not know any more.
		v.at, _ = strconv.ParseUint(r.URL.Query().Get("revision"), 10, 64)
	}
	if !c.enter() {
		return echo.NewHTTPError(http.StatusServiceUnavailable, "There are too many viewers, or the console is being stopped.")
	}
	defer c.leave()
	upgrader := websocket.Upgrader{
		HandshakeTimeout: c.pace.write,
		CheckOrigin:      func(*http.Request) bool { return true }, // done above
	}
	conn, err := upgrader.Upgrade(ec.Response(), r, nil)
	if err != nil {
		return nil // it has answered
	}
	v.conn = conn
	v.serve(c.assets.version)
	return nil
}

// serve sends until the browser or the console goes. Of its three goroutines one reads,
// one pings, and one closes the connection when the time has come.
func (v *viewer) serve(assets string) {
	ctx, cancel := context.WithCancel(v.hub.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		<-ctx.Done()
		v.hangUp()
	})
	wg.Go(func() {
		defer cancel()
		v.read()
	})
	wg.Go(func() { v.ping(ctx) })
	v.stream(ctx, assets)
	cancel()
	wg.Wait()
}

// hangUp closes the connection, which ends the reading, and also a write that is
// stuck.
func (v *viewer) hangUp() {
	soon := time.Now().Add(250 * time.Millisecond)
	bye := websocket.FormatCloseMessage(websocket.CloseGoingAway, "")
	_ = v.conn.WriteControl(websocket.CloseMessage, bye, soon) // as a courtesy
	_ = v.conn.Close()
}

// read waits for the answers to pings. Anything else that a viewer sends ends the
// connection: nothing is decided by what comes over the socket.
func (v *viewer) read() {
	v.conn.SetReadLimit(maxRequest)
	alive := func(string) error { return v.conn.SetReadDeadline(time.Now().Add(v.pace.pong)) }
	v.conn.SetPongHandler(alive)
	_ = alive("") // of an open connection; if it fails, so does what follows
	_, _, _ = v.conn.NextReader()
}

// ping asks for signs of life, also while a long message is being sent. A ping that
// can't be sent is an answer that will be missed.
func (v *viewer) ping(ctx context.Context) {
	ticker := time.NewTicker(v.pace.beat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = v.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(v.pace.write))
		case <-ctx.Done():
			return
		}
	}
}

// stream sends what the page lacks, if only a beat to say that this is nothing, then
// each change.
func (v *viewer) stream(ctx context.Context, assets string) {
	err := v.send(message{
		Type: "hello", Epoch: v.hub.epoch, Revision: v.at, Now: v.hub.now().UnixMilli(), Assets: assets,
	})
	beat := time.NewTicker(v.pace.beat)
	defer beat.Stop()
	for fresh := true; err == nil; fresh = false {
		u, changed := v.hub.since(v.view, v.at)
		v.at = u.revision
		switch {
		case !u.empty():
			if err = v.update(u); err == nil {
				err = pause(ctx, v.pace.frame)
			}
			continue
		case fresh:
			err = v.beat()
		}
		select {
		case <-changed:
		case <-beat.C:
			err = v.beat()
		case <-ctx.Done():
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *viewer) beat() error {
	return v.send(message{Type: "beat", Revision: v.at, Now: v.hub.now().UnixMilli()})
}

// update sends an update, in several messages if it is long.
func (v *viewer) update(u update) error {
	m := message{Type: "changes", Revision: u.revision}
	if u.whole {
		m.Type = "snapshot"
	}
	rows := u.rows
	for {
		n := min(maxRows, len(rows))
		m.Rows = m.Rows[:0]
		for _, c := range rows[:n] {
			m.Rows = append(m.Rows, c.row().message)
		}
		rows = rows[n:]
		m.More = len(rows) > 0
		if !m.More {
			for _, p := range u.parts {
				m.Parts = append(m.Parts, p.fragment().message)
			}
		}
		if err := v.send(m); err != nil || !m.More {
			return err
		}
	}
}

func (v *viewer) send(m message) error {
	if err := v.conn.SetWriteDeadline(time.Now().Add(v.pace.write)); err != nil {
		return err
	}
	return v.conn.WriteMessage(websocket.TextMessage, encode(m))
}
