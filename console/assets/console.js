// The script of the console's pages. The server has rendered the page completely; this
// follows the stream of changes, puts what the server rendered in place of what
// is there, counts ages, filters and sorts, and says when the picture is not live.
'use strict';

(() => {
  const page = document.body.dataset;
  const byID = (id) => document.getElementById(id);
  const table = byID('list');
  const tbody = byID('rows'); // null on an object's page
  const filter = byID('q');

  // ---- Markup from the server, which has escaped what other processes wrote

  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy('console', { createHTML: (html) => html })
    : { createHTML: (html) => html };

  function parse(html) {
    const template = document.createElement('template');
    template.innerHTML = policy.createHTML(html);
    return template.content;
  }

  // ---- Time, by the server's clock

  let offset = Number(page.now) - Date.now();
  const two = (n) => String(n).padStart(2, '0');

  function age(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
    if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor(s / 60) % 60)}m`;
    return `${Math.floor(s / 86400)}d ${two(Math.floor(s / 3600) % 24)}h`;
  }

  // until is how long a moment takes to come. The tick of a job can be overdue.
  function until(time, ms) {
    if (time.dataset.soon === undefined) return age(ms);
    return ms <= -1000 ? `overdue ${age(-ms)}` : time.dataset.soon + age(ms);
  }

  function count(root) {
    const now = Date.now() + offset;
    const put = (time, text) => {
      if (time.firstChild.data !== text) time.firstChild.data = text;
    };
    for (const time of root.querySelectorAll('time[data-ms]')) put(time, age(now - Number(time.dataset.ms)));
    for (const time of root.querySelectorAll('time[data-until]')) put(time, until(time, Number(time.dataset.until) - now));
  }

  // settle makes new markup ready to be shown: ages, and moments in local time.
  function settle(root) {
    for (const time of root.querySelectorAll('time[data-ms]')) {
      time.title = `since ${new Date(Number(time.dataset.ms)).toLocaleString()}`;
    }
    for (const time of root.querySelectorAll('time[data-until]')) {
      time.title = new Date(Number(time.dataset.until)).toLocaleString();
    }
    for (const time of root.querySelectorAll('time[data-at]')) {
      const moment = new Date(Number(time.dataset.at));
      const today = moment.toDateString() === new Date().toDateString();
      time.textContent = today ? moment.toLocaleTimeString() : moment.toLocaleString();
    }
    count(root);
  }

  // ---- The list

  const records = new Map(); // key → what a row is sorted and filtered by
  let order = table ? table.dataset.sort : 'name';
  let words = [];
  let kind = table ? table.dataset.kind : ''; // wanted; "lock" are all locks
  let limit = Number(page.limit) || Infinity; // rows in the document

  const columns = {
    name: (a, b) => text(a.name, b.name),
    kind: (a, b) => text(a.kind, b.kind),
    backend: (a, b) => text(a.backend, b.backend),
    holder: (a, b) => text(a.holder, b.holder),
    held: (a, b) => a.since - b.since,
    queue: (a, b) => b.depth - a.depth,
  };
  const text = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  function record(tr) {
    const d = tr.dataset;
    return {
      tr, key: d.key, name: d.name.toLowerCase(), backend: d.backend.toLowerCase(), holder: d.holder,
      since: Number(d.since), depth: Number(d.depth), search: d.search, kind: d.kind, lock: 'lock' in d, turn: d.turn,
    };
  }

  function putRow(key, html, fresh) {
    const old = records.get(key);
    if (!html) {
      if (old) removeRow(old);
      return;
    }
    const tr = parse(html).firstElementChild;
    const now = record(tr);
    if (fresh) light(tr, old, now);
    records.set(key, now);
    if (!old || !old.tr.isConnected) return; // arrange gives it its place
    const focused = old.tr.contains(document.activeElement);
    old.tr.replaceWith(tr);
    settle(tr);
    if (focused) target(tr).focus({ preventScroll: true });
  }

  // light points to what is new in a row.
  function light(tr, old, now) {
    if (!old || old.turn !== now.turn) tr.classList.add('fresh');
    else if (old.depth !== now.depth) tr.classList.add('changed');
    else if (old.holder !== now.holder) tr.classList.add('altered');
  }

  // removeRow hands the focus on to a neighbour, so that the keyboard keeps its place.
  function removeRow(r) {
    if (r.tr.contains(document.activeElement)) move(1) || move(-1);
    r.tr.remove();
    records.delete(r.key);
  }

  // arrange puts the rows that are to be seen into their order. The others are kept
  // out of the document, where thousands of them would make every change slow.
  function arrange() {
    const focused = document.activeElement.closest('#rows tr');
    const column = order.replace(/^-/, '');
    const sign = order.startsWith('-') ? -1 : 1;
    const compare = columns[column] || columns.name;
    const wanted = (r) => !kind || r.kind === kind || kind === 'lock' && r.lock;
    const found = [...records.values()].filter((r) => wanted(r) && words.every((word) => r.search.includes(word)));
    found.sort((a, b) => sign * compare(a, b) || text(a.name, b.name) || text(a.key, b.key));
    const shown = found.slice(0, limit);
    const keep = new Set(shown.map((r) => r.tr));
    for (const tr of [...tbody.rows]) if (!keep.has(tr)) tr.remove();
    let at = tbody.firstElementChild;
    for (const { tr } of shown) {
      if (tr === at) {
        at = at.nextElementSibling;
      } else {
        settle(tr);
        tbody.insertBefore(tr, at);
      }
    }
    if (focused && focused.isConnected && document.activeElement === document.body) {
      target(focused).focus({ preventScroll: true }); // it was lost when the row moved
    }
    report(found.length, shown.length);
  }

  // report says how many rows there are, and what to do when there is none.
  function report(found, shown) {
    const total = records.size;
    const all = `${total} ${total === 1 ? 'object' : 'objects'}`;
    byID('count').textContent = words.length || kind ? `${found} of ${all}` : all;
    byID('empty').hidden = total > 0;
    byID('nomatch').hidden = total === 0 || found > 0;
    byID('more').hidden = shown === found;
    byID('more-count').textContent = `The first ${shown} of ${found} are shown.`;
    table.hidden = found === 0;
  }

  const wordsOf = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);

  function applyFilter() {
    words = wordsOf(filter.value);
    arrange();
    remember();
  }

  // choose shows one kind, or all.
  function choose(next) {
    kind = next;
    markKind();
    arrange();
    remember();
  }

  // markKind shows which of the links is chosen, after the server has sent new ones too.
  function markKind() {
    for (const link of chips()) {
      link.setAttribute('aria-current', link.dataset.kind === kind);
      link.href = address(link.dataset.kind);
    }
  }

  // keepKind keeps the link of the chosen kind, of which there may be nothing now.
  function keepKind(content) {
    const same = (link) => link.dataset.kind === kind;
    const old = chips().find(same);
    if (!old || [...content.querySelectorAll('a')].some(same)) return;
    old.querySelector('b').textContent = '0';
    content.append(old);
  }

  const chips = () => [...byID('kinds').querySelectorAll('a')];

  // address is that of the list as it is, but of another kind.
  function address(of) {
    const url = new URL(location.href);
    if (of) url.searchParams.set('kind', of);
    else url.searchParams.delete('kind');
    url.searchParams.delete('show');
    return url.pathname + url.search;
  }

  // moveKind goes along the links, when one of them has the focus.
  function moveKind(step) {
    const all = chips();
    const at = all.indexOf(document.activeElement);
    if (at < 0 || !all[at + step]) return false;
    all[at + step].focus();
    return true;
  }

  function sortBy(column) {
    order = order === column ? `-${column}` : column;
    for (const link of table.querySelectorAll('a.sort')) {
      const th = link.closest('th');
      const falling = (link.dataset.sort === 'held' || link.dataset.sort === 'queue') !== order.startsWith('-');
      const chosen = link.dataset.sort === column;
      th.setAttribute('aria-sort', !chosen ? 'none' : falling ? 'descending' : 'ascending');
    }
    arrange();
    remember();
  }

  // remember keeps filter and order in the address, for reloads and bookmarks.
  function remember() {
    const url = new URL(location.href);
    const set = (name, value) => (value ? url.searchParams.set(name, value) : url.searchParams.delete(name));
    set('q', filter.value.trim());
    set('kind', kind);
    set('sort', order === 'name' ? '' : order);
    set('show', limit === Infinity && page.limit ? 'all' : '');
    history.replaceState(null, '', url);
    markKind();
  }

  // ---- Parts that are replaced as a whole

  function putPart(id, html) {
    const part = byID(id);
    if (!part) return;
    const content = parse(html);
    settle(content);
    const key = part.contains(document.activeElement) && document.activeElement.dataset.key;
    if (id === 'kinds') keepKind(content);
    part.replaceChildren(content);
    if (id === 'kinds') markKind();
    const again = key && part.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (again) again.focus({ preventScroll: true });
  }

  // ---- The stream

  const SILENCE = 12000; // ms; the server says something every 5 s
  const STALE = 5000; // ms without a connection
  let socket = null;
  let timer = 0;
  let retry = 250;
  let heard = Date.now(); // when the picture was last known to be right
  let began = 0; // when the connection was begun
  let state = '';
  let epoch = page.epoch; // of the picture, with its revision
  let revision = page.revision;
  let coming = ''; // the epoch of the connection
  let seen = null; // keys of a snapshot that is not complete

  function connect() {
    clearTimeout(timer);
    if (socket) return;
    const url = new URL(page.socket, location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    url.search = page.view + (epoch ? `&epoch=${epoch}&revision=${revision}` : '');
    began = Date.now();
    const mine = new WebSocket(url);
    socket = mine;
    mine.onmessage = (event) => { if (socket === mine) receive(JSON.parse(event.data)); };
    mine.onclose = () => { if (socket === mine) lost(); };
  }

  function lost() {
    const old = socket;
    socket = null;
    seen = null;
    if (old) old.close();
    if (state !== 'stale') show('reconnecting');
    timer = setTimeout(connect, retry * (0.75 + Math.random() / 2));
    retry = Math.min(2 * retry, 5000);
  }

  function receive(m) {
    heard = Date.now();
    if (m.now) offset = m.now - heard;
    if (m.type === 'hello') {
      coming = m.epoch;
      if (m.assets !== page.assets) renew();
      return;
    }
    if (tbody) takeRows(m);
    for (const part of m.parts || []) putPart(part.id, part.html);
    if (m.more) return;
    epoch = coming;
    revision = m.revision;
    retry = 250;
    show('live');
  }

  // renew loads the page anew when the console is of another version by now, but
  // not again and again, should there be two versions behind one address.
  function renew() {
    if (Date.now() - Number(sessionStorage.renewed || 0) < 60000) return;
    sessionStorage.renewed = Date.now();
    location.reload();
  }

  function takeRows(m) {
    const rows = m.rows || [];
    const whole = m.type === 'snapshot';
    for (const row of rows) putRow(row.key, row.html, !whole && state === 'live');
    if (whole) {
      seen = seen || new Set();
      for (const row of rows) seen.add(row.key);
      if (m.more) return;
      for (const r of [...records.values()]) if (!seen.has(r.key)) removeRow(r);
      seen = null;
    }
    if (whole || rows.length > 0) arrange();
  }

  // ---- How live the picture is

  const title = document.title;

  function show(next) {
    if (next !== state) {
      state = next;
      byID('link').dataset.state = state;
      byID('link-word').textContent = state;
      document.documentElement.dataset.link = state;
      document.title = state === 'stale' ? `▲ stale · ${title}` : title;
    }
    const quiet = state === 'live' || state === 'connecting';
    byID('link-since').textContent = quiet ? '' : `since ${age(Date.now() - heard)}`;
  }

  function tick() {
    if (state !== 'stale') count(document); // nobody knows whether the holds go on
    const silent = Date.now() - heard;
    if (socket && Math.min(silent, Date.now() - began) > SILENCE) lost();
    if (state !== 'live') show(silent > STALE ? 'stale' : state);
  }

  // ---- Keyboard and mouse

  const rows = () => [...document.querySelectorAll('tbody tr')];
  const target = (tr) => tr.querySelector('th a') || tr;

  function move(step) {
    const all = rows();
    const at = all.findIndex((tr) => tr.contains(document.activeElement));
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
    if (!all[next]) return false;
    target(all[next]).focus();
    return true;
  }

  const keys = {
    '/': () => filter && (filter.focus(), filter.select()),
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    ArrowLeft: () => tbody && moveKind(-1),
    ArrowRight: () => tbody && moveKind(1),
    t: () => tbody && (chips().find((link) => link.dataset.kind === kind) || chips()[0]).focus(),
    Escape: () => filter && clear(),
    u: () => !tbody && byID('up').click(),
  };

  // clear shows everything again.
  function clear() {
    if (!filter.value && !kind) return;
    filter.value = '';
    kind = '';
    applyFilter();
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target === filter) {
      if (event.key === 'Escape') filter.value || kind ? clear() : filter.blur();
      else if (event.key === 'ArrowDown') move(1);
      else return;
    } else if (!keys[event.key]) {
      return;
    } else {
      // Arrows scroll, unless there is a row to go to.
      const used = keys[event.key]();
      if (event.key.startsWith('Arrow') && !used) return;
    }
    event.preventDefault();
  }

  // A click anywhere on a row opens it, unless text is being selected.
  function clicked(event) {
    const tr = event.target.closest('tr');
    if (!tr || event.target.closest('a') || String(getSelection())) return;
    target(tr).click();
  }

  function startList() {
    for (const tr of tbody.rows) {
      const r = record(tr);
      records.set(r.key, r);
    }
    words = wordsOf(filter.value);
    filter.addEventListener('input', applyFilter);
    byID('filter').addEventListener('submit', (event) => {
      event.preventDefault();
      move(1);
    });
    byID('kinds').addEventListener('click', (event) => {
      const link = event.target.closest('a');
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      choose(link.dataset.kind);
    });
    byID('more').addEventListener('click', (event) => {
      if (!event.target.closest('a')) return;
      event.preventDefault();
      limit = Infinity;
      arrange();
      remember();
    });
    byID('clear').addEventListener('click', (event) => {
      event.preventDefault();
      clear();
      filter.focus();
    });
    table.tHead.addEventListener('click', (event) => {
      const link = event.target.closest('a.sort');
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      sortBy(link.dataset.sort);
    });
    tbody.addEventListener('click', clicked);
    tbody.addEventListener('animationend', (event) => event.target.closest('tr').classList.remove('fresh', 'changed', 'altered'));
  }

  function resume() {
    if (document.hidden) return;
    tick();
    if (!socket) connect();
  }

  if (tbody) startList();
  settle(document);
  byID('keys').hidden = false;
  show('connecting');
  document.addEventListener('keydown', pressed);
  document.addEventListener('visibilitychange', resume);
  addEventListener('online', resume);
  addEventListener('pageshow', (event) => { if (event.persisted) resume(); });
  addEventListener('pagehide', () => { if (socket) lost(); clearTimeout(timer); });
  setInterval(tick, 1000);
  connect();
})();
