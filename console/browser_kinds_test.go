package console

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

const (
	chosenKind = "document.querySelector('#kinds [aria-current=true]').innerText.replace(/\\s+/g, ' ')"
	focusKind  = "document.activeElement.closest('#kinds') ? document.activeElement.dataset.kind : 'elsewhere'"
	shownNames = "[...document.querySelectorAll('#rows tr')].map((tr) => tr.dataset.name).join()"
)

func TestBrowserFiltersByKind(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	url, s := varied(t)
	list := openTab(browser, t)
	list.open(url)
	list.until(isLive)
	require.Equal(t, "All 13", list.eval(chosenKind))

	// By the keyboard alone.
	list.keys("t")
	require.Empty(t, list.eval(focusKind))
	list.keys(kb.ArrowRight, kb.Enter)
	require.Equal(t, "lock", list.eval(focusKind))
	require.Equal(t, "boss,job,main,pool", list.eval(shownNames))
	require.Equal(t, "locks 4", list.eval(chosenKind))
	require.Equal(t, "4 of 13 objects", list.eval("document.querySelector('#count').innerText"))
	require.Equal(t, "?kind=lock", list.eval("location.search"))
	list.keys(kb.ArrowRight, kb.ArrowRight, kb.ArrowLeft, kb.Enter)
	require.Equal(t, "job", list.eval(shownNames), "a mutex")
	list.keys("j")
	require.Equal(t, "job", list.eval("document.activeElement.closest('tr').dataset.name"))
	list.keys(kb.Escape)
	require.Equal(t, "All 13", list.eval(chosenKind))
	require.Empty(t, list.eval("location.search"))

	// Together with words, and while things change. The focus stays on the links.
	list.keys("/", "w", "e", "b", kb.Escape, kb.Escape, "t", kb.ArrowRight, kb.Enter)
	s.say(t, partOf(driver.SpaceLock, "new", "n1", 80, recipes.KindMutex, "", app("app-9")))
	list.until("document.querySelector('#rows').innerText.includes('app-9')")
	require.Equal(t, "lock", list.eval(focusKind))
	require.Equal(t, "locks 5", list.eval(chosenKind))
	s.say(t, partOf(driver.SpaceGroup, "other", "n2", 81, recipes.KindGroup, "", app("web-9")))
	list.until("document.querySelector('#kinds [data-kind=group]').innerText.includes('2')")
	require.Equal(t, "boss,job,main,new,pool", list.eval(shownNames))

	// A kind of which nothing is left can be chosen off.
	list.eval("document.querySelector('#kinds [data-kind=barrier]').click(), ''")
	require.Equal(t, "frozen", list.eval(shownNames))
	s.say(t, removed(storedOf(driver.SpaceBarrier, "frozen", 33, "{}", app(""))))
	list.until("document.querySelector('#nomatch').checkVisibility()")
	require.Equal(t, "barrier 0", list.eval(chosenKind))
	list.do(chromedp.Click(chromedp.CSS("#clear")))
	require.Equal(t, "All 14", list.eval(chosenKind))

	list.open(url + "/?kind=queue")
	list.until(isLive)
	require.Equal(t, "mail", list.eval(shownNames), "an address can be kept")
	require.Equal(t, "queue 1", list.eval(chosenKind))
	list.keys("j", kb.Enter)
	list.until("location.pathname === '/object' && " + isLive)
	require.Equal(t, "queue", list.eval("document.querySelector('.title .tag').innerText"))
	list.keys("j", "j", "j", "j", "j")
	require.Equal(t, "t1", list.eval("document.activeElement.dataset.key"), "from the items on to the workers")
}

func TestBrowserFiltersByKindWithoutScript(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	url, _ := varied(t)
	page := openTab(browser, t, withoutScript())
	page.open(url)
	page.do(chromedp.Click(chromedp.CSS("#kinds [data-kind=queue]")))
	page.until("location.search === '?kind=queue' && document.querySelectorAll('#rows tr').length === 1")
	page.do(chromedp.Click(chromedp.CSS("#rows a")))
	page.until("location.pathname === '/object' && document.readyState === 'complete'")
	text := words(page.eval("document.body.innerText"))
	require.Contains(t, text, "taken-1")
	require.Contains(t, text, "due in")
	require.Contains(t, text, "UTC")
}

// kindPages are the pages of an object of each kind.
func kindPages() []string {
	pages := []string{"/"}
	for kind, name := range map[string]string{
		"semaphore": "pool", "election": "main", "mutex": "job", "group": "web", "queue": "mail", "register": "config",
		"counter": "builds", "latch": "ready", "barrier": "frozen", "limiter": "api", "double-barrier": "phase", "once": "pay",
	} {
		pages = append(pages, "/object?backend=etcd&kind="+kind+"&name="+name, "/object?backend=etcd&name=none&kind="+kind)
	}
	return pages
}

func TestBrowserPagesOfAllKinds(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	url, _ := varied(t)
	for _, scheme := range []string{"light", "dark"} {
		page := openTab(browser, t, withScheme(scheme))
		phone := openTab(browser, t, withScheme(scheme), chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
		for _, path := range kindPages() {
			page.open(url + path)
			page.until(isLive)
			page.isReadable(scheme + " " + path)
			phone.open(url + path)
			phone.until(isLive)
			phone.isReadable("on a phone, " + scheme + " " + path)
			require.Equal(t, "390", phone.eval("String(document.documentElement.scrollWidth)"), "%s is as wide as the screen", path)
			for _, b := range []*tab{page, phone} {
				require.Equal(t, "0", b.eval("String([...document.querySelectorAll('use')].filter((u) => !document.querySelector(u.getAttribute('href'))).length)"),
					"every shape is there")
			}
		}
	}
}

// TestBrowserOverdueTick shows a job whose next run is long overdue, and what it says
// of one to come.
func TestBrowserOverdueTick(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	url, s := varied(t)
	s.say(t, partOf(driver.SpaceLock, "nightly", "n1", 90, recipes.KindJob, "", app("ctl-1")),
		storedOf(driver.SpaceJob, "nightly", 91, `{"schedule":"CRON_TZ=UTC 0 3 * * *","settled":"2020-03-01T03:00:00Z"}`, app("ctl-1")))
	page := openTab(browser, t)
	for path, soon := range map[string]string{"/?q=nightly": "in ", "/object?backend=etcd&kind=job&name=nightly": ""} {
		page.open(url + path)
		page.until(isLive)
		const tick = "document.querySelector('time[data-soon]')"
		page.until("/^overdue \\d+d/.test(" + tick + ".innerText)")
		page.eval("String(" + tick + ".dataset.until = Date.now() + 7e6)")
		page.until("/^" + soon + "1h/.test(" + tick + ".innerText)")
	}
}
