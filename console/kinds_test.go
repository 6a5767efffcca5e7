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

// A part is an entry that comes into a queue of any space. value is what it says beside
// its owner, in JSON without the braces.
func partOf(space, name, id string, revision uint64, kind recipes.Kind, value string, owner recipes.Owner) driver.Event {
	who, err := json.Marshal(owner)
	if err != nil {
		panic(err)
	}
	note := fmt.Sprintf(`{"kind":%q,"since":%q,%s`, kind, time.Now().Add(-time.Minute).Format(time.RFC3339Nano), who[1:])
	if value != "" {
		note = strings.TrimSuffix(note, "}") + "," + value + "}"
	}
	return entryOf(space, name, id, revision, note)
}

func entryOf(space, name, id string, revision uint64, value string) driver.Event {
	return driver.Event{Type: driver.Put, Entry: driver.Entry{
		Queue: driver.Queue{Space: space, Name: name}, ID: id, Revision: revision, Version: revision,
		Session: "session-" + id, Value: []byte(value),
	}}
}

// storedOf is a value of a register.
func storedOf(space, name string, revision uint64, value string, by recipes.Owner) driver.Event {
	who, err := json.Marshal(by)
	if err != nil {
		panic(err)
	}
	return entryOf(space, name, fmt.Sprint("v", revision), revision,
		fmt.Sprintf(`{"id":"x","by":%s,"at":"2026-03-01T12:00:00Z","value":%s}`, who, value))
}

// itemOf is an item of the queue "mail", with what it says beside who put it.
func itemOf(id string, revision uint64, value string, by recipes.Owner) driver.Event {
	who, err := json.Marshal(by)
	if err != nil {
		panic(err)
	}
	return entryOf(driver.SpaceItem, "mail"+driver.PartSeparator+id, fmt.Sprint("v", revision), revision,
		fmt.Sprintf(`{"by":%s,"at":"2026-03-01T12:00:00Z","value":"what is to be done"%s}`, who, value))
}

func removed(ev driver.Event) driver.Event {
	return driver.Event{Type: driver.Delete, Entry: driver.Entry{Queue: ev.Entry.Queue, ID: ev.Entry.ID}}
}

// limiterRecord is what is stored of a limiter.
func limiterRecord(admitted, denied int) string {
	return fmt.Sprintf(`{"rate":{"tokens":100,"per":1000000000},"burst":50,"policy":"bucket","mode":"leased","period":1000000000,"born":"x",`+
		`"t":5,"level":20,"procs":{"p1":{"who":"app@api-1:7","out":30,"until":9,"demand":80}},"admitted":%d,"denied":%d}`, admitted, denied)
}

// allKinds is an object of each kind, those who take part being the owners' hosts.
func allKinds(on func(host string) recipes.Owner) []driver.Event {
	const claims, line = driver.SpaceClaim, driver.SpaceTurn
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	return []driver.Event{
		partOf(driver.SpaceLock, "pool", "s1", 10, recipes.KindSemaphore, `"permits":2,"limit":5`, on("web-1")),
		storedOf(driver.SpaceLimit, "pool", 9, "5", on("web-1")),
		partOf(driver.SpaceLock, "main", "e1", 11, recipes.KindElection,
			`"published":{"priority":3,"lead":{"term":"11264","value":"10.0.0.1:80","since":"2026-03-01T12:00:00Z"}}`, on("ctl-1")),
		partOf(driver.SpaceLock, "main", "e2", 12, recipes.KindElection, `"published":{"priority":7}`, on("ctl-2")),
		partOf(driver.SpaceLock, "job", "m1", 13, recipes.KindMutex, "", on("app-1")),
		partOf(driver.SpaceLock, "boss", "b1", 14, "boss", "", on("app-2")),
		partOf(driver.SpaceGroup, "web", "g1", 15, recipes.KindGroup, `"published":{"addr":"10.0.0.2"}`, on("web-2")),
		partOf(driver.SpaceGroup, "web", "g2", 16, recipes.KindGroup, "", on("web-3")),
		itemOf("ready-1", 20, `,"priority":4`, on("shop-1")), itemOf("delayed-1", 21, `,"due":"`+later+`"`, on("shop-1")),
		itemOf("taken-1", 22, `,"attempts":2`, on("shop-1")), itemOf("dead-1", 23, `,"dead":"nobody could"`, on("shop-1")),
		partOf(claims, "mail"+driver.PartSeparator+"taken-1", "c1", 24, recipes.KindQueue, "", on("mail-1")),
		partOf(line, "mail", "t1", 25, recipes.KindQueue, "", on("mail-2")),
		storedOf(driver.SpaceRegister, "config", 30, `{"limit":20,"hosts":["a","b"]}`, on("adm-1")),
		storedOf(driver.SpaceCounter, "builds", 31, "42", on("ci-1")),
		storedOf(driver.SpaceLatch, "ready", 32, `{"id":"x","total":5,"left":3}`, on("web-4")),
		storedOf(driver.SpaceBarrier, "frozen", 33, "{}", on("adm-2")),
		storedOf(driver.SpaceRound, "phase", 34, `{"count":2,"number":7,"members":["d1"]}`, on("etl-1")),
		partOf(driver.SpaceDoubleBarrier, "phase", "d1", 35, recipes.KindDoubleBarrier, "", on("etl-1")),
		partOf(driver.SpaceDoubleBarrier, "phase", "d2", 36, recipes.KindDoubleBarrier, "", on("etl-2")),
		storedOf(driver.SpaceResult, "pay", 37, `[{"key":"order/1","value":"the result"}]`, on("pay-1")),
		partOf(driver.SpaceOnce, "pay"+driver.PartSeparator+"order/2", "o1", 38, recipes.KindOnce, "", on("pay-2")),
		storedOf(driver.SpaceRate, "api", 40, limiterRecord(500, 20), on("api-1")),
		partOf(driver.SpaceInbox, "session-m1", "n1", 39, "ask", "", on("adm-3")),
	}
}

// TestPartition shows a partition, which has members and owners of shards, and a job.
func TestPartition(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	shard := func(number, id string, revision uint64, member string) driver.Event {
		ev := partOf(driver.SpaceShard, "ingest"+driver.PartSeparator+number, id, revision, "shard",
			fmt.Sprintf(`"published":{"member":%q,"shards":5}`, member), app("etl-1"))
		ev.Entry.Session = "session-of-" + member
		return ev
	}
	member := partOf(driver.SpacePartition, "ingest", "p1", 10, recipes.KindGroup, `"published":{"member":"one","shards":5,"weight":3}`, app("etl-1"))
	member.Entry.Session = "session-of-one"
	s.say(t, event(driver.Reset))
	s.say(t, member,
		shard("0", "s0", 11, "one"), shard("1", "s1", 11, "one"), shard("3", "s3", 11, "one"), shard("1", "s2", 12, "two"),
		partOf(driver.SpaceLock, "nightly", "j1", 13, recipes.KindJob, "", app("ctl-1")),
		storedOf(driver.SpaceJob, "nightly", 14, `{"schedule":"CRON_TZ=UTC 0 3 * * *","settled":"2026-03-01T03:00:00Z",`+
			`"last":{"tick":"2026-03-01T03:00:00Z","attempt":1,"token":"7","outcome":"completed"}}`, app("ctl-1")),
		storedOf(driver.SpaceJob, "broken", 15, `7`, app("ctl-1")),
	)
	s.say(t, event(driver.Synced))
	live(t, c)
	_, page := get(t, url)
	row := cells(t, page, "ingest")
	require.Equal(t, "partition", row["kind"])
	require.Equal(t, "1 waiting", row["queue"])
	require.Contains(t, row["holder"], "1 member, 3 shards owned")
	row = cells(t, page, "nightly")
	require.Equal(t, "job", row["kind"])
	require.Equal(t, "app completed next 2 Mar 03:00:00 UTC", row["holder"])
	require.Contains(t, cells(t, page, "broken")["holder"], "can&#39;t be read")
	require.Contains(t, page, `<symbol id="kind-partition"`)
	require.Contains(t, page, `<symbol id="kind-job"`)
	_, page = get(t, url+"/object?backend=etcd&kind=partition&name=ingest")
	_, nightly := get(t, url+"/object?backend=etcd&kind=job&name=nightly")
	for _, want := range []string{"Schedule CRON_TZ=UTC 0 3 * * *", "Last completed , UTC 1 Mar 03:00:00", "Next 2 Mar 03:00:00 UTC", "1 holder app ctl-1 7"} {
		require.Contains(t, textOf(nightly), want)
	}
	for _, want := range []string{"Shards owned 3 of 5", "Moving 1", "1 one app etl-1 7 3 3 0–1, 3", "1 one two"} {
		require.Contains(t, textOf(page), want)
	}
}

