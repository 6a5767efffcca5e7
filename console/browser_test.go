package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// pagePatience is for what a browser does on a busy machine.
const pagePatience = time.Minute

// startBrowser runs a headless browser until the test ends. Where there is none, the test
// is skipped, except in CI.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Chromium")
		}
		t.Skip("there is no Chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		ending, end := context.WithTimeout(ctx, pagePatience)
		defer end()
		require.NoError(t, chromedp.Cancel(ending))
	})
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// A tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu  sync.Mutex
	log []chromedp.ConsoleMessage
}

// openTab opens a page. When the test ends, nothing may have been written to its
// console, except that the network failed.
func openTab(browser context.Context, t *testing.T, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	b := &tab{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.log = append(b.log, m)
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		require.Empty(t, b.complaints())
	})
	b.do(before...)
	return b
}

// complaints are the messages about the page itself.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, m := range b.log {
		if m.Source != "network" {
			all = append(all, m.Source+": "+m.String())
		}
	}
	return all
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

func (b *tab) open(url string) { b.t.Helper(); b.do(chromedp.Navigate(url)) }

// keys presses keys, one after the other.
func (b *tab) keys(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		events := kb.Encode([]rune(key)[0])
		down, up := events[0], events[len(events)-1]
		if len(events) == 3 { // the page can refuse a text that is part of the key's event
			down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		b.do(command(input.DispatchKeyEvent, *down), command(input.DispatchKeyEvent, *up))
	}
}

// eval evaluates a JavaScript expression of type string.
func (b *tab) eval(expression string) string {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
	require.NoError(b.t, err, expression)
	return value
}

// until waits until a JavaScript condition holds.
func (b *tab) until(condition string) {
	b.t.Helper()
	deadline := time.Now().Add(pagePatience)
	for {
		// While a page is being replaced there is nothing to ask.
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+condition+")"))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not hold (%v) on %s", condition, err, b.eval("document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// row is the row of a lock in the list, or of the n-th entry of a queue.
func row(key string) string { return fmt.Sprintf("document.querySelector('tr[data-key=%q]')", key) }

const (
	isLive  = "document.querySelector('#link').dataset.state === 'live' && document.querySelector('#link-word').innerText === 'live'"
	isEmpty = "document.querySelector('#empty').checkVisibility()"
)

// command is an action that has no result.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func withoutScript() chromedp.Action[chromedp.Void] {
	return command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

func withScheme(scheme string) chromedp.Action[chromedp.Void] {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// A door serves a console on one address, and can be shut and opened again.
type door struct {
	t      *testing.T
	addr   string
	server *http.Server
	served chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]bool // those that the server has handed over to streams
}

func newDoor(t *testing.T, c *Console) *door {
	d := &door{t: t, addr: "127.0.0.1:0"}
	d.open(c)
	t.Cleanup(d.shut)
	return d
}

func (d *door) url() string { return "http://" + d.addr }

func (d *door) open(c *Console) {
	d.t.Helper()
	listener, err := net.Listen("tcp", d.addr)
	require.NoError(d.t, err)
	d.addr, d.conns, d.served = listener.Addr().String(), map[net.Conn]bool{}, make(chan struct{})
	d.server = &http.Server{Handler: c, ConnState: func(conn net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			d.mu.Lock()
			d.conns[conn] = true
			d.mu.Unlock()
		}
	}}
	go func() {
		defer close(d.served)
		_ = d.server.Serve(listener) // reports that it was shut
	}()
}

// shut ends the server with all connections, as the death of its process does.
func (d *door) shut() {
	_ = d.server.Close()
	<-d.served
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		_ = conn.Close()
	}
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }
