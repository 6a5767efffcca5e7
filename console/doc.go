// Package console serves a live picture of the locks of one or several services
// to browsers: who holds what, who waits behind whom, and for how long; and of the
// groups, queues, registers and whatever else exists there.
//
//	c, err := console.New([]console.Backend{{Name: "etcd", Client: client}}, nil)
//	…
//	go c.Run(ctx)
//	err = http.ListenAndServe("127.0.0.1:8420", c)
//
// A [Console] is an http.Handler. With Options.BasePath it can be mounted below a
// path of a larger site. It only looks: nothing that a browser sends changes a lock.
//
// # Pages
//
//	/                            all objects; ?q= and ?kind= filter, ?sort= orders,
//	                             ?show=all lifts the limit of 300 rows
//	/object?backend=B&kind=K&name=N
//	                             one object, in a layout that suits its kind, also while
//	                             there is none; without a kind a lock
//	/api/objects                 the same picture as JSON, see [Snapshot]; ?q=, ?kind=
//	/api/locks                   the locks alone
//	/healthz                     JSON, see [Health]; 200 while the console runs
//	/socket                      the stream of changes, a websocket
//	/assets/…                    style, script and icon, named by their content
//
// The pages are complete without JavaScript and show the state at the time of
// their loading. With it they follow the stream.
//
// # The stream
//
// The server numbers the changes of its picture: a revision, which means something
// within one epoch, that is one life of the console. A page knows the epoch and the
// revision that it shows and sends both when it connects
// (/socket?view=list or view=object&backend=B&kind=K&name=N, then epoch=E&revision=R).
// The server's messages are JSON objects with a "type":
//
//	hello     epoch, revision, now (ms since 1970), assets (a version of the files)
//	snapshot  rows and parts: all there is; the page forgets the rest
//	changes   rows and parts: what is no longer as it was at the page's revision
//	beat      revision, now: sent every 5 s, so that silence means a dead link
//
// A row is {"key", "html"}, without "html" when it is gone; a part is {"id", "html"}.
// A message that is one of several has "more": true; the revision counts with the
// last. Replay after a reconnect and ordinary changes are the same message. When
// the console no longer knows what changed since, it sends a snapshot.
//
// The component that renders a row of the first page renders the rows that are
// pushed, once for each change and for all viewers. A viewer has no queue: the server
// keeps the objects in order of their last change, and a viewer is a position in that
// order. A slow one skips what was overtaken. The first change is sent at once, later
// ones at most ten times a second.
//
// # Guarantees
//
//   - One watch per backend, however many viewers there are.
//   - Memory is bounded by what exists, at most 1,000 more objects that existed lately,
//     and a constant per viewer.
//   - What may be out of date says so: a backend that can't be reached marks what it has
//     as stale, a page that lost its connection marks itself.
//   - What other processes wrote is shown as text, with control, invisible and
//     bidirectional characters written out.
//
// # Non-guarantees
//
//   - There is no login. Whoever reaches the address sees all names, who holds what, what
//     members say of themselves and the values of registers, though not those of work
//     items: keep it on loopback, or behind a proxy that asks who they are.
//   - Records of finished holds live in memory, begin with the console, and have only the
//     holds whose begin and end the watch saw.
//
// # Security
//
// Requests are answered only under the host names that the console knows, so that
// a page elsewhere cannot read it by pointing its own name at this address; sockets
// only for pages of the console itself, or of the hosts that were allowed. The
// content policy admits the console's own files and no inline code.
//
// # Time
//
// "Held for" is counted by the page from the moment at which the hold began, corrected
// by the difference between the server's clock and its own.
package console

//go:generate go tool -modfile=../tools/go.mod templ generate
