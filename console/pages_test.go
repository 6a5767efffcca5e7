package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

// furnished is a console that shows some locks of two services.
func furnished(t *testing.T) (*Console, string, *script) {
	a, b := newScript("etcd"), newScript("zookeeper")
	c, url := start(t, &Options{Title: "Locks of <us>", Version: "v9"}, a, b)
	a.say(t, event(driver.Reset),
		put("jobs/daily", "1", 10, recipes.Owner{Program: "report", Host: "web-1", PID: 11, User: "ann", Label: "nightly"}),
		put("jobs/daily", "2", 11, recipes.Owner{Program: "report", Host: "web-2", PID: 12}),
		put("billing/charge", "3", 12, recipes.Owner{Program: "charger", Host: "worker-7"}),
		event(driver.Synced))
	old := put("deploy/prod", "4", 1<<40, recipes.Owner{Program: "deployer", Host: "ci-4"})
	old.Entry.Value = []byte(strings.Replace(string(old.Entry.Value), `"since":"2`, `"since":"1`, 1))
	b.say(t, event(driver.Reset), old,
		driver.Event{Type: driver.Put, Entry: driver.Entry{
			Queue: driver.Queue{Space: driver.SpaceLock, Name: "legacy"}, ID: "5", Revision: 3,
			Value: []byte("10.0.0.9"), Created: time.Now(),
		}}, event(driver.Synced))
	live(t, c)
	return c, url, a
}

// names are the locks of a page in order.
func names(page string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`<tr[^>]* data-name="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestListPage(t *testing.T) {
	t.Parallel()
	c, url, _ := furnished(t)
	response, page := get(t, url+"/")
	require.Equal(t, http.StatusOK, response.code)
	require.Equal(t, []string{"billing/charge", "deploy/prod", "jobs/daily", "legacy"}, names(page))
	for _, want := range []string{
		"<title>Objects · Locks of &lt;us&gt;</title>", "lockctl v9", "read only", "<noscript>", "Reload it",
		`href="/object?backend=etcd&amp;kind=mutex&amp;name=jobs/daily"`, "report", "nightly", "ann", "web-1", "another program", "10.0.0.9",
		`data-depth="1"`, ">4 objects<", `data-epoch="` + c.hub.epoch + `"`, `aria-sort="ascending"`,
	} {
		require.Contains(t, page, want)
	}
}

func TestListPageFiltersWithoutScript(t *testing.T) {
	t.Parallel()
	_, url, _ := furnished(t)
	for query, want := range map[string][]string{
		"jobs": {"jobs/daily"}, "WEB-2": {"jobs/daily"}, "zookeeper": {"deploy/prod", "legacy"},
		"ann+nightly": {"jobs/daily"}, "ann+charge": nil, "session-3": {"billing/charge"}, "%20": {"billing/charge", "deploy/prod", "jobs/daily", "legacy"},
	} {
		_, page := get(t, url+"/?q="+query)
		require.Equal(t, want, names(page), query)
	}
	_, page := get(t, url+"/?q=%22%3E%3Cscript%3E")
	require.NotContains(t, page, `"><script>`)
	require.Contains(t, page, ">0 of 4 objects<")
	require.Contains(t, page, `data-epoch=""`, "a page that lacks rows asks for all")
	require.Regexp(t, `<p class="empty" id="nomatch">`, page)
}

func TestListPageSortsWithoutScript(t *testing.T) {
	t.Parallel()
	_, url, _ := furnished(t)
	for sort, want := range map[string]string{
		"name": "billing/charge deploy/prod jobs/daily legacy", "-name": "legacy jobs/daily deploy/prod billing/charge",
		"backend": "billing/charge jobs/daily deploy/prod legacy",
		"holder":  "legacy billing/charge deploy/prod jobs/daily",
		"queue":   "jobs/daily billing/charge deploy/prod legacy",
		"-queue":  "billing/charge deploy/prod legacy jobs/daily",
		"nothing": "billing/charge deploy/prod jobs/daily legacy",
	} {
		_, page := get(t, url+"/?sort="+sort)
		require.Equal(t, want, strings.Join(names(page), " "), sort)
	}
	_, page := get(t, url+"/?sort=held&q=o")
	require.Equal(t, "deploy/prod", names(page)[0])
	require.Regexp(t, `class="c-held num" aria-sort="descending"><a class="sort" href="/\?q=o&amp;sort=-held"`, page)
	require.Contains(t, page, `<input type="hidden" name="sort" value="held">`)
}

