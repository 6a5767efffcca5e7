package console

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/zk"
)

// onEtcd is a console over an etcd of its own, that runs and is not served.
func onEtcd(t *testing.T) (c *Console, server *etcdtest.Server, url string) {
	t.Helper()
	server = etcdtest.Start(t)
	url = "etcd://" + server.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	client, err := etcd.Dial(ctx, url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	c, err = New([]Backend{{Name: "etcd", Client: client}}, nil)
	require.NoError(t, err)
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ran)
	})
	live(t, c)
	return c, server, url
}

const daily = "etcd/lock/jobs%2Fdaily"

func TestBrowserFollowsALock(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	c, _, url := onEtcd(t)
	d := newDoor(t, c)
	list, lock := openTab(browser, t), openTab(browser, t)
	list.open(d.url())
	lock.open(d.url() + "/lock?backend=etcd&name=jobs/daily")
	list.until(isLive)
	list.until(isEmpty)
	lock.until(isLive)
	lock.until("document.body.innerText.includes('Nobody holds this lock')")

	first := contend(t, url, "jobs/daily", "first")
	list.until(row(daily))
	require.Contains(t, words(list.eval(row(daily)+".innerText")), "worker first")
	require.Equal(t, "1 object", list.eval("document.querySelector('#count').innerText"))
	lock.until("document.querySelectorAll('.queue tbody tr').length === 1")

	second := contend(t, url+"?ttl=2s", "jobs/daily", "second")
	list.until(row(daily) + ".dataset.depth === '1'")
	lock.until("document.querySelectorAll('.queue tbody tr').length === 2")
	const queue = "[...document.querySelectorAll('.queue tbody tr')].map((tr) => tr.querySelector('.state').innerText + ' ' + tr.querySelector('.tag').innerText).join()"
	require.Equal(t, "holder first,waiting second", words(lock.eval(queue)))

	first.release(t)
	list.until(row(daily) + ".dataset.depth === '0' && " + row(daily) + ".innerText.includes('second')")
	lock.until("document.querySelectorAll('.queue tbody tr').length === 1")
	require.Equal(t, "holder second", words(lock.eval(queue)))
	lock.until("document.querySelector('.record').innerText.includes('p99')")

	third := contend(t, url, "jobs/daily", "third")
	list.until(row(daily) + ".dataset.depth === '1'")
	second.kill() // its lease runs out
	list.until(row(daily) + ".dataset.depth === '0' && " + row(daily) + ".innerText.includes('third')")

	// The page counts by itself.
	age := list.eval(row(daily) + ".querySelector('time').innerText")
	list.until(row(daily) + ".querySelector('time').innerText !== '" + age + "'")

	third.release(t)
	list.until("!" + row(daily))
	list.until(isEmpty)
	lock.until("document.body.innerText.includes('Nobody holds this lock')")
}

func TestBrowserReconnects(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	c, _, url := onEtcd(t)
	d := newDoor(t, c)
	list := openTab(browser, t)
	list.open(d.url())
	list.until(isLive)
	first := contend(t, url, "jobs/daily", "first")
	list.until(row(daily))

	d.shut()
	list.until("document.querySelector('#link-word').innerText === 'reconnecting'")
	list.until("document.querySelector('#link-word').innerText === 'stale' && /since \\d+ s/.test(document.querySelector('#link-since').innerText)")
	list.until("document.title.includes('stale')")
	require.Contains(t, list.eval(row(daily)+".innerText"), "first", "the last picture stays")
	first.release(t)
	contend(t, url, "jobs/nightly", "second")
	eventually(t, "the console should see the change", func() bool {
		u := c.hub.current(view{})
		return len(u.rows) == 1 && u.rows[0].object.Name == "jobs/nightly"
	})
	d.open(c)
	list.until(isLive)
	list.until("!" + row(daily) + " && " + row("etcd/lock/jobs%2Fnightly"))
	require.NotContains(t, list.eval("document.title"), "stale")

	// Another life of the console, with other revisions.
	d.shut()
	list.until("document.querySelector('#link-word').innerText !== 'live'")
	ctx, cancel := context.WithTimeout(context.Background(), pagePatience)
	defer cancel()
	client, err := etcd.Dial(ctx, url+"/other", nil)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	next, err := New([]Backend{{Name: "etcd", Client: client}}, nil)
	require.NoError(t, err)
	running, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- next.Run(running) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ran)
	})
	d.open(next)
	list.until(isLive)
	list.until("document.querySelectorAll('#rows tr').length === 0")
}

func TestBrowserShowsThatABackendIsLost(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	c, server, url := onEtcd(t)
	d := newDoor(t, c)
	list, lock := openTab(browser, t), openTab(browser, t)
	list.open(d.url())
	lock.open(d.url() + "/lock?backend=etcd&name=jobs/daily")
	contend(t, url+"?ttl=60s", "jobs/daily", "first") // so that its entry outlasts the server's stop
	list.until(row(daily))

	server.Stop()
	for _, page := range []*tab{list, lock} {
		page.until("/etcd is unreachable/.test(document.querySelector('#alerts').innerText)")
		page.until("document.querySelector('main').innerText.includes('stale')")
	}
	list.until(isLive) // the page itself is
	server.Start(t)
	for _, page := range []*tab{list, lock} {
		page.until("document.querySelector('#alerts').innerText.trim() === ''")
		page.until("!document.querySelector('main').innerText.includes('stale')")
	}
}

