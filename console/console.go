package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/lockctl/lockctl/recipes"
)

const (
	defaultTitle      = "lockctl"
	defaultMaxViewers = 1000
	maxBackendName    = 64
)

// A Watcher is what the console needs of a client: recipes.Client has it, and so have
// recipes.LeaseClient and recipes.UnfencedClient.
type Watcher interface {
	// Engine is the name of the service.
	Engine() string
	// Watch reports all objects and their changes, see recipes.Client.Watch.
	Watch(ctx context.Context, filter recipes.Filter) iter.Seq2[recipes.Change, error]
}

// A Backend is one service that is shown.
type Backend struct {
	// Name tells the backends apart, in pages and addresses: 1 to 64 bytes of
	// printable text without "/".
	Name string
	// Client is used to watch, and for nothing else. The console does not close it.
	Client Watcher
}

// Options adjust a Console. A nil *Options means all defaults.
type Options struct {
	// BasePath is the path that the console is mounted below, such as "/locks".
	// Requests are expected to have it. Defaults to "", the root.
	BasePath string
	// AllowedHosts are host names, or host:port, under which the console answers
	// besides the loopback names and the address that a request arrived at. Name
	// those that people and proxies use. Pages of these hosts may open the stream too.
	AllowedHosts []string
	// Title is what the pages are headed with. Defaults to "lockctl".
	Title string
	// Version is shown at the foot of the pages. Defaults to nothing.
	Version string
	// MaxViewers bounds the pages that follow the stream at one time; more get the
	// static page. Defaults to 1,000.
	MaxViewers int
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// A Console serves the pages and keeps the picture that they show. Make one with
// New, and have Run at work while it serves. All methods may be called at the
// same time.
type Console struct {
	opts    Options
	guard   guard
	hub     *hub
	assets  *assets
	echo    *echo.Echo
	pace    pace
	started atomic.Bool

	mu      sync.Mutex
	closed  bool
	seats   int            // viewers now
	viewers sync.WaitGroup // their handlers
}

// New makes a console for at least one backend. A nil opts means all defaults. It
// sends nothing until Run. It returns recipes.ErrInvalid for input out of range.
func New(backends []Backend, opts *Options) (*Console, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := validateBackends(backends); err != nil {
		return nil, err
	}
	guard, err := newGuard(o.AllowedHosts)
	if err != nil {
		return nil, err
	}
	assets, err := loadAssets()
	if err != nil {
		return nil, fmt.Errorf("load the console's assets: %w", err)
	}
	c := &Console{opts: o, guard: guard, assets: assets, pace: defaultPace}
	c.hub = newHub(backends, site{base: o.BasePath}, o.Now)
	c.echo = c.routes()
	return c, nil
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.BasePath == "/" {
		opts.BasePath = ""
	}
	if problem := pathProblem(opts.BasePath); problem != "" {
		return opts, &recipes.InvalidError{Field: "Options.BasePath", Problem: problem}
	}
	if opts.MaxViewers < 0 {
		return opts, &recipes.InvalidError{Field: "Options.MaxViewers", Problem: "is negative"}
	}
	if opts.MaxViewers == 0 {
		opts.MaxViewers = defaultMaxViewers
	}
	if opts.Title == "" {
		opts.Title = defaultTitle
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return opts, nil
}

// pathProblem says what is wrong with a base path, or "".
func pathProblem(path string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.~/", r)
	}
	switch {
	case path == "":
		return ""
	case path[0] != '/':
		return `does not begin with "/"`
	case strings.HasSuffix(path, "/"):
		return `ends with "/"`
	case strings.Contains(path, "//"), strings.Contains(path, "/."):
		return `has an element that is empty or begins with "."`
	case strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) >= 0:
		return `has characters other than letters, digits and "-_.~/"`
	}
	return ""
}

func validateBackends(backends []Backend) error {
	if len(backends) == 0 {
		return &recipes.InvalidError{Field: "backends", Problem: "is empty"}
	}
	seen := map[string]bool{}
	for i, b := range backends {
		problem := backendNameProblem(b.Name)
		if seen[b.Name] {
			problem = fmt.Sprintf("%q is given twice", b.Name)
		}
		if problem != "" {
			return &recipes.InvalidError{Field: fmt.Sprintf("backends[%d].Name", i), Problem: problem}
		}
		if b.Client == nil {
			return &recipes.InvalidError{Field: fmt.Sprintf("backends[%d].Client", i), Problem: "is nil"}
		}
		seen[b.Name] = true
	}
	return nil
}

func backendNameProblem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxBackendName:
		return fmt.Sprintf("is %d bytes long, more than %d", len(name), maxBackendName)
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case strings.Contains(name, "/"):
		return `has a "/"`
	case strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0:
		return "has characters that can't be shown"
	}
	return ""
}

// Run watches the backends until the context ends, and then ends the streams of
// all viewers. It returns nil, after everything that the console started has
// ended, or an error at once if it was called before.
//
// A backend that can't be reached is tried again for ever, and so is one that
// refuses the credentials; pages say so meanwhile.
func (c *Console) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("run the console: it was run before")
	}
	c.hub.run(ctx)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.hub.end()
	c.viewers.Wait()
	return nil
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.echo.ServeHTTP(w, r) }

// enter takes a seat for a viewer and reports whether there was one. leave
// gives it back.
func (c *Console) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.seats >= c.opts.MaxViewers {
		return false
	}
	c.seats++
	c.viewers.Add(1)
	return true
}

func (c *Console) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seats--
	c.viewers.Done()
}

func (c *Console) routes() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = c.failed
	e.Use(c.secure)
	g := e.Group(c.opts.BasePath)
	if c.opts.BasePath != "" {
		e.GET(c.opts.BasePath, func(ec echo.Context) error {
			return ec.Redirect(http.StatusMovedPermanently, c.hub.site.list())
		})
	}
	pages := []struct {
		path    string
		handler echo.HandlerFunc
	}{
		{"/", c.listPage}, {"/object", c.objectPage}, {"/lock", c.objectPage},
		{"/healthz", c.health}, {"/api/locks", c.locks}, {"/api/objects", c.objects}, {"/assets/:name", c.asset},
	}
	for _, p := range pages {
		g.GET(p.path, p.handler)
		g.HEAD(p.path, p.handler)
	}
	g.GET("/socket", c.socket)
	return e
}
