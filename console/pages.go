package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

const (
	maxName   = 512         // bytes, see recipes.Client.Mutex
	maxKind   = 64          // bytes, see recipes.Kind
	maxListed = 300         // rows that the list shows unless asked for all
	viewList  = "view=list" // what the list asks the stream for
)

// pageModel is what all pages have around their content.
type pageModel struct {
	Site    site
	Title   string // of the page
	Head    string // of the console
	Version string
	Nonce   string
	Assets  map[string]string // by plain name, the addresses
	Kept    string            // the version of the assets

	View     string // what the stream is asked for; "" for a page without one
	Epoch    string // "" to be given everything
	Revision string
	Now      string // ms since 1970
	Stamp    string // the same for people
	Limit    string // rows that a list shows, "" for all
	parts    []part
}

// part writes the part of that ID.
func (m pageModel) part(id string) templ.Component {
	for _, p := range m.parts {
		if p.id == id {
			return raw(p.fragment().html)
		}
	}
	return templ.NopComponent
}

func (c *Console) page(ec echo.Context, title string) pageModel {
	now := c.hub.now()
	m := pageModel{
		Site: c.hub.site, Title: title, Head: c.opts.Title, Version: c.opts.Version,
		Assets: map[string]string{}, Kept: c.assets.version,
		Now: millis(now), Stamp: stamp(now),
	}
	m.Nonce, _ = ec.Get(nonceKey).(string)
	for name, hashed := range c.assets.names {
		m.Assets[name] = c.opts.BasePath + "/assets/" + hashed
	}
	return m
}

// listModel is the page of all objects.
type listModel struct {
	pageModel
	Query listQuery
	Kinds kindsModel
	Rows  []*card
	Found int  // objects that the query has
	Total int  // objects, whether the query has them or not
	Cut   bool // there are more than these rows

	Single bool // there is one backend, which needs no column
}

// count says how many objects the page has.
func (m listModel) count() string {
	if m.Query.text == "" && m.Query.kind == "" {
		return objects(m.Total)
	}
	return fmt.Sprintf("%d of %s", m.Found, objects(m.Total))
}

// listPage is the handler of the list.
func (c *Console) listPage(ec echo.Context) error {
	u := c.hub.current(view{})
	m := listModel{pageModel: c.page(ec, "Objects"), Query: readQuery(ec.QueryParam), Total: len(u.rows), Single: len(c.hub.backends) == 1}
	m.Kinds = newKindsModel(m.Site, c.hub.tally(), m.Query)
	m.parts = u.parts
	m.View, m.Epoch, m.Revision = viewList, c.hub.epoch, strconv.FormatUint(u.revision, 10)
	for _, row := range u.rows {
		if row.matches(m.Query.kind, m.Query.text) {
			m.Rows = append(m.Rows, row)
		}
	}
	m.Query.order.sort(m.Rows)
	m.Found = len(m.Rows)
	if !m.Query.whole {
		m.Limit = strconv.Itoa(maxListed)
		m.Rows = m.Rows[:min(len(m.Rows), maxListed)]
	}
	m.Cut = len(m.Rows) < m.Found
	if len(m.Rows) < m.Total {
		m.Epoch = "" // the page lacks rows that may be wanted later
	}
	return answer(ec, http.StatusOK, listPage(m))
}

// objectModel is the page of one object.
type objectModel struct {
	pageModel
	Backend backendView
}

// objectPage is the handler of one object's page, whether there is one or not.
func (c *Console) objectPage(ec echo.Context) error {
	v, err := c.objectView(ec)
	if err != nil {
		return err
	}
	u := c.hub.current(v)
	name := newText(v.object.Name)
	m := objectModel{pageModel: c.page(ec, name.Shown), Backend: v.backend}
	m.parts = u.parts
	m.View = "view=object&backend=" + url.QueryEscape(v.backend.Name) + "&kind=" + url.QueryEscape(string(v.object.Kind)) +
		"&name=" + url.QueryEscape(v.object.Name)
	m.Epoch, m.Revision = c.hub.epoch, strconv.FormatUint(u.revision, 10)
	return answer(ec, http.StatusOK, objectPage(m))
}

// objectView reads which object is meant. Without a kind it is a lock.
func (c *Console) objectView(ec echo.Context) (view, error) {
	b, ok := c.hub.backend(ec.QueryParam("backend"))
	if !ok {
		return view{}, echo.NewHTTPError(http.StatusNotFound,
			fmt.Sprintf("There is no backend “%s” here.", clip(termtext.Escape(ec.QueryParam("backend")), 100)))
	}
	o := recipes.Object{Kind: recipes.Kind(cmp.Or(ec.QueryParam("kind"), string(recipes.KindLock))), Name: ec.QueryParam("name")}
	if o.Name == "" || len(o.Name) > maxName || len(o.Kind) > maxKind {
		return view{}, echo.NewHTTPError(http.StatusNotFound, "A name has 1 to 512 bytes.")
	}
	return view{backend: b, object: o}, nil
}

// failed answers with a page that says what went wrong.
func (c *Console) failed(err error, ec echo.Context) {
	if ec.Response().Committed {
		return
	}
	code, what := http.StatusInternalServerError, "Something went wrong here."
	var known *echo.HTTPError
	if errors.As(err, &known) {
		code, what = known.Code, http.StatusText(known.Code)
		if said, ok := known.Message.(string); ok && said != what {
			what = said
		} else if code == http.StatusNotFound {
			what = "There is no such page."
		}
	}
	m := c.page(ec, strconv.Itoa(code)+" "+http.StatusText(code))
	_ = answer(ec, code, errorPage(m, what)) // whoever asked has gone
}

func answer(ec echo.Context, code int, content templ.Component) error {
	return ec.HTMLBlob(code, render(content))
}