// crowded is a console that shows more locks than fit into a list.
func crowded(t *testing.T) (string, *script) {
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset))
	for i := range maxListed + 10 {
		s.say(t, put(fmt.Sprintf("lock-%03d", i), "a", uint64(i+1), program("p")))
	}
	s.say(t, event(driver.Synced))
	live(t, c)
	return url, s
}

func TestListPageIsCut(t *testing.T) {
	t.Parallel()
	url, _ := crowded(t)
	_, page := get(t, url)
	require.Len(t, names(page), maxListed)
	require.Contains(t, page, ">310 objects<")
	require.Contains(t, page, "The first 300 of 310 are shown.")
	require.Contains(t, page, `data-epoch=""`, "a page that lacks rows asks for all")
	all := regexp.MustCompile(`<a href="(/\?[^"]*show=all[^"]*)"`).FindStringSubmatch(page)
	require.NotNil(t, all)
	_, page = get(t, url+strings.ReplaceAll(all[1], "&amp;", "&"))
	require.Len(t, names(page), maxListed+10)
	require.Contains(t, page, `id="more" hidden`)
	_, page = get(t, url+"/?q=lock-305")
	require.Equal(t, []string{"lock-305"}, names(page))
}

func TestLockPage(t *testing.T) {
	t.Parallel()
	_, url, _ := furnished(t)
	response, page := get(t, url+"/lock?backend=etcd&name=jobs/daily")
	require.Equal(t, http.StatusOK, response.code)
	require.Contains(t, page, "<bdi>jobs/daily</bdi></h1>")
	require.Less(t, strings.Index(page, "web-1"), strings.Index(page, "web-2"))
	require.Equal(t, 1, strings.Count(page, ">holder</span>"))
	require.Equal(t, 1, strings.Count(page, ">waiting</span>"))
	require.Contains(t, page, "session-2")
	require.Contains(t, page, "40960", "the token is the revision with room for hand-offs")

	response, page = get(t, url+"/lock?backend=etcd&name=nobody%2Fwants%20it")
	require.Equal(t, http.StatusOK, response.code)
	require.Contains(t, page, "Nobody holds this lock")
	require.Contains(t, page, `data-view="view=object&amp;backend=etcd&amp;kind=lock&amp;name=nobody%2Fwants+it"`)
}

func TestSharedHolders(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset))
	for i, host := range []string{"web-1", "web-2", "web-3"} {
		ev := put("index", host, uint64(i+1), recipes.Owner{Program: "search", Host: host})
		ev.Entry.Value = []byte(strings.Replace(string(ev.Entry.Value), `"mutex"`, `"rwmutex","mode":"shared"`, 1))
		s.say(t, ev)
	}
	s.say(t, put("index", "build-1", 4, recipes.Owner{Program: "rebuild", Host: "build-1"}))
	s.say(t, event(driver.Synced))
	live(t, c)
	_, page := get(t, url+"/")
	require.Contains(t, page, "and 2 more")
	_, page = get(t, url+"/lock?backend=etcd&name=index")
	require.Equal(t, 3, strings.Count(page, ">holder</span>"))
	require.Equal(t, 1, strings.Count(page, ">waiting</span>"))
	require.Contains(t, page, `Waiting</dt><dd class="num">1<`)
}

func TestLockPageOfALongQueue(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset))
	for i := range maxQueue + 50 {
		s.say(t, put("hot", string(rune('a'+i)), uint64(i+1), program("p")))
	}
	s.say(t, event(driver.Synced))
	live(t, c)
	_, page := get(t, url+"/lock?backend=etcd&name=hot")
	require.Equal(t, maxQueue-1, strings.Count(page, ">waiting</span>"))
	require.Contains(t, page, "and 50 more behind them")
	require.Contains(t, page, `Waiting</dt><dd class="num">249<`)
}

