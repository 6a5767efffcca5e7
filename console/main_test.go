package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

const patience = 15 * time.Second // for what takes milliseconds on an idle machine

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, what)
}

// script is a service that reports what a test tells it to.
type script struct {
	engine string
	events chan driver.Event
}

func newScript(engine string) *script {
	return &script{engine: engine, events: make(chan driver.Event)}
}

func (s *script) Engine() string { return s.engine }
func (s *script) Close() error   { return nil }

func (s *script) Connect(context.Context) (driver.Session, error) {
	return nil, errors.New("the console needs no session")
}

func (s *script) Swap(context.Context, driver.Entry, []byte) (driver.Entry, error) {
	return driver.Entry{}, errors.New("the console writes nothing")
}

func (s *script) List(context.Context, driver.Scope) ([]driver.Entry, error) {
	return nil, errors.New("the console lists nothing")
}

func (s *script) Watch(ctx context.Context, _ driver.Scope, sink func(driver.Event)) error {
	for {
		select {
		case ev := <-s.events:
			if ev.Err != nil && errors.Is(ev.Err, driver.ErrDenied) {
				return ev.Err
			}
			sink(ev)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *script) say(t testing.TB, events ...driver.Event) {
	t.Helper()
	for _, ev := range events {
		select {
		case s.events <- ev:
		case <-time.After(patience):
			t.Fatalf("nobody watches the %s backend", s.engine)
		}
	}
}

// put is an entry that comes into the queue of a lock.
func put(name, id string, revision uint64, owner recipes.Owner) driver.Event {
	value, err := json.Marshal(struct {
		Kind string `json:"kind"`
		recipes.Owner
		Since time.Time `json:"since"`
	}{"mutex", owner, time.Now().Add(-time.Minute)})
	if err != nil {
		panic(err)
	}
	return driver.Event{Type: driver.Put, Entry: driver.Entry{
		Queue: driver.Queue{Space: driver.SpaceLock, Name: name}, ID: id, Revision: revision,
		Session: "session-" + id, Value: value,
	}}
}

func gone(name, id string) driver.Event {
	return driver.Event{Type: driver.Delete, Entry: driver.Entry{
		Queue: driver.Queue{Space: driver.SpaceLock, Name: name}, ID: id,
	}}
}

func event(what driver.EventType) driver.Event { return driver.Event{Type: what} }

func lost(problem string) driver.Event {
	return driver.Event{Type: driver.Lost, Err: errors.New(problem)}
}

// client makes a client of a scripted service.
func client(t testing.TB, s *script) *recipes.Client {
	c, err := recipes.NewClient(s, nil)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// start runs a console over scripted services and serves it.
func start(t testing.TB, opts *Options, scripts ...*script) (*Console, string) {
	t.Helper()
	var backends []Backend
	for i, s := range scripts {
		name := s.engine
		if i > 0 {
			name += "-" + strconv.Itoa(i+1)
		}
		backends = append(backends, Backend{Name: name, Client: client(t, s)})
	}
	c, err := New(backends, opts)
	require.NoError(t, err)
	c.pace.frame = time.Millisecond
	return c, serve(t, c)
}

// serve runs a console and serves it until the test ends.
func serve(t testing.TB, c *Console) string {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	url := listen(t, c)
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
	return url
}

// listen serves over connections on which little is under way, until the test ends.
func listen(t testing.TB, h http.Handler) string {
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateNew {
			_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10) // or it takes a little more
		}
	}
	server.Start()
	t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return server.URL
}

// live waits until all backends are.
func live(t testing.TB, c *Console) {
	t.Helper()
	eventually(t, "the backends should be live", func() bool { return len(unknown(c.hub.states())) == 0 })
}

// answered is what was answered to a request.
type answered struct {
	code   int
	header http.Header
	path   string // after redirects
}

// get fetches a page and returns the answer and its text.
func get(t testing.TB, url string) (answered, string) {
	t.Helper()
	return fetch(t, http.MethodGet, url, nil)
}

// fetch sends a request, with headers.
func fetch(t testing.TB, method, url string, header http.Header) (answered, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	request.Host = header.Get("Host")
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answered{response.StatusCode, response.Header, response.Request.URL.Path}, string(body)
}