func TestBrowserShowsBothEngines(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	ctx, cancel := context.WithTimeout(context.Background(), pagePatience)
	defer cancel()
	onZK, err := zk.Dial(ctx, "zk://"+zkserver.Start(t, 1).Addrs()[0], nil)
	require.NoError(t, err)
	t.Cleanup(func() { onZK.Close() })
	onEtcd, err := etcd.Dial(ctx, "etcd://"+etcdtest.Start(t).Addr(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { onEtcd.Close() })
	c, err := New([]Backend{{Name: "etcd", Client: onEtcd}, {Name: "zk", Client: onZK}}, nil)
	require.NoError(t, err)
	list := openTab(browser, t)
	list.open(serve(t, c))
	list.until(isLive)
	list.until("document.querySelectorAll('#backends li[data-state=live]').length === 2")

	for name, client := range map[string]*recipes.Client{"etcd": onEtcd, "zk": onZK} {
		mutex, err := client.Mutex("jobs/daily", nil)
		require.NoError(t, err)
		require.NoError(t, mutex.Do(ctx, func(_ context.Context, hold *recipes.Hold) error {
			list.until("document.querySelectorAll('#rows tr').length === 1")
			text := list.eval("document.querySelector('#rows tr').textContent")
			require.Contains(t, text, strconv.FormatUint(hold.Token(), 10), "the token that the holder has")
			list.until("document.querySelector('#rows .c-backend').innerText.startsWith('" + name + "')")
			return nil
		}))
		list.until(isEmpty)
	}
}

func TestBrowserNoticesSilence(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	s := newScript("etcd")
	c, err := New([]Backend{{Name: "etcd", Client: client(t, s)}}, nil)
	require.NoError(t, err)
	c.pace.beat, c.pace.pong = time.Hour, time.Hour
	url := serve(t, c)
	list := openTab(browser, t)
	list.open(url)
	list.until(isLive)
	list.until("document.querySelector('#link-word').innerText !== 'live'")
	list.until(isLive)
}

func TestBrowserKeyboard(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, url, s := furnished(t)
	list := openTab(browser, t)
	list.open(url)
	list.until(isLive)
	const focus = "document.activeElement.closest('tr')?.dataset.name || document.activeElement.id"
	shown := "[...document.querySelectorAll('#rows tr:not([hidden])')].map((tr) => tr.dataset.name).join()"

	list.keys("j")
	require.Equal(t, "billing/charge", list.eval(focus))
	list.keys("j", kb.ArrowDown, "k")
	require.Equal(t, "deploy/prod", list.eval(focus))
	list.keys("k", kb.ArrowUp, "k")
	require.Equal(t, "billing/charge", list.eval(focus), "the first row is the first")

	// The focus stays when the row is replaced, and moves on when it goes.
	s.say(t, put("billing/charge", "9", 99, program("next")))
	list.until(row("etcd/lock/billing%2Fcharge") + ".dataset.depth === '1'")
	require.Equal(t, "billing/charge", list.eval(focus))
	s.say(t, gone("billing/charge", "3"), gone("billing/charge", "9"))
	list.until("!" + row("etcd/lock/billing%2Fcharge"))
	require.Equal(t, "deploy/prod", list.eval(focus))

	list.keys("/")
	require.Equal(t, "q", list.eval(focus))
	list.keys("W", "e", "b", "-", "2")
	require.Equal(t, "Web-2", list.eval("document.activeElement.value"))
	require.Equal(t, "jobs/daily", list.eval(shown))
	require.Equal(t, "1 of 3 objects", list.eval("document.querySelector('#count').innerText"))
	require.Contains(t, list.eval("location.search"), "q=Web-2")
	list.keys("x")
	require.Equal(t, "true", list.eval("String(document.querySelector('#nomatch').checkVisibility())"))
	list.keys(kb.Escape)
	require.Equal(t, "deploy/prod,jobs/daily,legacy", list.eval(shown))
	require.Empty(t, list.eval("location.search"))

	list.eval("document.querySelector('a[data-sort=queue]').focus(), ''")
	list.keys(kb.Enter)
	require.Equal(t, "jobs/daily,deploy/prod,legacy", list.eval(shown))
	list.keys(kb.Enter)
	require.Equal(t, "deploy/prod,legacy,jobs/daily", list.eval(shown))
	require.Equal(t, "ascending", list.eval("document.querySelector('th.c-queue').ariaSort"))
	require.Contains(t, list.eval("location.search"), "sort=-queue")

	list.keys("/", kb.Enter)
	require.Equal(t, "deploy/prod", list.eval(focus))
	list.keys("j", "j", kb.Enter)
	list.until("location.pathname === '/object' && document.querySelector('h1').innerText === 'jobs/daily'")
	list.until(isLive)
	list.keys("j", "j")
	require.Equal(t, "2", list.eval("document.activeElement.dataset.key"))
	list.keys("u")
	list.until("location.pathname === '/' && " + isLive)

	list.eval("document.activeElement.blur(), ''")
	list.keys(kb.Tab)
	require.Equal(t, "skip", list.eval("document.activeElement.className"))
}