func app(host string) recipes.Owner { return recipes.Owner{Program: "app", Host: host, PID: 7} }

// varied is a console that shows an object of each kind.
func varied(t *testing.T) (string, *script) {
	s := newScript("etcd")
	c, url := start(t, nil, s)
	s.say(t, event(driver.Reset))
	s.say(t, allKinds(app)...)
	s.say(t, event(driver.Synced))
	live(t, c)
	return url, s
}

// cells are the texts of a row, by the classes of its cells.
func cells(t *testing.T, page, name string) map[string]string {
	t.Helper()
	row := regexp.MustCompile(`(?s)<tr[^>]* data-name="` + name + `".*?</tr>`).FindString(page)
	require.NotEmpty(t, row, name)
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)class="c-([a-z]+)[^"]*"[^>]*>(.*?)</t[dh]>`).FindAllStringSubmatch(row, -1) {
		text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(m[2], " ")
		all[m[1]] = strings.Join(strings.Fields(text), " ")
	}
	all["row"] = row
	return all
}

func TestListOfAllKinds(t *testing.T) {
	t.Parallel()
	url, _ := varied(t)
	_, page := get(t, url)
	for name, want := range map[string]struct{ kind, holder, host, queue string }{
		"pool":   {"semaphore", "app", "web-1 7", "–"},
		"main":   {"election", "app 10.0.0.1:80", "ctl-1 7", "1 waiting"},
		"job":    {"mutex", "app", "app-1 7", "–"},
		"boss":   {"boss", "app", "app-2 7", "–"},
		"web":    {"group", "2 members web-2 web-3", "–", "–"},
		"mail":   {"queue", "ready delayed taken dead 1 ready, 1 delayed, 1 taken, 1 dead", "–", "1 waiting"},
		"config": {"register", `{&#34;limit&#34;:20,&#34;hosts&#34;:[&#34;a&#34;,&#34;b&#34;]}`, "adm-1 7", "–"},
		"builds": {"counter", "42", "ci-1 7", "–"},
		"ready":  {"latch", "3 of 5 left", "web-4 7", "–"},
		"frozen": {"barrier", "set by app", "adm-2 7", "–"},
		"phase":  {"double-barrier", "round 7, 1 of 2 inside", "etl-1 7", "1 waiting"},
		"pay":    {"once", "1 running, 1 recorded", "pay-1 7", "–"},
		"api":    {"limiter", "full rest 100/s burst 50, 20 there, 30 out at 1 process", "api-1 7", "–"},
	} {
		row := cells(t, page, name)
		require.Equal(t, want.kind, row["kind"], name)
		require.Equal(t, want.holder, row["holder"], name)
		require.Equal(t, want.host, row["host"], name)
		require.Equal(t, want.queue, row["queue"], name)
		shape := "kind-" + want.kind
		if want.kind == "boss" {
			shape = "kind-lock"
		}
		require.Contains(t, row["row"], `<use href="#`+shape+`">`, "a kind has a shape")
		require.Contains(t, page, `<symbol id="`+shape+`"`)
	}
	require.Len(t, names(page), 13, "inboxes, limits and claims are nobody's to see")
	require.NotContains(t, page, "what is to be done")
	require.Contains(t, page, "Work items")
	require.Contains(t, page, "1 dead")
	require.Contains(t, page, `class="list single"`, "one backend needs no column")
}

// links are the links by kind: their kinds with counts, and the one that is current.
func links(page string) (all []string, current string) {
	for _, m := range regexp.MustCompile(`(?s)<a class="chip"[^>]*data-kind="([^"]*)"[^>]*aria-current="([a-z]+)".*?<b class="num">(\d+)</b>`).FindAllStringSubmatch(page, -1) {
		all = append(all, m[1]+" "+m[3])
		if m[2] == "true" {
			current += m[1] + "!"
		}
	}
	return all, current
}

func TestListFiltersByKind(t *testing.T) {
	t.Parallel()
	url, _ := varied(t)
	_, page := get(t, url)
	all, current := links(page)
	require.Equal(t, []string{
		" 13", "lock 4", "mutex 1", "semaphore 1", "election 1", "group 1", "queue 1", "register 1", "counter 1",
		"latch 1", "barrier 1", "double-barrier 1", "once 1", "limiter 1", "boss 1",
	}, all)
	require.Equal(t, "!", current)
	for query, want := range map[string]string{
		"kind=queue": "mail", "kind=lock": "boss job main pool", "kind=mutex": "job", "kind=boss": "boss",
		"kind=rwmutex": "", "kind=lock&q=ctl-2": "main", "kind=queue&q=taken-1": "mail", "q=double": "phase", "q=mail-1": "mail",
		"kind=%22%3E%3Cscript%3E": "", "q=order/2": "pay", "q=adm-1": "config",
	} {
		_, page := get(t, url+"/?"+query)
		require.Equal(t, want, strings.Join(names(page), " "), query)
		require.NotContains(t, page, `"><script>`)
	}
	_, page = get(t, url+"/?kind=rwmutex&q=a&sort=kind")
	all, current = links(page)
	require.Contains(t, all, "rwmutex 0", "what is wanted is there to be chosen off")
	require.Equal(t, "rwmutex!", current)
	require.Contains(t, page, `href="/?kind=queue&amp;q=a&amp;sort=kind"`, "a link keeps words and order")
	require.Contains(t, page, `<input type="hidden" name="kind" value="rwmutex">`)
	require.Contains(t, page, ">0 of 13 objects<")
	_, page = get(t, url+"/?sort=kind")
	require.Equal(t, "frozen boss builds phase main web ready api job pay mail config pool", strings.Join(names(page), " "))
	_, page = get(t, url+"/?sort=held")
	require.Equal(t, []string{"api", "builds", "config", "frozen", "pay", "phase", "ready"}, names(page)[:7], "written at the same time, and before locks were taken")
	require.Equal(t, []string{"mail", "web"}, names(page)[11:], "without a time")
}

// text is a page's text without markup.
func textOf(page string) string {
	page = regexp.MustCompile(`(?s)<(script|style|symbol).*?</`).ReplaceAllString(page, "<")
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")), " ")
}

func TestPageOfEachKind(t *testing.T) {
	t.Parallel()
	url, _ := varied(t)
	for object, wants := range map[string][]string{
		"semaphore&name=pool":       {"Permits 2 of 5", "holder app web-1 7 2 ", "Finished holds"},
		"election&name=main":        {"State led", "Term 11264 Value 10.0.0.1:80", "1 leader app ctl-1 7 3 ", "2 candidate app ctl-2 7 7 ", "Finished terms"},
		"mutex&name=job":            {"State held", "1 holder app app-1 7"},
		"boss&name=boss":            {"State held", "1 holder app app-2 7"},
		"group&name=web":            {"Members 2", "1 app web-2 7 {&#34;addr&#34;:&#34;10.0.0.2&#34;}", "2 app web-3 7 – "},
		"queue&name=mail":           {"Ready 1 Delayed 1 Taken 1 Dead 1 Workers in line 1", "ready-1 ready 4 0 ", "delayed-1 delayed 0 0", "due in", "taken-1 taken 0 2 ", "app mail-1 7", "dead-1 dead 0 0", "nobody could", "1 waiting app mail-2 7"},
		"register&name=config":      {"Version 30", "By app adm-1 7", "{ &#34;limit&#34;: 20, &#34;hosts&#34;: ["},
		"counter&name=builds":       {"Count 42", "Version 31", "By app ci-1 7"},
		"latch&name=ready":          {"State closed", "Counted 2 of 5", "By app web-4 7", "3 of 5 left"},
		"barrier&name=frozen":       {"State set", "By app adm-2 7"},
		"double-barrier&name=phase": {"Round 7 Inside 1 of 2", "Waiting 1", "1 inside app etl-1 7", "2 waiting app etl-2 7"},
		"once&name=pay":             {"Running 1 Waiting 0 Recorded 1", "1 worker order/2 app pay-2 7", "order/1"},
	} {
		response, page := get(t, url+"/object?backend=etcd&kind="+object)
		require.Equal(t, http.StatusOK, response.code)
		for _, want := range wants {
			require.Contains(t, textOf(page), want, object)
		}
		kind, _, _ := strings.Cut(object, "&")
		require.Contains(t, page, `<bdi class="tag">`+kind+`</bdi>`)
		require.NotContains(t, page, "what is to be done", "the values of items are not shown")
		require.NotContains(t, page, "the result")
	}
	_, old := get(t, url+"/lock?backend=etcd&name=main")
	require.Contains(t, textOf(old), "State led", "an older address leads to the lock")
}

func TestPageOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	url, _ := varied(t)
	for _, kind := range recipes.Kinds() {
		_, page := get(t, url+"/object?backend=etcd&name=none&kind="+string(kind))
		require.Regexp(t, "Nobody holds this lock|Nobody is in this group|This queue is empty|There is no "+string(kind)+" of this name", page, kind)
		_, page = get(t, url+"/object?backend=etcd&name=job&kind="+string(kind))
		require.Equal(t, kind.Family() == recipes.KindLock, strings.Contains(page, "app-1"), "a name can be another kind's too")
	}
	response, _ := get(t, url+"/object?backend=etcd&name=job&kind="+strings.Repeat("x", maxKind+1))
	require.Equal(t, http.StatusNotFound, response.code)
}

// TestStreamOfKinds follows objects as they change, the links by kind, and the page of
// a queue.
func TestStreamOfKinds(t *testing.T) {
	t.Parallel()
	url, s := varied(t)
	list := follow(t, url, "view=list")
	queue := follow(t, url, "view=object&backend=etcd&kind=queue&name=mail")
	list.next()
	queue.next()
	require.Contains(t, textOf(queue.parts["object"]), "Ready 1 Delayed 1 Taken 1 Dead 1")

	claim := partOf(driver.SpaceClaim, "mail"+driver.PartSeparator+"ready-1", "c2", 50, recipes.KindQueue, "", app("mail-2"))
	s.say(t, claim)
	queue.until(func() bool {
		return strings.Contains(textOf(queue.parts["object"]), "Ready 0 Delayed 1 Taken 2 Dead 1")
	})
	list.until(func() bool { return strings.Contains(list.rows["etcd/queue/mail"], "1 delayed, 2 taken, 1 dead") })
	s.say(t, removed(itemOf("ready-1", 20, "", app("")))) // acknowledged
	queue.until(func() bool {
		return strings.Contains(textOf(queue.parts["object"]), "Ready 0 Delayed 1 Taken 1 Dead 1")
	})

	s.say(t, removed(storedOf(driver.SpaceBarrier, "frozen", 33, "{}", app(""))))
	list.until(func() bool { return list.rows["etcd/barrier/frozen"] == "" })
	all, _ := links(list.parts["kinds"])
	require.NotContains(t, all, "barrier 1")
	require.Contains(t, all, " 12")
	s.say(t, storedOf(driver.SpaceBarrier, "frozen", 60, "{}", app("adm-9")))
	list.until(func() bool { return strings.Contains(list.rows["etcd/barrier/frozen"], "adm-9") })
}

// TestChangesOfAnEntryShow changes what an entry shows, and nothing else.
func TestChangesOfAnEntryShow(t *testing.T) {
	t.Parallel()
	url, s := varied(t)
	leader := follow(t, url, "view=object&backend=etcd&kind=election&name=main")
	leader.next()
	s.say(t, partOf(driver.SpaceLock, "main", "e1", 11, recipes.KindElection,
		`"published":{"priority":3,"lead":{"term":"11264","value":"moved","since":"2026-03-01T12:00:00Z"}}`, app("ctl-1")))
	leader.until(func() bool { return strings.Contains(textOf(leader.parts["object"]), "Value moved") })
	index := follow(t, url, "view=object&backend=etcd&kind=lock&name=index")
	index.next()
	s.say(t, partOf(driver.SpaceLock, "index", "r1", 70, recipes.KindRWMutex, "", app("web-1")))
	index.until(func() bool { return strings.Contains(index.parts["object"], "holder") })
	require.NotContains(t, index.parts["object"], ">shared<")
	fresh := follow(t, url, "view=object&backend=etcd&kind=lock&name=fresh")
	fresh.next()
	require.Contains(t, textOf(fresh.parts["object"]), "fresh lock")
	s.say(t, partOf(driver.SpaceLock, "fresh", "c1", 80, recipes.KindElection, "", app("ctl-1")))
	fresh.until(func() bool { return strings.Contains(textOf(fresh.parts["object"]), "fresh election") })
	require.Contains(t, fresh.parts["object"], "#kind-election")
	s.say(t, partOf(driver.SpaceLock, "index", "r1", 70, recipes.KindRWMutex, `"mode":"shared"`, app("web-1")))
	index.until(func() bool { return strings.Contains(index.parts["object"], ">shared<") })
}