func TestPagesThatAreNotThere(t *testing.T) {
	t.Parallel()
	_, url, _ := furnished(t)
	for path, want := range map[string]string{
		"/lock?backend=nope&name=x":                           "There is no backend “nope” here.",
		"/lock?backend=%E2%80%AE&name=x":                      "“\\u202e”",
		"/lock?backend=etcd":                                  "A name has 1 to 512 bytes.",
		"/lock?backend=etcd&name=" + strings.Repeat("x", 513): "1 to 512 bytes",
		"/nothing":               "There is no such page.",
		"/assets/console.js":     "There is no file",
		"/assets/../console.go":  "There is no file",
		"/assets/%2e%2e/main.go": "There is no file",
	} {
		response, page := get(t, url+path)
		require.Equal(t, http.StatusNotFound, response.code, path)
		require.Contains(t, page, want, path)
		require.Contains(t, page, "All objects")
		require.NotContains(t, page, "<script", "there is nothing to follow")
	}
	response, _ := fetch(t, http.MethodPost, url+"/", nil)
	require.Equal(t, http.StatusMethodNotAllowed, response.code)
	response, page := fetch(t, http.MethodGet, url, http.Header{"Host": {"evil.example"}})
	require.Contains(t, page, "“evil.example”")
	require.Equal(t, http.StatusMisdirectedRequest, response.code)
}

func TestPagesHaveAStrictPolicy(t *testing.T) {
	t.Parallel()
	_, url, _ := furnished(t)
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script[^>]*>[^<]|javascript:`)
	seen := map[string]bool{}
	for _, path := range []string{"/", "/?q=x", "/lock?backend=etcd&name=jobs/daily", "/lock?backend=etcd&name=free", "/nothing"} {
		response, page := get(t, url+path)
		policy := response.header.Get("Content-Security-Policy")
		nonce := regexp.MustCompile(`script-src 'nonce-([A-Z0-9]{26})'`).FindStringSubmatch(policy)
		require.NotNil(t, nonce, policy)
		require.False(t, seen[nonce[1]], "a nonce is used once")
		seen[nonce[1]] = true
		require.Contains(t, page, `nonce="`+nonce[1]+`"`)
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			require.Contains(t, policy, want)
		}
		require.NotContains(t, policy, "unsafe")
		require.NotRegexp(t, inline, page, path)
		require.Equal(t, "nosniff", response.header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", response.header.Get("Referrer-Policy"))
		require.Equal(t, "no-store", response.header.Get("Cache-Control"))
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	_, url, _ := furnished(t)
	_, page := get(t, url)
	files := regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	require.Len(t, files, 3)
	for _, file := range files {
		response, body := get(t, url+file[1])
		require.Equal(t, http.StatusOK, response.code)
		require.NotEmpty(t, body)
		require.Contains(t, response.header.Get("Cache-Control"), "immutable")
		again, _ := fetch(t, http.MethodGet, url+file[1], http.Header{"If-None-Match": {response.header.Get("ETag")}})
		require.Equal(t, http.StatusNotModified, again.code)
	}
	response, _ := fetch(t, http.MethodHead, url+"/", nil)
	require.Equal(t, http.StatusOK, response.code)
}

func TestBelowABasePath(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, err := New([]Backend{{Name: "etcd", Client: client(t, s)}}, &Options{BasePath: "/ops/locks"})
	require.NoError(t, err)
	serve(t, c)
	mux := http.NewServeMux()
	mux.Handle("/ops/locks/", c)
	mux.Handle("/ops/locks", c)
	url := listen(t, mux)
	s.say(t, event(driver.Reset), put("a", "1", 2, program("p")), event(driver.Synced))
	live(t, c)

	response, page := get(t, url+"/ops/locks")
	require.Equal(t, "/ops/locks/", response.path)
	for _, match := range regexp.MustCompile(`(?:href|src|action|data-socket|data-home)="(/[^"]*)"`).FindAllStringSubmatch(page, -1) {
		require.True(t, strings.HasPrefix(match[1], "/ops/locks/"), match[1])
	}
	for _, path := range []string{"/lock?backend=etcd&name=a", "/healthz", "/api/locks"} {
		response, _ := get(t, url+"/ops/locks"+path)
		require.Equal(t, http.StatusOK, response.code, path)
	}
	f := follow(t, url+"/ops/locks", "view=list")
	f.next()
	require.Contains(t, f.rows["etcd/lock/a"], `href="/ops/locks/object?backend=etcd&amp;kind=mutex&amp;name=a"`)
}

