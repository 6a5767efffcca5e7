package console

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/recipes"
	"github.com/lockctl/lockctl/recipes/driver"
)

func TestBrowserWithoutScript(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, url, s := furnished(t)
	page := openTab(browser, t, withoutScript())
	page.open(url)
	text := words(page.eval("document.body.innerText"))
	require.Contains(t, text, "Without JavaScript this page shows the state of")
	require.Contains(t, text, "jobs/daily")
	require.Contains(t, text, "static as of")
	require.Contains(t, text, "Since, UTC")
	require.NotContains(t, text, "j k move")

	s.say(t, put("taken/meanwhile", "8", 98, program("p")))
	eventually(t, "a reload should show the change", func() bool {
		page.do(chromedp.Reload())
		return page.eval("String(!!"+row("etcd/lock/taken%2Fmeanwhile")+")") == "true"
	})
	page.do(chromedp.SetValue(chromedp.CSS("#q"), "nightly"), chromedp.Click(chromedp.CSS("#filter button")))
	page.until("location.search === '?q=nightly' && document.querySelectorAll('#rows tr').length === 1")
	page.do(chromedp.Click(chromedp.CSS("#rows a")))
	page.until("location.pathname === '/object' && document.body.innerText.includes('waiting')")
}

func TestBrowserOnAPhone(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, url, s := furnished(t)
	long := fmt.Sprintf("%0200d", 7)
	s.say(t, put("long/"+long, "8", 98, recipes.Owner{Program: long, Host: long, Label: long, User: long}))
	page := openTab(browser, t, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, path := range []string{"/", "/lock?backend=etcd&name=jobs/daily", "/lock?backend=etcd&name=long/" + long, "/nothing"} {
		page.open(url + path)
		page.until("document.readyState === 'complete'")
		require.Equal(t, "390", page.eval("String(document.documentElement.scrollWidth)"), "%s is as wide as the screen", path)
	}
	page.open(url)
	page.until(isLive)
	// The cells of a row are below each other, and all of them are on the screen.
	require.Equal(t, "ok", page.eval(`[...document.querySelectorAll('#rows tr')].every((tr) => {
		const box = (name) => tr.querySelector('.c-' + name).getBoundingClientRect();
		return box('holder').top >= box('name').bottom - 1 && box('host').top >= box('holder').bottom - 1 &&
			['name', 'holder', 'held', 'queue', 'host', 'backend'].every((name) => box(name).right <= 390 && box(name).width > 0);
	}) ? 'ok' : document.querySelector('#rows').innerHTML`))
	require.Equal(t, "row", page.eval("document.querySelector('#rows tr').role"), "to a screen reader it is still a table")
}

func TestBrowserOfManyLocks(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	url, s := crowded(t)
	page := openTab(browser, t)
	page.open(url)
	page.until(isLive)
	const shown = "String(document.querySelectorAll('#rows tr').length)"
	require.Equal(t, "300", page.eval(shown))
	require.Equal(t, "The first 300 of 310 are shown.", page.eval("document.querySelector('#more-count').innerText"))
	page.keys("/", "3", "0", "5")
	require.Equal(t, "1", page.eval(shown), "the filter looks at all of them")
	require.Equal(t, "lock-305", page.eval("document.querySelector('#rows tr').dataset.name"))
	s.say(t, put("lock-305", "b", 999, program("q")))
	page.until("document.querySelector('#rows tr').dataset.depth === '1'")
	page.keys("\u001b")
	require.Equal(t, "300", page.eval(shown))
	page.do(chromedp.Click(chromedp.CSS("#more a")))
	require.Equal(t, "310", page.eval(shown))
	require.Equal(t, "false", page.eval("String(document.querySelector('#more').checkVisibility())"))
}

func TestBrowserColorSchemes(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, url, _ := furnished(t)
	backgrounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		page := openTab(browser, t, withScheme(scheme))
		for _, path := range []string{"/", "/lock?backend=etcd&name=jobs/daily", "/lock?backend=etcd&name=free"} {
			page.open(url + path)
			page.until(isLive)
			page.isReadable(scheme + " " + path)
		}
		backgrounds[scheme] = page.eval("getComputedStyle(document.body).backgroundColor")
	}
	require.NotEqual(t, backgrounds["light"], backgrounds["dark"])
}

// isReadable checks the contrast of all texts.
func (b *tab) isReadable(what string) {
	b.t.Helper()
	// contrast is the least ratio of contrast between a text and what is behind it.
	const contrast = `(() => {
		const rgb = (color) => color.match(/[\d.]+/g).map(Number);
		const light = (color) => {
			const [r, g, b] = rgb(color).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
			return 0.2126 * r + 0.7152 * g + 0.0722 * b;
		};
		const behind = (node) => {
			for (; node; node = node.parentElement) {
				const color = getComputedStyle(node).backgroundColor;
				if (rgb(color)[3] !== 0) return color;
			}
		};
		let least = 21;
		for (const node of document.querySelectorAll('body *')) {
			if (![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !node.checkVisibility()) continue;
			const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
			least = Math.min(least, (a + 0.05) / (b + 0.05));
		}
		return String(least);
	})()`
	var ratio float64
	_, err := fmt.Sscan(b.eval(contrast), &ratio)
	require.NoError(b.t, err)
	require.GreaterOrEqual(b.t, ratio, 4.5, what)
}

func TestBrowserHostileText(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset), event(driver.Synced))
	live(t, c)
	page := openTab(browser, t)
	page.open(url)
	page.until(isLive)
	const evil = "\u202e" + `"><img src=x onerror="document.title='evil'"><script>document.title='evil'</script>`
	s.say(t, put(evil, evil, 5, recipes.Owner{Program: evil, Label: evil, User: evil, Host: evil}))
	page.until("document.querySelectorAll('#rows tr').length === 1")
	require.Equal(t, "0 0", page.eval("document.images.length + ' ' + document.querySelectorAll('tbody script').length"))
	require.Equal(t, "Objects · lockctl", page.eval("document.title"))
	require.Contains(t, page.eval("document.querySelector('#rows').innerText"), `\u202e`)
	page.do(chromedp.Click(chromedp.CSS("#rows a")))
	page.until("location.pathname === '/object' && document.querySelectorAll('.queue tbody tr').length === 1")
	require.Equal(t, "0", page.eval("String(document.images.length)"))
}

func TestBrowserEnforcesThePolicy(t *testing.T) {
	t.Parallel()
	browser := startBrowser(t)
	_, url, _ := furnished(t)
	page := openTab(browser, t)
	page.open(url)
	page.until(isLive)
	require.Empty(t, page.complaints())
	page.eval("document.body.setAttribute('style', 'color: red'), ''")
	page.eval("(() => { try { document.body.innerHTML = '<b>'; } catch (e) { return String(e); } return ''; })()")
	eventually(t, "the browser should complain", func() bool { return len(page.complaints()) >= 2 })
	page.mu.Lock()
	page.log = nil // that was on purpose
	page.mu.Unlock()
}