// TestItemsComeDue has an item's delay pass, of which nobody tells.
func TestItemsComeDue(t *testing.T) {
	t.Parallel()
	s := newScript("etcd")
	c, url := start(t, nil, s)
	soon := time.Now().Add(2 * time.Second).Format(time.RFC3339Nano)
	s.say(t, event(driver.Reset), itemOf("1", 5, `,"due":"`+soon+`"`, app("a")), event(driver.Synced))
	live(t, c)
	f := follow(t, url, "view=list")
	f.next()
	require.Contains(t, f.rows["etcd/queue/mail"], "1 delayed")
	f.until(func() bool { return strings.Contains(f.rows["etcd/queue/mail"], "1 ready") })
}

func TestHostileKinds(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[31m\u202e<img src=x onerror=alert(1)>\u200b"
	s := newScript("etcd")
	c, url := start(t, nil, s)
	quoted, err := json.Marshal(evil)
	require.NoError(t, err)
	hostile := func(host string) recipes.Owner {
		return recipes.Owner{Program: evil, Host: evil + host, User: evil, Label: evil}
	}
	s.say(t, event(driver.Reset))
	s.say(t, allKinds(hostile)...)
	s.say(t,
		partOf(driver.SpaceLock, "x", "k1", 90, recipes.Kind("k"), "", app("a")),
		entryOf(driver.SpaceLock, "kind", "k2", 91, fmt.Sprintf(`{"kind":%s}`, quoted)),
		storedOf(driver.SpaceRegister, "evil", 92, fmt.Sprintf(`{"a":%s}`, quoted), hostile("")),
		itemOf(evil, 93, fmt.Sprintf(`,"dead":%s`, quoted), hostile("")),
		partOf(driver.SpaceOnce, "pay"+driver.PartSeparator+evil, "o2", 94, recipes.KindOnce, "", hostile("")),
		partOf(driver.SpaceGroup, "web", "g3", 95, recipes.KindGroup, fmt.Sprintf(`"published":%s`, quoted), hostile("")),
		storedOf(driver.SpaceResult, "pay", 96, fmt.Sprintf(`[{"key":%s}]`, quoted), hostile("")),
		event(driver.Synced))
	live(t, c)
	pages := []string{"/", "/?kind=lock"}
	_, list := get(t, url)
	for _, m := range regexp.MustCompile(`href="(/object\?[^"]*)"`).FindAllStringSubmatch(list, -1) {
		pages = append(pages, strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	require.Greater(t, len(pages), 14)
	for _, path := range pages {
		response, page := get(t, url+path)
		require.Equal(t, http.StatusOK, response.code, path)
		for _, bad := range []string{"<img", "\x1b", "\u202e", "\u200b"} {
			require.NotContains(t, page, bad, path)
		}
	}
}

func TestSnapshotOfAllKinds(t *testing.T) {
	t.Parallel()
	url, _ := varied(t)
	_, body := get(t, url+"/api/objects")
	var s Snapshot
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	require.Nil(t, s.Locks)
	require.Len(t, *s.Objects, 13)
	byName := map[string]ObjectStatus{}
	for _, o := range *s.Objects {
		byName[o.Name] = o
	}
	require.Equal(t, "queue", byName["mail"].Kind)
	require.Equal(t, map[recipes.ItemState]int{"ready": 1, "delayed": 1, "taken": 1, "dead": 1}, byName["mail"].Tally)
	require.Equal(t, "taken-1", byName["mail"].Queue[0].Part)
	require.Equal(t, "closed", byName["ready"].Word)
	require.Equal(t, 3, *byName["ready"].Left)
	require.JSONEq(t, `{"limit":20,"hosts":["a","b"]}`, string(byName["config"].Value))
	require.Equal(t, `led by app@ctl-1:7, "10.0.0.1:80"`, byName["main"].Summary)
	require.NotContains(t, body, "what is to be done")

	_, body = get(t, url+"/api/objects?kind=group&q=web-3")
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	require.Len(t, *s.Objects, 1)
	s = Snapshot{}
	_, body = get(t, url+"/api/locks")
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	require.Nil(t, s.Objects)
	require.Len(t, *s.Locks, 4)
}

func TestShares(t *testing.T) {
	t.Parallel()
	require.Equal(t, []share{{"a", "0", "25", "a"}, {"c", "25", "75", "c"}}, shares([]string{"a", "b", "c"}, []int{1, 0, 3}))
	require.Empty(t, shares([]string{"a"}, []int{0}))
	require.Equal(t, []bool{true, true, false}, meter{2, 3}.marks())
	require.Equal(t, []bool{true}, meter{5, 1}.marks(), "more than there are, after the limit was lowered")
	require.Nil(t, meter{5, 100}.marks())
	require.Nil(t, meter{}.marks())
}