func TestHostileText(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[31m\u202e<img src=x onerror=alert(1)>\u0000\n\"'\u200b"
	const shown = `\x1b[31m\u202e&lt;img src=x onerror=alert(1)&gt;\x00\n&#34;&#39;\u200b`
	s := newScript("etcd")
	c, url := start(t, nil, s)
	foreign := put("foreign", "f", 3, recipes.Owner{})
	foreign.Entry.Value = []byte(evil + "\xff" + strings.Repeat("y", 1<<20))
	hostile := put("evil/"+evil+"\xfe", evil, 2, recipes.Owner{Program: evil, Host: evil, User: evil, Label: evil + strings.Repeat("x", 5000)})
	hostile.Entry.Session = evil
	s.say(t, event(driver.Reset), hostile, foreign, event(driver.Synced))
	live(t, c)

	_, list := get(t, url)
	href := regexp.MustCompile(`href="(/object\?backend=etcd&amp;kind=mutex&amp;name=evil[^"]*)"`).FindStringSubmatch(list)
	require.NotNil(t, href)
	response, detail := get(t, url+strings.ReplaceAll(href[1], "&amp;", "&"))
	require.Equal(t, http.StatusOK, response.code)
	require.Contains(t, detail, ">holder</span>", "the link leads to this very lock")
	_, other := get(t, url+"/lock?backend=etcd&name=foreign")
	for _, page := range []string{list, detail, other} {
		require.Contains(t, page, shown)
		require.NotContains(t, page, "<img")
		require.NotContains(t, page, "\u202e")
		require.NotContains(t, page, "\x1b")
		require.NotContains(t, page, "\x00")
		require.NotContains(t, page, "\u200b")
		require.Less(t, len(page), 40_000, "what others wrote is cut")
		require.Contains(t, page, "…")
	}
	require.Contains(t, other, "another program")
	f := follow(t, url, "view=list")
	f.next()
	for _, row := range f.rows {
		require.Contains(t, row, shown)
		require.NotContains(t, row, "<img")
	}
}

func TestEmptyListSaysWhatItKnows(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	_, page := get(t, url)
	require.Contains(t, page, "is connecting. What it has is not known yet.")
	require.Contains(t, page, "Nothing to show yet.")
	s.say(t, event(driver.Reset), event(driver.Synced))
	live(t, c)
	_, page = get(t, url)
	require.Contains(t, page, "lockctl hold NAME -- CMD")
	s.say(t, lost("connection refused"))
	eventually(t, "the loss should show", func() bool { _, page = get(t, url); return strings.Contains(page, "is unreachable") })
	require.Contains(t, page, "connection refused")
	require.Contains(t, page, "Nothing to show yet.")
}

func TestDeniedBackend(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, driver.Event{Err: driver.ErrDenied})
	eventually(t, "the refusal should show", func() bool { return c.hub.states()[0].State == stateLost })
	_, page := get(t, url)
	require.Contains(t, page, "access denied")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	health := func() (h Health) {
		response, body := get(t, url+"/healthz")
		require.Equal(t, http.StatusOK, response.code)
		require.NoError(t, json.Unmarshal([]byte(body), &h))
		return h
	}
	h := health()
	require.Equal(t, "degraded", h.Status)
	require.Equal(t, "connecting", h.Backends[0].State)
	s.say(t, event(driver.Reset), event(driver.Synced))
	live(t, c)
	h = health()
	require.Equal(t, "ok", h.Status)
	require.Equal(t, BackendStatus{Name: "etcd", Engine: "etcd", State: "live", Since: h.Backends[0].Since}, h.Backends[0])
	s.say(t, lost("gone fishing"))
	eventually(t, "the loss should show", func() bool { return health().Status == "degraded" })
	require.Equal(t, "lost", health().Backends[0].State)
	require.Contains(t, health().Backends[0].Error, "gone fishing")
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	c, url, _ := furnished(t)
	response, body := get(t, url+"/api/locks")
	require.Equal(t, http.StatusOK, response.code)
	require.Contains(t, response.header.Get("Content-Type"), "application/json")
	var s Snapshot
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	require.Equal(t, c.hub.epoch, s.Epoch)
	require.Len(t, s.Backends, 2)
	require.Len(t, *s.Locks, 4)
	daily := (*s.Locks)[2]
	require.Equal(t, "jobs/daily", daily.Name)
	require.Equal(t, 1, daily.Waiting)
	require.Equal(t, recipes.Owner{Program: "report", Host: "web-1", PID: 11, User: "ann", Label: "nightly"}, daily.Queue[0].Owner)
	require.Equal(t, "holder", daily.Queue[0].State)
	require.Equal(t, "waiting", daily.Queue[1].State)
	require.Contains(t, body, `"token":"40960"`)
	require.Equal(t, []byte("10.0.0.9"), (*s.Locks)[3].Queue[0].Value)

	_, body = get(t, url+"/api/locks?q=charger")
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	require.Len(t, *s.Locks, 1)
	_, body = get(t, url+"/api/locks?q=nothing")
	require.Contains(t, body, `"locks":[]`)
}
